/** One chart: heading, legend of buttons that show and hide a line, and the drawing. Crosshairs are linked. */

import { connect, init, use, type ECharts } from "echarts/core";
import { LineChart } from "echarts/charts";
import { GridComponent, TooltipComponent } from "echarts/components";
import { CanvasRenderer } from "echarts/renderers";
import { clock, element, number, withUnit } from "./format";
import type { Column } from "./reply";
import { PALETTES, type Theme } from "./theme";

use([LineChart, GridComponent, TooltipComponent, CanvasRenderer]);

const GROUP = "llm";
export const FONT = "Roboto, Helvetica, Arial, sans-serif";

/** A line with its data; `latest` is what its legend says. */
export interface Drawn {
  name: string;
  color: string;
  unit: string;
  axis?: 1;
  dashed?: boolean;
  thick?: boolean;
  stacked?: boolean;
  data: Column;
  latest: string;
}

export interface ChartHead {
  id: string;
  title: string;
  note: string;
  axes: readonly string[];
  /** Said in place of lines when none has a value. */
  nothing: string;
}

export class Chart {
  readonly root: HTMLElement;
  private readonly legend = element("div", { class: "legend" });
  private readonly plot = element("div", { class: "plot", role: "img" });
  private readonly nothing: HTMLElement;
  private readonly echarts: ECharts;
  private readonly hidden = new Set<string>();
  private theme: Theme = "light";
  private seconds: number[] = [];
  private spans: number[] = [];
  private lines: Drawn[] = [];

  constructor(parent: HTMLElement, private readonly head: ChartHead) {
    this.nothing = element("p", { class: "nothing" }, head.nothing);
    this.root = element(
      "section",
      { class: "chart", id: `chart-${head.id}` },
      element("h2", {}, head.title, " ", element("small", {}, head.note)),
      this.legend,
      element("div", { class: "frame" }, this.plot, this.nothing),
    );
    parent.append(this.root);
    this.echarts = init(this.plot, null, { renderer: "canvas" });
    this.echarts.group = GROUP;
    connect(GROUP);
    new ResizeObserver(() => this.echarts.resize()).observe(this.plot);
  }

  show(seconds: number[], spans: number[], lines: Drawn[]): void {
    this.seconds = seconds;
    this.spans = spans;
    this.lines = lines;
    this.draw();
  }

  /** In the colours of a theme. */
  paint(theme: Theme): void {
    this.theme = theme;
    this.draw();
  }

  private draw(): void {
    const visible = this.lines.filter((line) => !this.hidden.has(line.name));
    this.nothing.hidden = !this.seconds.length || this.lines.some((line) => line.data.some((value) => value !== null));
    this.fillLegend();
    this.plot.dataset.values = String(this.lines.reduce((sum, line) => sum + line.data.filter((v) => v !== null).length, 0));
    this.plot.setAttribute("aria-label", `${this.head.title}: ${this.lines.map((l) => `${l.name} ${l.latest}`).join(", ")}`);
    this.echarts.setOption(
      {
        animation: false,
        textStyle: { fontFamily: FONT },
        backgroundColor: "transparent",
        grid: { left: 60, right: 52, top: 30, bottom: 26 },
        tooltip: this.tooltip(visible),
        xAxis: this.xAxis(),
        yAxis: this.head.axes.map((name, axis) => this.yAxis(name, axis, visible)),
        series: visible.map((line) => this.line(line)),
      },
      { replaceMerge: ["series"] },
    );
  }

  private line(line: Drawn): object {
    return {
      type: "line",
      name: line.name,
      yAxisIndex: line.axis ?? 0,
      stack: line.stacked ? "all" : undefined,
      areaStyle: line.stacked ? { opacity: 0.35 } : undefined,
      symbol: "none",
      color: line.color,
      lineStyle: { width: line.thick ? 4.5 : 1.7, opacity: line.thick ? 0.6 : 1, type: line.dashed ? [5, 4] : "solid" },
      emphasis: { disabled: true },
      data: points(this.seconds, line.data),
    };
  }

