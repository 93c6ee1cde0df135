/**
 * What a window on a loom asks for: the mirror of the intents that `acs_jupyter/log/intents.py` calls Tending.
 */
import type { Fields } from "./host";
import type { Measured } from "./parts/measure/told";

type What = Measured["what"];

export type Tending =
  | { type: "Grow"; node: string; n: number; fields?: Fields }
  | { type: "Rewrite"; node: string; text: string }
  | { type: "Write"; text: string; parent?: string; beside?: string }
  | { type: "Split"; node: string; token?: number; at?: number }
  | { type: "Merge"; node: string }
  | { type: "Move"; node: string; parent: string | null; before?: string }
  | { type: "Shift"; node: string; by: number }
  | { type: "Delete"; nodes: string[] }
  | { type: "Undo" }
  | { type: "Redo" }
  | { type: "Mark"; node: string; tags?: string[]; note?: string | null; bookmark?: boolean; rating?: number | null; unread?: boolean }
  | { type: "Visit"; node: string }
  | { type: "Fold"; node: string; folded: boolean }
  | { type: "Hoist"; node: string | null }
  | { type: "Search"; text: string; predicate: boolean }
  | { type: "Light"; nodes: string[] }
  | { type: "Store"; path: string }
  | { type: "Measure"; what: What; node: string; other?: string; tokens?: number; depth?: number; stop?: boolean }
  | { type: "Follow"; node: string; cell: number }
  /** Stop one choice of a run; the others go on. */
  | { type: "Cancel"; run: string; node: string };

/** What the kernel says to a loom's window beside the log. */
export interface LoomWord {
  /** A node to go to. */
  look?: string;
  /** What was done, in a line. */
  said?: string;
  measured?: Measured;
  /** A text that was sent and not taken, and why. */
  refused?: { text: string; line: string };
  found?: { text: string; predicate: boolean; nodes: string[]; refused?: string };
}
