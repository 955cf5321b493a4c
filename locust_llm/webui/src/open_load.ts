/** Open load: how many arrivals were scheduled, sent, dropped, how late, and whether they outgrew the service. */

import { element } from "./format";
import type { OpenLoad } from "./reply";

/** Fill the section of open load; hidden in closed loop. */
export function fillOpenLoad(root: HTMLElement, load: OpenLoad | null | undefined): void {
  root.hidden = !load;
  if (!load) return;
  root.replaceChildren(
    element("h2", {}, "Open load"),
    ...(load.overloaded ? [element("p", { class: "outcome breached" }, element("b", {}, "✗ Overloaded:"), load.overloaded.replace(/^Overloaded:/, ""))] : []),
    pairs(load.facts),
  );
}

/** Titles and values. */
export function pairs(entries: [string, string][]): HTMLElement {
  return element(
    "dl",
    { class: "pairs" },
    ...entries.map(([name, value]) =>
      element("div", value.length > 50 ? { class: "wide" } : {}, element("dt", {}, name), element("dd", {}, value)),
    ),
  );
}