  private xAxis(): object {
    const first = this.seconds[0] ?? 0;
    const last = Math.max(this.seconds.at(-1) ?? 0, first + 20);
    const { text, axis } = PALETTES[this.theme];
    return {
      type: "time",
      show: this.seconds.length > 0,
      min: first * 1000,
      max: last * 1000,
      minInterval: 1000,
      splitNumber: 4,
      axisLine: { lineStyle: { color: axis } },
      axisTick: { lineStyle: { color: axis } },
      axisLabel: { color: text, hideOverlap: true, padding: [0, 9], formatter: (at: number) => clock(at / 1000, last - first) },
      splitLine: { show: false },
    };
  }

  private yAxis(name: string, axis: number, visible: Drawn[]): object {
    const palette = PALETTES[this.theme];
    return {
      type: "value",
      name,
      min: 0,
      // an axis without any value would be labelled 0 … 1
      show: visible.some((line) => (line.axis ?? 0) === axis && line.data.some((value) => value !== null)),
      minInterval: visible.some((line) => (line.axis ?? 0) === axis && line.unit) ? undefined : 1,
      splitNumber: 4,
      nameTextStyle: { color: palette.text, align: axis ? "right" : "left", padding: axis ? [0, -44, 0, 0] : [0, 0, 0, -52] },
      axisLabel: { color: palette.text, formatter: (value: number) => number(value) },
      axisLine: { show: false },
      splitLine: { show: axis === 0, lineStyle: { color: palette.split } },
    };
  }

  private tooltip(visible: Drawn[]): object {
    const { text, axis, panel } = PALETTES[this.theme];
    return {
      trigger: "axis",
      confine: true,
      backgroundColor: panel,
      borderColor: axis,
      textStyle: { color: text, fontSize: 12 },
      axisPointer: { type: "line", lineStyle: { color: axis, type: "solid" } },
      formatter: (items: { dataIndex: number }[]) => this.tip(items[0]?.dataIndex, visible),
    };
  }

  /** What a tooltip says: an element, so that names stay text. */
  private tip(index: number | undefined, visible: Drawn[]): HTMLElement | string {
    const second = index === undefined ? undefined : this.seconds[index];
    if (index === undefined || second === undefined) return "";
    const span = this.spans[index] ?? 1;
    const time = clock(second) + (span > 1 ? ` + ${span} s` : "");
    const lines = visible.filter((line) => !line.stacked || line.data[index]);
    return element(
      "div",
      { class: "tip" },
      element("b", {}, time),
      ...lines.map((line) =>
        element("div", {}, swatch(line), element("span", {}, line.name), element("b", {}, withUnit(line.data[index], line.unit))),
      ),
    );
  }

  /** One button a line. Buttons are kept while the lines stay, so that a focused one keeps its focus. */
  private fillLegend(): void {
    const names = this.lines.map((line) => line.name);
    const buttons = [...this.legend.children] as HTMLButtonElement[];
    if (buttons.length !== names.length || buttons.some((button, i) => button.value !== names[i])) {
      this.legend.replaceChildren(...this.lines.map((line) => this.legendButton(line)));
    }
    this.lines.forEach((line, i) => {
      const button = this.legend.children[i] as HTMLButtonElement;
      button.setAttribute("aria-pressed", String(!this.hidden.has(line.name)));
      button.querySelector("b")!.textContent = line.latest;
    });
  }

  private legendButton(line: Drawn): HTMLButtonElement {
    const button = element(
      "button",
      { type: "button", title: line.name },
      swatch(line),
      element("span", {}, line.name),
      element("b", {}),
    );
    button.value = line.name;
    button.addEventListener("click", () => {
      if (!this.hidden.delete(line.name)) this.hidden.add(line.name);
      this.draw();
    });
    return button;
  }
}

function swatch(line: Drawn): HTMLElement {
  const mark = element("i", { class: line.dashed ? "swatch dashed" : "swatch" });
  mark.style.color = line.color;
  return mark;
}

/** [ms, value] pairs. A missing value is a gap; a value between two gaps has no line and gets a dot. */
function points(seconds: number[], data: Column): unknown[] {
  const gap = (i: number): boolean => (data[i] ?? null) === null;
  return seconds.map((second, i) => {
    const value = [second * 1000, data[i] ?? null];
    return !gap(i) && gap(i - 1) && gap(i + 1) ? { value, symbol: "circle", symbolSize: 5 } : value;
  });
}
