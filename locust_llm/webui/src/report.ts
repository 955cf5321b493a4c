/** The report: everything of one run on a page of its own that needs no server. */

import { Charts } from "./charts";
import { element } from "./format";
import { fillGates } from "./gates";
import { fillFindings, Headline, marks } from "./head";
import { KneePanel } from "./knee";
import { fillOpenLoad, pairs } from "./open_load";
import type { Report } from "./reply";
import { Series } from "./series";
import { Tables } from "./table";
import { watchTheme, type Theme } from "./theme";

export function showReport(root: HTMLElement, report: Report): void {
  const headline = new Headline((key) => report.table.columns?.find((column) => column.key === key)?.help ?? "");
  const findings = element("ul", { class: "findings", "aria-label": "Findings" });
  const gates = element("section", { class: "panel gates", "aria-label": "Gates" });
  const openLoad = element("section", { class: "panel open-load", "aria-label": "Open load" });
  const tables = new Tables();
  root.append(
    element("header", {}, element("h1", {}, "LLM load test"), element("span", { class: "marks" }, ...marks(report))),
    pairs(report.about),
    headline.root,
    findings,
    gates,
    openLoad,
  );
  const knee = new KneePanel(root);
  const charts = new Charts(root, false);
  root.append(tables.root, figures(report), ...configuration(report), definitions(report));

  root.append(...document.querySelectorAll("body > section")); // what the report's writer drew itself

  const series = new Series();
  series.put(report.points);
  charts.show(series);
  charts.root.hidden = series.last === null;
  headline.show(report.headline);
  fillFindings(findings, report.findings);
  fillGates(gates, report.gates);
  fillOpenLoad(openLoad, report.open_load);
  knee.show(report.steps);
  tables.show(report.table.rows ?? [], report.table.columns);
  const paint = (theme: Theme): void => [knee, charts].forEach((each) => each.paint(theme));
  watchTheme(true, paint);
  forPaper(root, paint);
}

function configuration(report: Report): HTMLElement[] {
  const groups = report.configuration.filter(([, entries]) => entries.length);
  return groups.map(([title, entries]) => element("section", {}, element("h2", {}, title), pairs(entries)));
}

/** The rates, shares and counts of the whole run that have a value. */
function figures(report: Report): HTMLElement {
  const known = report.figures.filter(([, value]) => value !== "");
  const list = known.map(([title, value, help]) =>
    element("div", { title: help }, element("dt", {}, title), element("dd", {}, value)),
  );
  return element("section", {}, element("h2", {}, "Figures of the whole run"), element("dl", { class: "pairs" }, ...list));
}

function definitions(report: Report): HTMLElement {
  const lines = [
    ...report.definitions.map((d) => [d.title, d.unit, d.help] as const),
    ...report.figures.map(([title, , help]) => [title, "", help] as const),
    ["Percentile", "", report.percentile_rule] as const,
  ];
  const list = lines.map(([title, unit, help]) =>
    element("div", {}, element("dt", {}, title, unit ? element("small", {}, ` ${unit}`) : null), element("dd", {}, help)),
  );
  return element(
    "section",
    {},
    element("h2", {}, `Definitions (version ${report.definitions_version})`),
    element("dl", { class: "definitions" }, ...list),
  );
}

/** On paper: light, and with every table open. */
function forPaper(root: HTMLElement, paint: (theme: Theme) => void): void {
  window.addEventListener("beforeprint", () => {
    for (const box of root.querySelectorAll("details")) box.open = true;
    paint("light");
  });
  window.addEventListener("afterprint", () => paint(document.documentElement.dataset.theme === "dark" ? "dark" : "light"));
}
