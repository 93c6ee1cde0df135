/**
 * What the kernel tells of a measure: the mirror of the rows of `acs_jupyter/widgets/measures.py`. It must not know the
 * page.
 */

import { visible } from "../text";

/** A way from a fork of samples; `before` stands at the first of a fork, `token` is `null` for the end of a text. */
export interface Way {
  depth: number;
  before: string | null;
  token: string | null;
  text: string;
  count: number;
  of: number;
  low: number;
  high: number;
  /** What the model stated, and what the settings left of it; `null` where that is not known. */
  p: number | null;
  q: number | null;
  cut: number;
  nodes: string[];
}

/** A token; or where some are left out, `null` and how many. */
export type Told = [token: string, logprob: number | null] | [left: null, count: number];

export interface Block {
  op: "common" | "same" | "replaced" | "only a" | "only b";
  a: Told[];
  b: Told[];
}

export interface Cell {
  cell: number;
  parent: number | null;
  depth: number;
  kind: "open" | "expanded" | "end" | "piece";
  token: string;
  text: string;
  area: number;
  p: number;
  /** Where its area begins, 0 to 1. */
  top: number;
  rest: number | null;
}

export type Measured =
  | { what: "trie"; node: string; line: string; rows: Way[] }
  | { what: "diff"; node: string; other: string; line: string; rows: Block[] }
  | { what: "map"; node: string; line: string; cells: Cell[]; busy: boolean; refused: string };

/** 0 to 1 as a percentage, `–` where it is not known. */
export function share(value: number | null): string {
  if (value === null) return "–";
  if (value > 0 && value < 0.0001) return "<0.01 %";
  return `${(value * 100).toFixed(value >= 0.0995 ? 0 : value >= 0.00995 ? 1 : 2)} %`;
}

/** A logprob for people, in nats. */
export function nats(logprob: number): string {
  return logprob.toFixed(2).replace("-", "−");
}

/** A text on one line, with marks for what cannot be seen. */
export function shown(text: string): string {
  return Array.from(text, visible).join("");
}
