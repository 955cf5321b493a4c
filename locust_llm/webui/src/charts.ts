/** All charts of a run. */

import { Chart, type Drawn } from "./chart";
import { element, number, withUnit } from "./format";
import type { Series } from "./series";
import { ERROR_COLORS, SERVER, SPECS, type Spec } from "./specs";
import type { Theme } from "./theme";

const OTHERS = "all others";

export class Charts {
  readonly root = element("section", { "aria-label": "Charts" });
  private readonly grid = element("div", { class: "charts" });
  private readonly note = element("p", { class: "key" });
  private readonly charts: Chart[];
  private readonly errors: Chart;
  private server: Chart | null = null; // made when the server has told something
  private theme: Theme = "light";

  /** `latest`: legends tell the newest value; what is over has none. */
  constructor(parent: HTMLElement, private readonly latest: boolean) {
    this.root.append(this.grid, this.note);
    parent.append(this.root);
    this.charts = SPECS.map((spec) => new Chart(this.grid, spec));
    this.errors = new Chart(this.grid, {
      id: "errors",
      title: "Failures by label",
      note: "requests that failed in each second",
      axes: ["failures/s"],
      nothing: "No request has failed.",
    });
  }

  show(series: Series): void {
    SPECS.forEach((spec, i) => this.charts[i]!.show(series.second, series.span, this.lines(spec, series)));
    this.errors.show(series.second, series.span, failures(series));
    this.showServer(series);
    this.note.hidden = !series.folded;
    this.note.textContent =
      `Older points stand for up to ${number(Math.max(...series.span))} s each: rates are means over that time, ` +
      "all other lines show the largest value in it.";
  }

  paint(theme: Theme): void {
    this.theme = theme;
    for (const chart of [...this.charts, this.errors, this.server]) chart?.paint(theme);
  }

  private lines(spec: Spec, series: Series): Drawn[] {
    return spec.lines.map((line) => {
      const data = series.values[line.key];
      return { ...line, data, latest: this.latest ? withUnit(data.at(-1), line.unit) : "" };
    });
  }

  /** Below the client's charts, those lines of which the engine tells something. */
  private showServer(series: Series): void {
    const lines = this.lines(SERVER, series).filter((line) => line.data.some((value) => value !== null));
    if (this.server) this.server.root.hidden = !lines.length;
    if (!lines.length) return;
    if (!this.server) {
      this.server = new Chart(this.grid, SERVER);
      this.server.paint(this.theme);
    }
    this.server.show(series.second, series.span, lines);
  }
}

/** Failures per second, the most frequent labels first; what has no colour of its own is summed up. */
function failures(series: Series): Drawn[] {
  const total = (counts: number[]): number => counts.reduce((sum, count) => sum + count, 0);
  const labels = [...series.errors].sort(([, a], [, b]) => total(b) - total(a));
  const shown = labels.length > ERROR_COLORS.length ? ERROR_COLORS.length - 1 : labels.length;
  const lines = labels.slice(0, shown);
  const rest = labels.slice(shown);
  if (rest.length) lines.push([OTHERS, series.second.map((_, i) => rest.reduce((sum, [, counts]) => sum + counts[i]!, 0))]);
  return lines.map(([name, counts], i) => ({
    name,
    color: ERROR_COLORS[i]!,
    unit: "/s",
    stacked: true,
    data: counts.map((count, at) => count / series.span[at]!),
    latest: number(total(counts)),
  }));
}
