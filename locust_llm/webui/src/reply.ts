/** The shapes that report/columns.py gives: missing values are null, never 0. */

export type Column = (number | null)[];

/** Shown values of a point; rates are per second over the point's span. Without --llm-server-metrics those of the
 * server do not come. */
export const VALUES = [
  "output_tps", "input_tps", "req_per_s", "failed_per_s", "users", "in_flight", "oldest_age_s",
  "ttft_p50", "ttft_p95", "ttft_p99", "itl_p50", "itl_p95", "itl_p99", "e2e_p50", "e2e_p95", "e2e_p99",
  "server_running", "server_waiting", "server_kv_percent", "server_preemptions_per_s",
] as const;
export type Value = (typeof VALUES)[number];

export type Points = { second: number[]; span_s: number[]; errors: Record<string, number[]> } & Record<Value, Column>;

export interface Figure {
  key: string;
  title: string;
  value: number | null;
  unit: string;
  n: number | null;
  note: string;
}

export interface Finding {
  key: string;
  severity: string;
  sentence: string;
}

export interface TableColumn {
  key: string;
  title: string;
  unit: string;
  help: string;
  group: string;
}

/** One request name. `few`: percentiles on too few samples. `with_failures`: those that differ when failures count
 * as +∞; null means above every success. */
export interface TableRow {
  name: string;
  few: string[];
  with_failures: Record<string, number | null>;
  [key: string]: unknown;
}

/** A step on the chart; low and high are the throughput's interval. */
export interface StepPoint {
  x: number;
  load: number;
  throughput: number | null;
  low: number | null;
  high: number | null;
  ttft_p95: number | null;
  few: boolean;
  status: string;
}

export type StepRow = Record<string, string | number | null>;

/** A sweep or search (report/knee_panel.py). Marks are places on the x axis. */
export interface Steps {
  now: string | null;
  rates: boolean;
  x: string;
  y: string;
  unit: string;
  points: StepPoint[];
  marks: {
    knee?: number | null;
    bracket?: [number | null, number | null];
    zone?: [number, number] | null;
    sustained?: number | null;
    overloaded?: number | null;
  };
  facts: [string, string][];
  columns: { key: string; title: string; unit: string }[];
  rows: StepRow[];
  verdict: { words: string[]; best?: number | null } | null;
}

export interface Gate {
  gate: string;
  status: string;
  measured: string;
  interval: string;
  n: number;
  reason: string | null;
}

export interface Gates {
  status: string;
  sentence: string;
  /** What is wrong with the whole run; it stands in the sentence, and is not told again at each gate. */
  reason?: string | null;
  results: Gate[];
}

/** What became of an open load's arrivals: titles and values, and how it outgrew the service. */
export interface OpenLoad {
  facts: [string, string][];
  overloaded: string | null;
}

export interface Reply {
  run: string;
  test: number;
  state: string;
  simulated: boolean;
  incomplete: boolean;
  lost_workers: string[];
  provisional: boolean;
  now: number | null;
  reset: number | null;
  points: Points;
  more: boolean;
  headline: Figure[];
  table: { columns?: TableColumn[]; rows?: TableRow[] };
  findings: Finding[];
  steps: Steps | null;
  gates: Gates | null;
  open_load: OpenLoad | null;
}

export interface Definition {
  title: string;
  unit: string;
  help: string;
}

/** What a report holds: all of a run, how it was set up, and what its words mean. */
export interface Report extends Reply {
  about: [string, string][];
  /** Title, value with unit, definition. */
  figures: [string, string, string][];
  configuration: [string, [string, string][]][];
  definitions: Definition[];
  definitions_version: number;
  percentile_rule: string;
}
