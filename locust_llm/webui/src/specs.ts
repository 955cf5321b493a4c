/** Which charts there are, and which values each draws. */

import type { Value } from "./reply";

export interface Line {
  key: Value;
  name: string;
  color: string;
  unit: string;
  /** 1: on the right axis. */
  axis?: 1;
  dashed?: boolean;
  /** Drawn thick, below the others, since one of them often lies upon it. */
  thick?: boolean;
}

export interface Spec {
  id: string;
  title: string;
  note: string;
  /** Names of the left and the right axis, units included. */
  axes: [string] | [string, string];
  lines: Line[];
  /** Said when there is no value. */
  nothing: string;
}

export const BLUE = "#0099ff";
export const ORANGE = "#ff9f00";
export const PURPLE = "#a46be0";
export const GREEN = "#00b853";

const percentiles = (id: "ttft" | "itl" | "e2e", title: string, note: string): Spec => ({
  id,
  title,
  note,
  axes: ["ms"],
  nothing: "No successful request.",
  lines: [
    { key: `${id}_p50`, name: "p50", color: BLUE, unit: "ms" },
    { key: `${id}_p95`, name: "p95", color: ORANGE, unit: "ms" },
    { key: `${id}_p99`, name: "p99", color: PURPLE, unit: "ms" },
  ],
});

export const SPECS: Spec[] = [
  percentiles("ttft", "Time to first token", "first tokens of the ten seconds up to each point"),
  percentiles("itl", "Inter-token latency", "gaps of the ten seconds up to each point"),
  {
    id: "tokens",
    title: "Token throughput",
    note: "tokens that arrived in each second",
    axes: ["output tok/s", "input tok/s"],
    nothing: "No token.",
    lines: [
      { key: "output_tps", name: "output", color: GREEN, unit: "tok/s" },
      { key: "input_tps", name: "input (right)", color: BLUE, unit: "tok/s", axis: 1, dashed: true },
    ],
  },
  {
    id: "load",
    title: "Users and requests in flight",
    note: "at the end of each second",
    axes: ["users, requests", "age in s"],
    nothing: "No user.",
    lines: [
      { key: "users", name: "users", color: BLUE, unit: "", thick: true },
      { key: "in_flight", name: "in flight", color: ORANGE, unit: "" },
      { key: "oldest_age_s", name: "age of the oldest (right)", color: PURPLE, unit: "s", axis: 1, dashed: true },
    ],
  },
  percentiles("e2e", "End-to-end latency", "answers of the ten seconds up to each point"),
];

/** What the server's own metrics page says; drawn when it was read. */
export const SERVER: Spec = {
  id: "server",
  title: "The server's own metrics",
  note: "as its metrics page says, each second",
  axes: ["requests, preemptions/s", "KV cache, %"],
  nothing: "The server tells none of these.",
  lines: [
    { key: "server_running", name: "running", color: BLUE, unit: "", thick: true },
    { key: "server_waiting", name: "waiting", color: ORANGE, unit: "" },
    { key: "server_preemptions_per_s", name: "preemptions/s", color: "#ff6d6d", unit: "/s" },
    { key: "server_kv_percent", name: "KV in use (right)", color: PURPLE, unit: "%", axis: 1, dashed: true },
  ],
};

export const ERROR_COLORS = ["#ff6d6d", ORANGE, PURPLE, BLUE, GREEN, "#e64980", "#82c91e", "#15aabf"];
