/** What stands above the charts: which test this is, its marks, the headline figures and the findings. */

import { element, number, withUnit } from "./format";
import type { Figure, Finding, Reply } from "./reply";

const SEVERITIES: Record<string, string> = { error: "Error", warning: "Warning", note: "Note" };

/** The marks that must stand on every output, most grave last, with what each means. */
export function marks(reply: Reply): HTMLElement[] {
  const made: [string, string, string][] = [];
  if (reply.provisional && reply.run) made.push(["provisional", "PROVISIONAL", "The test runs: figures may still change."]);
  if (reply.simulated) made.push(["simulated", "SIMULATED", "The embedded engine answers: no figure is of a real model."]);
  if (reply.incomplete) {
    const lost = reply.lost_workers.join(", ");
    made.push(["incomplete", `INCOMPLETE: lost ${lost}`, "The last figures of these workers are missing."]);
  }
  return made.map(([name, word, why]) => element("span", { class: `mark ${name}`, title: why, tabindex: "0" }, word));
}

/** "n 1,234" where the samples are known. */
function samples(figure: Figure): string {
  return figure.n === null ? "" : `n ${number(figure.n)}`;
}

/** The headline strip. Each figure can be reached by the keyboard and reads as one sentence. */
export class Headline {
  readonly root = element("ul", { class: "headline", "aria-label": "Headline figures" });
  private readonly tiles = new Map<string, HTMLElement>();

  constructor(private readonly help: (key: string) => string) {}

  show(figures: Figure[]): void {
    const keys = figures.map((figure) => figure.key);
    if (keys.join() !== [...this.tiles.keys()].join()) {
      this.tiles.clear();
      for (const key of keys) this.tiles.set(key, element("li", { tabindex: "0", "data-key": key }));
      this.root.replaceChildren(...this.tiles.values());
    }
    for (const figure of figures) this.fill(this.tiles.get(figure.key)!, figure);
  }

  private fill(tile: HTMLElement, figure: Figure): void {
    const below = [samples(figure), figure.note].filter(Boolean).join(" · ");
    const value = figure.value === null ? "no value yet" : withUnit(figure.value, figure.unit);
    tile.setAttribute("aria-label", `${figure.title}: ${value}${below ? `, ${below}` : ""}`);
    tile.title = this.help(figure.key);
    tile.replaceChildren(
      element("span", { class: "title" }, figure.title),
      element(
        "span",
        { class: "value" },
        number(figure.value),
        figure.value === null || !figure.unit ? null : element("small", {}, ` ${figure.unit}`),
      ),
      element("span", { class: "note" }, below),
    );
  }
}

/** The findings, a sentence each; nothing where there are none. */
export function fillFindings(root: HTMLElement, findings: Finding[]): void {
  root.hidden = findings.length === 0;
  root.replaceChildren(
    ...findings.map((finding) =>
      element(
        "li",
        { class: `finding ${finding.severity in SEVERITIES ? finding.severity : "note"}`, "data-key": finding.key },
        element("b", {}, SEVERITIES[finding.severity] ?? finding.severity),
        " ",
        finding.sentence,
      ),
    ),
  );
}
