/** The tables: an overview with a row a request name, and below it every metric of each name. */

import { element, number } from "./format";
import type { TableColumn, TableRow } from "./reply";

const OVERVIEW = [
  "started", "succeeded", "failed", "cancelled", "in_flight", "input_tokens", "output_tokens",
  "ttft_p50", "ttft_p95", "ttft_p99", "itl_p50", "itl_p99", "tpot_p50", "e2e_p50", "e2e_p95",
];
const OPEN_AT_MOST = 3;

export class Tables {
  readonly root = element("section", { class: "tables" });
  private readonly open = new Map<string, boolean>();
  private columns: TableColumn[] = [];

  /** The columns come once; the rows each time, the one of all names last. */
  show(rows: TableRow[], columns?: TableColumn[]): void {
    this.columns = columns ?? this.columns;
    this.root.hidden = !rows.length || !this.columns.length;
    if (this.root.hidden) return;
    // first the row of all names, which says nothing new when there is one name
    const all = rows.length === 2 ? rows.slice(0, 1) : [...rows.slice(-1), ...rows.slice(0, -1)];
    const shown = all.filter((row) => this.metrics(row).length);
    this.root.replaceChildren(
      element("h2", {}, "Requests by name"),
      this.overview(rows),
      shown.length ? element("h2", {}, "All metrics") : "",
      ...shown.map((row) => this.details(row, shown.length <= OPEN_AT_MOST || row === rows.at(-1))),
      element(
        "p",
        { class: "key" },
        "Percentiles are of successful requests. “with failures” is the same with each failed request as +∞, where that differs. * = too few samples for this percentile.",
      ),
    );
  }

  private overview(rows: TableRow[]): HTMLElement {
    const columns = OVERVIEW.flatMap((key) => this.columns.find((column) => column.key === key) ?? []);
    const head = columns.map((c) => element("th", { scope: "col", title: c.help }, c.title, unit(c)));
    const body = rows.map((row) =>
      element("tr", {}, element("th", { scope: "row" }, row.name), ...columns.map((column) => cell(row, column.key))),
    );
    return table(element("tr", {}, element("th", { scope: "col" }, "Name"), ...head), body);
  }

  /** The keys of the metrics that have samples. */
  private metrics(row: TableRow): string[] {
    return [...new Set(this.columns.map((column) => column.group))].filter((key) => key && row[`n_${key}`]);
  }

  private details(row: TableRow, open: boolean): HTMLElement {
    const ends = ["p50", "p90", "p95", "p99", "max"];
    const body = this.metrics(row).map((metric) => {
      const column = this.columns.find((c) => c.key === `${metric}_p50`)!;
      const name = element("th", { scope: "row", title: column.help }, column.title.replace(/ p50$/, ""), unit(column));
      return element("tr", {}, name, cell(row, `n_${metric}`), ...ends.map((end) => cell(row, `${metric}_${end}`)));
    });
    const head = ["Metric", "n", ...ends].map((title) => element("th", { scope: "col" }, title));
    const box = element("details", {}, element("summary", {}, row.name), table(element("tr", {}, ...head), body));
    box.open = this.open.get(row.name) ?? open;
    box.addEventListener("toggle", () => this.open.set(row.name, box.open));
    return box;
  }
}

function unit(column: TableColumn): HTMLElement | null {
  return column.unit ? element("small", {}, ` ${column.unit}`) : null;
}

function cell(row: TableRow, key: string): HTMLElement {
  const value = row[key];
  const few = row.few.includes(key);
  const shown = number(typeof value === "number" ? value : null) + (few ? "*" : "");
  const made = element("td", few ? { title: "Rests on too few samples" } : {}, shown);
  if (key in row.with_failures) {
    const worse = row.with_failures[key];
    made.append(element("small", {}, `with failures ${worse === null || worse === undefined ? "∞" : number(worse)}`));
  }
  return made;
}

const table = (head: HTMLElement, body: HTMLElement[]): HTMLElement => scrolling("Table, scrolls sideways", head, body);

/** A table that scrolls sideways where it is too wide, also by the keyboard. */
export function scrolling(label: string, head: HTMLElement, body: HTMLElement[]): HTMLElement {
  return element(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": label },
    element("table", {}, element("thead", {}, head), element("tbody", {}, ...body)),
  );
}
