/** Light and dark, as chosen in Locust (which keeps it in localStorage), and followed while the page is open. */

export type Theme = "light" | "dark";

export interface Palette {
  text: string;
  axis: string;
  split: string;
  panel: string;
}

/** Those of Locust's own charts. */
export const PALETTES: Record<Theme, Palette> = {
  light: { text: "#000", axis: "#000", split: "#ddd", panel: "#fff" },
  dark: { text: "#b3c3bc", axis: "#5b6f66", split: "#4c4c52", panel: "#27272a" },
};

const dark = window.matchMedia("(prefers-color-scheme: dark)");

/** What Locust's page shows now; `own` pages have no Locust to follow. */
export function theme(own: boolean): Theme {
  let chosen: string | undefined;
  try {
    chosen = own ? undefined : localStorage.theme;
  } catch {
    chosen = undefined; // storage is barred: follow the system
  }
  return (chosen === undefined ? dark.matches : chosen === "dark") ? "dark" : "light";
}

/** Call `follow` now and at each change. */
export function watchTheme(own: boolean, follow: (theme: Theme) => void): void {
  const show = (): void => {
    const now = theme(own);
    document.documentElement.dataset.theme = now;
    follow(now);
  };
  dark.addEventListener("change", show);
  window.addEventListener("storage", show); // another document of Locust's, our own parent too, changed it
  show();
}
