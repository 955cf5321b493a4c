/** The live page: asks for what is new every two seconds, and for everything when a test starts, resets or ends. */

import { Charts } from "./charts";
import { clock, element } from "./format";
import { fillGates } from "./gates";
import { fillFindings, Headline, marks } from "./head";
import { KneePanel } from "./knee";
import { fillOpenLoad } from "./open_load";
import type { Reply, TableColumn } from "./reply";
import { Series } from "./series";
import { Tables } from "./table";
import { watchTheme } from "./theme";

const EVERY_MS = 2000;
const AFTER_FAILURE_MS = 5000;
const SERIES = "./llm/series";

export class LivePage {
  private readonly framed = window.frameElement !== null;
  private readonly series = new Series();
  private readonly title = element("h1");
  private readonly marks = element("span", { class: "marks" });
  private readonly message = element("p", { class: "message", role: "status" });
  private readonly headline = new Headline((key) => this.help(key));
  private readonly findings = element("ul", { class: "findings", "aria-label": "Findings" });
  private readonly gates = element("section", { class: "panel gates", "aria-label": "Gates" });
  private readonly openLoad = element("section", { class: "panel open-load", "aria-label": "Open load" });
  private readonly knee: KneePanel;
  private readonly charts: Charts;
  private readonly tables = new Tables();
  private columns: TableColumn[] = [];
  private epoch = "";
  private provisional = true;

  constructor(root: HTMLElement) {
    root.append(element("header", {}, this.title, this.marks, this.links()), this.message, this.headline.root, this.findings);
    root.append(this.gates, this.openLoad);
    this.knee = new KneePanel(root);
    this.charts = new Charts(root, true);
    if (!this.framed) root.append(this.tables.root); // on Locust's tab its own table stands below
    watchTheme(false, (theme) => {
      this.knee.paint(theme);
      this.charts.paint(theme);
    });
    if (this.framed) this.fitFrame(root);
    void this.run();
  }

  private async run(): Promise<never> {
    for (;;) {
      let wait = EVERY_MS;
      if (!document.hidden) {
        try {
          await this.update();
        } catch (error) {
          this.say(error instanceof Answer ? error.message : "Locust does not answer; asking again every 5 s.");
          wait = AFTER_FAILURE_MS;
        }
      }
      await new Promise((resolve) => setTimeout(resolve, wait));
    }
  }

  /** Ask until nothing is left to ask for. */
  private async update(): Promise<void> {
    let since = this.epoch ? this.series.askAfter() : null;
    let reply = await ask(since, !this.framed);
    const epoch = `${reply.run} ${reply.reset}`;
    const ended = this.provisional && !reply.provisional;
    if (epoch !== this.epoch || (ended && since !== null)) {
      if (since !== null) reply = await ask((since = null), !this.framed);
      this.series.clear();
      this.epoch = epoch;
    }
    this.provisional = reply.provisional;
    this.series.put(reply.points);
    while (reply.more) {
      reply = await ask(this.series.last, !this.framed);
      this.series.put(reply.points);
    }
    this.show(reply);
  }

  private show(reply: Reply): void {
    this.columns = reply.table.columns ?? this.columns;
    this.title.textContent = reply.run ? `Test ${reply.test} · ${reply.state}` : "No test has run yet";
    this.marks.replaceChildren(...marks(reply));
    this.say(this.series.last !== null ? "" : reply.run ? "The first figures come in a few seconds." : "Start one in Locust; its figures appear here.");
    this.headline.show(reply.run ? reply.headline : []);
    fillFindings(this.findings, reply.findings);
    fillGates(this.gates, reply.run ? reply.gates : null);
    fillOpenLoad(this.openLoad, reply.run ? reply.open_load : null);
    this.knee.show(reply.run ? reply.steps : null);
    this.charts.root.hidden = !reply.run;
    this.charts.show(this.series);
    if (!this.framed) this.tables.show(reply.run ? (reply.table.rows ?? []) : [], reply.table.columns);
    Object.assign(document.documentElement.dataset, {
      first: String(this.series.second[0] ?? ""),
      last: String(this.series.last ?? ""),
    });
  }

  private say(text: string): void {
    const stale = text && this.series.last !== null ? ` Shown: until ${clock(this.series.last)}.` : "";
    this.message.textContent = text + stale;
    this.message.hidden = !text;
  }

  private help(key: string): string {
    return this.columns.find((column) => column.key === key)?.help ?? "";
  }

  private links(): HTMLElement {
    const link = (href: string, text: string): HTMLElement => element("a", { href, target: "_blank", rel: "noopener" }, text);
    const files = [link("./llm/report", "Report"), link("./llm/stats.csv", "CSV"), link("./llm/run.json", "JSON")];
    return element("nav", { "aria-label": "LLM page" }, ...(this.framed ? [link("./llm", "Own page")] : []), ...files);
  }

  /** On Locust's tab the frame is as high as the page, so that there is one scroll bar. */
  private fitFrame(root: HTMLElement): void {
    document.documentElement.dataset.framed = "";
    new ResizeObserver(() => {
      (window.frameElement as HTMLElement).style.height = `${Math.ceil(root.getBoundingClientRect().height)}px`;
    }).observe(root);
  }
}

/** What the server said instead of figures. */
class Answer extends Error {}

async function ask(since: number | null, table: boolean): Promise<Reply> {
  const query = new URLSearchParams();
  if (since !== null) query.set("since", String(since));
  if (table) query.set("table", "1");
  const response = await fetch(`${SERIES}?${query}`, { cache: "no-store" });
  if (response.redirected) throw new Answer("Your login has ended: load Locust's page anew.");
  if (!response.ok) throw new Answer(`Locust answered ${response.status}; asking again every 5 s.`);
  return (await response.json()) as Reply;
}
