// node --test: the points that the charts keep. esbuild (vite's) makes the one module readable for node.
import assert from "node:assert/strict";
import { test } from "node:test";
import { buildSync } from "esbuild";

const outfile = new URL("node_modules/.test/series.mjs", import.meta.url).pathname;
buildSync({ entryPoints: ["src/series.ts"], bundle: true, format: "esm", outfile });
const { Series, LIMIT } = await import(outfile);
const { VALUES } = await (async () => {
  const reply = outfile.replace("series", "reply");
  buildSync({ entryPoints: ["src/reply.ts"], format: "esm", outfile: reply });
  return import(reply);
})();

/** Points of the seconds from … until; `value(second)` for every value. */
function points(from, until, value, errors = {}) {
  const second = Array.from({ length: until - from }, (_, i) => from + i);
  const columns = Object.fromEntries(VALUES.map((key) => [key, second.map(value)]));
  return { second, span_s: second.map(() => 1), errors, ...columns };
}

const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);

test("points that come again replace those that are here", () => {
  const series = new Series();
  series.put(points(0, 10, () => 1, { a: new Array(10).fill(1) }));
  series.put(points(6, 12, () => 2, { b: new Array(6).fill(3) }));
  assert.deepEqual(series.second, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
  assert.deepEqual(series.values.users, [1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2]);
  assert.deepEqual(series.errors.get("a"), [1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0]);
  assert.deepEqual(series.errors.get("b"), [0, 0, 0, 0, 0, 0, 3, 3, 3, 3, 3, 3]);
  series.put(points(0, 0, () => 0));
  assert.equal(series.last, 11);
});

test("a day is bounded, its sums are kept, gaps and peaks too", () => {
  const series = new Series();
  const day = 86_400;
  const peak = 4321;
  for (let from = 0; from < day; from += 2000) {
    const until = Math.min(from + 2000, day);
    const failed = Array.from({ length: until - from }, (_, i) => (from + i) % 2);
    series.put(points(from, until, (s) => (s >= 20_000 && s < 60_000 ? null : s === peak ? 500 : 7), { a: failed }));
    assert.ok(series.second.length <= LIMIT);
  }
  assert.equal(sum(series.span), day);
  assert.equal(series.second[0], 0);
  for (let i = 1; i < series.second.length; i++) assert.equal(series.second[i], series.second[i - 1] + series.span[i - 1]);
  assert.equal(sum(series.errors.get("a")), day / 2);
  assert.equal(Math.max(...series.values.ttft_p99), 500);
  const quiet = series.second.findIndex((second) => second > 30_000);
  assert.equal(series.values.ttft_p99[quiet], null);
  const rate = series.values.output_tps.map((value, i) => (value ?? 0) * series.span[i]);
  assert.ok(Math.abs(sum(rate) - (7 * (day - 40_000) + 493)) < 1e-3);
  assert.ok(series.folded);
});

test("what may still change is asked for again: as long as the oldest request has run", () => {
  const ages = [[null, 85], [30, 55], [0.2, 84]];
  for (const [age, since] of ages) {
    const series = new Series();
    series.put(points(0, 101, () => age));
    assert.equal(series.askAfter(), since);
  }
  const young = new Series();
  assert.equal(young.askAfter(), null);
  young.put(points(50, 55, () => 1));
  assert.equal(young.askAfter(), null); // all of it
});

test("folded points are not asked for again", () => {
  const series = new Series();
  series.put(points(0, 2000, () => 5000));
  series.put(points(2000, 3000, () => 5000));
  const since = series.askAfter();
  const at = series.second.indexOf(since);
  assert.ok(at >= 0 && series.span.slice(at).every((span) => span === 1));
  series.put(points(since + 1, 3002, () => 1));
  for (let i = 1; i < series.second.length; i++) assert.equal(series.second[i], series.second[i - 1] + series.span[i - 1]);
});

test("cleared is empty", () => {
  const series = new Series();
  series.put(points(0, 10, () => 1, { a: new Array(10).fill(1) }));
  series.clear();
  assert.deepEqual([series.last, series.errors.size, series.folded, series.askAfter()], [null, 0, false, null]);
  assert.deepEqual(series.values.users, []);
});
