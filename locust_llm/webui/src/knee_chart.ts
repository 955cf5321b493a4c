/** The chart of a sweep or search: throughput and TTFT p95 against the load, with knee, bracket and zone. */

import { init, use, type ECharts } from "echarts/core";
import { MarkAreaComponent, MarkLineComponent } from "echarts/components";
import { FONT } from "./chart";
import { element, number, withUnit } from "./format";
import type { Steps, StepPoint } from "./reply";
import { BLUE, GREEN, ORANGE, PURPLE } from "./specs";
import { PALETTES, type Theme } from "./theme";

use([MarkAreaComponent, MarkLineComponent]);

/** Loads this far apart are shown on a logarithmic axis. */
const WIDE = 8;
const STEADY = "steady";
const RED = "#ff6d6d";

interface Key {
  name: string;
  color: string;
  /** How its mark in the legend looks. */
  kind: "line" | "dashed" | "area";
}

export class KneeChart {
  readonly root: HTMLElement;
  private readonly title = element("span");
  private readonly legend = element("div", { class: "legend" });
  private readonly plot = element("div", { class: "plot", role: "img" });
  private readonly echarts: ECharts;
  private theme: Theme = "light";
  private steps: Steps | null = null;

  constructor(parent: HTMLElement) {
    this.root = element(
      "div",
      { class: "chart", id: "chart-knee" },
      element("h3", {}, this.title, " ", element("small", {}, "a point for the steady window of each step, bars: 95 % intervals within this run")),
      this.legend,
      element("div", { class: "frame" }, this.plot),
    );
    parent.append(this.root);
    this.echarts = init(this.plot, null, { renderer: "canvas" });
    new ResizeObserver(() => this.echarts.resize()).observe(this.plot);
  }

  show(steps: Steps): void {
    this.steps = steps;
    this.draw();
  }

  paint(theme: Theme): void {
    this.theme = theme;
    this.draw();
  }

  private draw(): void {
    const steps = this.steps;
    if (!steps) return;
    const { points } = steps;
    this.title.textContent = `Throughput and TTFT p95 against ${steps.x}`;
    this.legend.replaceChildren(...keys(steps).map(legendEntry));
    this.plot.dataset.values = String(points.filter((point) => point.throughput !== null).length);
    this.plot.dataset.bars = String(points.filter((point) => point.low !== null).length);
    this.plot.setAttribute("aria-label", describe(steps));
    this.echarts.setOption(
      {
        animation: false,
        textStyle: { fontFamily: FONT },
        backgroundColor: "transparent",
        grid: { left: 62, right: 62, top: 48, bottom: 44 },
        tooltip: this.tooltip(points, steps.unit),
        xAxis: this.xAxis(steps),
        yAxis: [this.yAxis(steps.y, 0), this.yAxis("TTFT p95, ms", 1)],
        series: [this.throughput(steps), bars(points), latency(points)],
      },
      { notMerge: true },
    );
  }

  private throughput(steps: Steps): object {
    const { text } = PALETTES[this.theme];
    return {
      type: "line",
      name: steps.y,
      color: GREEN,
      symbolSize: 9,
      lineStyle: { width: 2 },
      data: steps.points.map((point) => dot(point, point.throughput, "circle")),
      markArea: { silent: true, data: areas(steps) },
      markLine: {
        silent: true,
        symbol: "none",
        label: { color: text, fontSize: 12, formatter: ({ name }: { name: string }) => name },
        data: lines(steps),
      },
    };
  }

  private xAxis(steps: Steps): object {
    const { text, axis } = PALETTES[this.theme];
    const places = steps.points.map((point) => point.x);
    const low = Math.min(...places, 1e9);
    const high = Math.max(...places, 0);
    const wide = low > 0 && high >= WIDE * low;
    const power = (value: number, round: (exponent: number) => number): number => 2 ** round(Math.log2(value));
    return {
      ...(wide
        ? { type: "log", logBase: 2, min: power(low * 1.01, Math.floor), max: power(high * 0.99, Math.ceil) }
        : { type: "value", min: 0, max: high > 0 ? undefined : 1 }),
      name: steps.x,
      nameLocation: "middle",
      nameGap: 26,
      nameTextStyle: { color: text },
      axisLine: { lineStyle: { color: axis } },
      axisTick: { lineStyle: { color: axis } },
      axisLabel: { color: text, hideOverlap: true, formatter: (value: number) => number(value) },
      splitLine: { show: false },
    };
  }

  private yAxis(name: string, axis: 0 | 1): object {
    const palette = PALETTES[this.theme];
    return {
      type: "value",
      name,
      nameGap: 28, // above the marks' labels
      min: 0,
      splitNumber: 4,
      nameTextStyle: { color: palette.text, align: axis ? "right" : "left", padding: axis ? [0, -54, 0, 0] : [0, 0, 0, -54] },
      axisLabel: { color: palette.text, formatter: (value: number) => number(value) },
      axisLine: { show: false },
      splitLine: { show: axis === 0, lineStyle: { color: palette.split } },
    };
  }

  private tooltip(points: StepPoint[], unit: string): object {
    const { text, axis, panel } = PALETTES[this.theme];
    return {
      trigger: "axis",
      confine: true,
      backgroundColor: panel,
      borderColor: axis,
      textStyle: { color: text, fontSize: 12 },
      axisPointer: { type: "line", lineStyle: { color: axis, type: "solid" } },
      formatter: (items: { seriesIndex: number; dataIndex: number }[]) => {
        const point = points[items.find((item) => item.seriesIndex !== 1)?.dataIndex ?? -1];
        return point ? tip(point, unit) : "";
      },
    };
  }
}

