/** The gates: each with what was measured, its interval, its samples, and what became of it. */

import { element, number } from "./format";
import type { Gate, Gates } from "./reply";
import { scrolling } from "./table";

/** A sign beside the word and the colour. */
const SIGNS: Record<string, [string, string]> = {
  met: ["met", "✓"],
  breached: ["breached", "✗"],
  "met so far": ["met", "✓"],
  "breached so far": ["breached", "✗"],
};
const OTHER: [string, string] = ["unjudged", "?"];
const HEAD = ["Gate", "Measured", "95 % interval", "n", "Verdict"];

/** Fill the section of the gates; hidden where there are none. */
export function fillGates(root: HTMLElement, gates: Gates | null | undefined): void {
  root.hidden = !gates;
  if (!gates) return;
  const [kind, sign] = SIGNS[gates.status] ?? OTHER;
  root.replaceChildren(
    element("h2", {}, "Gates"),
    element("p", { class: `outcome ${kind}` }, element("b", {}, `${sign} ${gates.status}`), " ", gates.sentence),
    scrolling(
      "Gates, scrolls sideways",
      element("tr", {}, ...HEAD.map((title) => element("th", { scope: "col" }, title))),
      gates.results.map((gate) => row(gate, gate.reason === (gates.reason ?? null) ? null : gate.reason)),
    ),
  );
}

function row(gate: Gate, reason: string | null): HTMLElement {
  const [kind, sign] = SIGNS[gate.status] ?? OTHER;
  const why = reason ? element("small", { class: "why" }, reason) : null;
  return element(
    "tr",
    {},
    element("th", { scope: "row" }, gate.gate),
    element("td", {}, gate.measured),
    element("td", { class: "words" }, gate.interval),
    element("td", {}, number(gate.n)),
    element("td", { class: `outcome ${kind} words` }, element("b", {}, `${sign} ${gate.status}`), why),
  );
}
