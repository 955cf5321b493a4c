/** The points that the charts draw: bounded, so that a page left open for a day stays light.
 *
 * Above LIMIT points, neighbours are folded in pairs, all but the newest KEEP: counts and rates exactly, gauges and
 * percentiles to the larger of the two, since a percentile of both cannot be known from two percentiles.
 */

import { VALUES, type Column, type Points, type Value } from "./reply";

export const LIMIT = 2400;
const KEEP = 600;
const RATES: readonly Value[] = ["output_tps", "input_tps", "req_per_s", "failed_per_s"];

export class Series {
  second: number[] = [];
  span: number[] = [];
  values = Object.fromEntries(VALUES.map((key) => [key, []])) as unknown as Record<Value, Column>;
  errors = new Map<string, number[]>();
  folded = false;

  get last(): number | null {
    return this.second.at(-1) ?? null;
  }

  clear(): void {
    this.cut(0);
    this.errors.clear();
    this.folded = false;
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
    while (this.second.length > LIMIT) this.fold();
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

  private fold(): void {
    const until = this.second.length - KEEP;
    const pairs = Math.floor(until / 2);
    const spans = this.span;
    const fold = <T>(column: T[], both: (a: T, b: T, i: number) => T): T[] => [
      ...Array.from({ length: pairs }, (_, k) => both(column[2 * k]!, column[2 * k + 1]!, 2 * k)),
      ...column.slice(2 * pairs),
    ];
    for (const key of VALUES) {
      this.values[key] = fold(this.values[key], (a, b, i) => {
        if (a === null || b === null) return a ?? b;
        return RATES.includes(key) ? (a * spans[i]! + b * spans[i + 1]!) / (spans[i]! + spans[i + 1]!) : Math.max(a, b);
      });
    }
    for (const [label, counts] of this.errors) this.errors.set(label, fold(counts, (a, b) => a + b));
    this.span = fold(spans, (a, b) => a + b);
    this.second = fold(this.second, (a) => a);
    this.folded = true;
  }
}
