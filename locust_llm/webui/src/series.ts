/** The points that the charts draw: bounded, so that a page left open for a day stays light.
 *
 * Above LIMIT points, neighbours are folded into points of `grain` seconds, all but the newest KEEP: counts and rates
 * exactly, gauges and percentiles to the largest, since a percentile of all cannot be known from the percentiles of
 * parts. The grain doubles when that is not enough, so that the older points stay evenly spread however long the run.
 */

import { VALUES, type Column, type Points, type Value } from "./reply";

export const LIMIT = 2400;
const KEEP = 600;
const ROOM = 240;
const RATES: readonly Value[] = ["output_tps", "input_tps", "req_per_s", "failed_per_s"];

export class Series {
  second: number[] = [];
  span: number[] = [];
  values = Object.fromEntries(VALUES.map((key) => [key, []])) as unknown as Record<Value, Column>;
  errors = new Map<string, number[]>();
  private grain = 1;

  get folded(): boolean {
    return this.grain > 1;
  }

  get last(): number | null {
    return this.second.at(-1) ?? null;
  }

  clear(): void {
    this.cut(0);
    this.errors.clear();
    this.grain = 1;
  }

  /** Add points; those already here from the first new one on are replaced. */
  put(points: Points): void {
    const first = points.second[0];
    if (first === undefined) return;
    this.cut(this.second.findIndex((second) => second >= first));
    const had = this.second.length;
    this.second.push(...points.second);
    this.span.push(...points.span_s);
    for (const key of VALUES) this.values[key].push(...(points[key] ?? points.second.map(() => null)));
    for (const label of Object.keys(points.errors)) {
      if (!this.errors.has(label)) this.errors.set(label, new Array<number>(had).fill(0));
    }
    for (const [label, counts] of this.errors) {
      counts.push(...(points.errors[label] ?? points.second.map(() => 0)));
    }
    if (this.second.length > LIMIT) this.shrink();
  }

  /** The second to ask for points after, so that all whose requests may still have been running come again. */
  askAfter(): number | null {
    const last = this.last;
    if (last === null) return null;
    const ages = this.values.oldest_age_s.slice(-15).map((age) => age ?? 0);
    const since = last - 15 - Math.min(1800, Math.ceil(Math.max(...ages)));
    const whole = this.folded ? this.second[this.second.length - KEEP + 1]! : this.second[0]!;
    return since < whole ? (this.folded ? whole : null) : since;
  }

  private cut(length: number): void {
    if (length < 0) return;
    for (const column of [this.second, this.span, ...Object.values(this.values), ...this.errors.values()]) {
      column.length = Math.min(column.length, length);
    }
  }

  /** Fold until there is room for the next few minutes. */
  private shrink(): void {
    this.fold();
    while (this.second.length > LIMIT - ROOM) {
      this.grain *= 2;
      this.fold();
    }
  }

  private fold(): void {
    const groups = this.groups();
    const spans = this.span;
    const sum = (numbers: number[]): number => numbers.reduce((total, each) => total + each, 0);
    const fold = <T>(column: T[], join: (part: T[], from: number) => T): T[] =>
      groups.map(([from, to]) => (to - from === 1 ? column[from]! : join(column.slice(from, to), from)));
    for (const key of VALUES) {
      // a rate is never missing: a silent second has 0
      const mean = (part: Column, from: number): number =>
        sum(part.map((rate, i) => (rate ?? 0) * spans[from + i]!)) / sum(spans.slice(from, from + part.length));
      const largest = (part: Column): number | null => {
        const known = part.filter((value) => value !== null);
        return known.length ? Math.max(...known) : null;
      };
      this.values[key] = fold(this.values[key], RATES.includes(key) ? mean : largest);
    }
    for (const [label, counts] of this.errors) this.errors.set(label, fold(counts, sum));
    this.second = fold(this.second, ([first]) => first!);
    this.span = fold(spans, sum);
  }

  /** [from, to) of the points that become one: neighbours of at most `grain` seconds together; the newest stay. */
  private groups(): [number, number][] {
    const old = this.second.length - KEEP;
    const groups: [number, number][] = [];
    for (let from = 0; from < this.second.length; ) {
      let to = from + 1;
      for (let long = this.span[from]!; to < old && (long += this.span[to]!) <= this.grain; ) to++;
      groups.push([from, to]);
      from = to;
    }
    return groups;
  }
}