/** A point; hollow where its step was not steady. */
function dot(point: StepPoint, value: number | null, symbol: string): object {
  return { value: [point.x, value], symbol: point.status === STEADY ? symbol : `empty${symbol[0]!.toUpperCase()}${symbol.slice(1)}` };
}

function latency(points: StepPoint[]): object {
  return {
    type: "line",
    name: "TTFT p95",
    yAxisIndex: 1,
    color: ORANGE,
    symbolSize: 10,
    lineStyle: { width: 2, type: [5, 4] },
    data: points.map((point) => dot(point, point.ttft_p95, "diamond")),
  };
}

/** Error bars: upright strokes with caps, parted by gaps. */
function bars(points: StepPoint[]): object {
  const data = points
    .filter((point) => point.low !== null && point.high !== null)
    .flatMap((point) => [[point.x, point.low], [point.x, point.high], [point.x, null]]);
  return {
    type: "line",
    name: "interval",
    color: GREEN,
    symbol: "rect",
    symbolSize: [12, 2],
    showSymbol: true,
    lineStyle: { width: 2 },
    silent: true,
    z: 1,
    data,
  };
}

/** Bracket and zone, and of rates what lies between sustained and overloaded, as areas. A side without an end is open. */
function areas({ marks, rates }: Steps): object[] {
  const made: object[] = [];
  const area = (ends: [number | null, number | null], color: string, opacity: number): void => {
    const [low, high] = ends;
    if (low === null && high === null) return;
    const at = (end: number | null): object => (end === null ? {} : { xAxis: end });
    // an open side: the end of the axis
    made.push([{ ...at(low), ...(low === null ? { x: "10%" } : {}), itemStyle: { color, opacity } }, { ...at(high), ...(high === null ? { x: "90%" } : {}) }]);
  };
  if (rates) area([marks.sustained ?? null, marks.overloaded ?? null], BLUE, 0.14);
  if (marks.bracket) area(marks.bracket, BLUE, 0.14);
  if (marks.zone) area(marks.zone, PURPLE, 0.22);
  return made;
}

/** The knee; of rates the ends. */
function lines({ marks }: Steps): object[] {
  // the two ends of a rate lie close together: their labels stand apart
  const places: [string, number | null | undefined, string, string][] = [
    ["knee", marks.knee, PURPLE, "center"],
    ["sustained", marks.sustained, BLUE, "right"],
    ["overloaded", marks.overloaded, RED, "left"],
  ];
  return places.flatMap(([name, at, color, align]) =>
    at === null || at === undefined
      ? []
      : [{ name: `${name} ${number(at)}`, xAxis: at, label: { align }, lineStyle: { color, width: 2, type: "solid" } }],
  );
}

function keys({ y, marks, points, rates }: Steps): Key[] {
  const made: Key[] = [
    { name: y, color: GREEN, kind: "line" },
    { name: "TTFT p95 (right)", color: ORANGE, kind: "dashed" },
  ];
  const ends = (pair: [number | null, number | null]): string => pair.map((end) => (end === null ? "…" : number(end))).join(" to ");
  if (marks.knee != null) made.push({ name: `knee ${number(marks.knee)}`, color: PURPLE, kind: "line" });
  if (marks.bracket?.some((end) => end !== null)) made.push({ name: `bracket ${ends(marks.bracket)}`, color: BLUE, kind: "area" });
  if (marks.zone) made.push({ name: `zone ${ends(marks.zone)}`, color: PURPLE, kind: "area" });
  if (rates && marks.sustained != null) made.push({ name: `sustained ${number(marks.sustained)}`, color: BLUE, kind: "line" });
  if (rates && marks.overloaded != null) made.push({ name: `overloaded ${number(marks.overloaded)}`, color: RED, kind: "line" });
  if (points.some((point) => point.status !== STEADY)) made.push({ name: "hollow: not steady", color: "currentColor", kind: "line" });
  return made;
}

function legendEntry({ name, color, kind }: Key): HTMLElement {
  const mark = element("i", { class: kind === "line" ? "swatch" : `swatch ${kind}` });
  mark.style.color = color;
  return element("span", { class: "entry" }, mark, element("span", {}, name));
}

/** What a point says: an element, so that texts stay texts. */
function tip(point: StepPoint, unit: string): HTMLElement {
  const interval = point.low === null ? "" : ` (${number(point.low)} to ${number(point.high)})`;
  const line = (name: string, value: string): HTMLElement => element("div", {}, element("span", {}, name), element("b", {}, value));
  return element(
    "div",
    { class: "tip" },
    element("b", {}, `Step of ${number(point.load)}`),
    line("on the axis", number(point.x)),
    line("throughput", withUnit(point.throughput, unit) + interval),
    line("TTFT p95", withUnit(point.ttft_p95, "ms") + (point.few ? "*" : "")),
    line("step", point.status),
  );
}

/** The chart in words. */
function describe(steps: Steps): string {
  const told = steps.points.map(
    (point) => `${number(point.x)}: ${withUnit(point.throughput, steps.unit)}, TTFT p95 ${withUnit(point.ttft_p95, "ms")}`,
  );
  return `Throughput and TTFT p95 against ${steps.x}. ${told.join("; ")}`;
}
