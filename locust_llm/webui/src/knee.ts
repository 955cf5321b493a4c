/** The Knee panel: chart, verdict in words, the numbers it rests on, and the table of steps. */

import { element, number } from "./format";
import { KneeChart } from "./knee_chart";
import { pairs } from "./open_load";
import type { Steps, StepRow } from "./reply";
import { scrolling } from "./table";
import type { Theme } from "./theme";

/** Columns of the table; those in which no step has a value are left out. */
const SHOWN = [
  "load", "running", "outcomes", "ttft_p50", "ttft_p95", "tpot_p50", "tpot_p95", "e2e_p95", "output_tps", "req_per_s",
  "failed", "refused", "backlog_per_s", "attainment", "status",
];

export class KneePanel {
  readonly root = element("section", { class: "panel knee", "aria-label": "Knee" });
  private readonly title = element("h2");
  private readonly now = element("p", { class: "message", role: "status" });
  private readonly pair = element("div", { class: "pair" });
  private readonly verdict = element("div", { class: "verdict" });
  private readonly table = element("div");
  private chart: KneeChart | null = null; // made when it is seen: a hidden one has no size
  private theme: Theme = "light";
  private shown = "";

  constructor(parent: HTMLElement) {
    this.root.append(this.title, this.now, this.pair, this.table);
    this.root.hidden = true;
    parent.append(this.root);
  }

  show(steps: Steps | null | undefined): void {
    this.root.hidden = !steps;
    if (!steps) return;
    this.now.textContent = steps.now ?? "";
    this.now.hidden = !steps.now;
    const text = JSON.stringify([steps.rows, steps.verdict]);
    if (text === this.shown) return; // a poll later nothing is new: a selected text stays selected
    this.shown = text;
    this.title.textContent = steps.rates ? "Sustained rate" : "Knee";
    this.pair.hidden = !steps.points.length;
    if (steps.points.length && !this.chart) {
      this.chart = new KneeChart(this.pair);
      this.chart.paint(this.theme);
      this.pair.append(this.verdict);
    }
    this.chart?.show(steps);
    fillVerdict(this.verdict, steps);
    this.table.replaceChildren(...(steps.rows.length ? [stepTable(steps)] : []));
  }

  paint(theme: Theme): void {
    this.theme = theme;
    this.chart?.paint(theme);
  }
}

function fillVerdict(root: HTMLElement, { verdict, facts }: Steps): void {
  if (!verdict) {
    root.replaceChildren(element("p", { class: "key" }, "The verdict comes when all steps have ended."));
    return;
  }
  const [sentence = "", ...more] = verdict.words;
  root.replaceChildren(
    element("h3", {}, "Verdict"),
    element("p", { class: "sentence" }, sentence),
    ...more.map((words) => element("p", { class: "key" }, words)),
    pairs(facts),
  );
}

function stepTable(steps: Steps): HTMLElement {
  const known = (key: string): boolean => steps.rows.some((row) => row[key] !== null && row[key] !== undefined);
  const columns = SHOWN.flatMap((key) => steps.columns.find((column) => column.key === key && known(key)) ?? []);
  const head = columns.map((c) => element("th", { scope: "col" }, c.title, c.unit ? element("small", {}, ` ${c.unit}`) : null));
  const body = steps.rows.map((row) => {
    const best = steps.verdict?.best != null && row.load === steps.verdict.best;
    return element("tr", best ? { class: "best" } : {}, ...columns.map((column, i) => cell(row, column.key, i === 0, best)));
  });
  return scrolling("Steps, scrolls sideways", element("tr", {}, ...head), body);
}

function cell(row: StepRow, key: string, first: boolean, best: boolean): HTMLElement {
  const value = row[key] ?? null;
  const shown = typeof value === "string" ? value : number(value);
  if (first) return element("th", { scope: "row" }, shown, best ? element("small", {}, " best") : null);
  const why = key === "status" ? row.why : null;
  return element("td", {}, shown, typeof why === "string" && why ? element("small", { class: "why" }, why) : null);
}
