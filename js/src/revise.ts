/**
 * How people arranged the tree: the mirror of `acs_jupyter/log/arrangement.py`, where the fields are told.
 *
 * The kernel checks what is asked for; an event that cannot be folded throws and is never sent.
 */
import type { Change, Piece, Revised, Written } from "./events";
import { emptyLists, emptyNode, nodeOf, runOf, type NodeState, type State } from "./state";

export interface LoomState {
  marks: Record<string, Record<string, unknown>>;
  /** Names of the steps that can be undone, and of those that can be done again. */
  done: string[];
  undone: string[];
}

export function revise(state: State, event: Revised): void {
  const { what, kind = "step", written = [], changes = [] } = event;
  const loom = (state.loom ??= { marks: table(), done: [], undone: [] });
  for (const one of written) write(state, loom, one);
  for (const change of changes) set(state, loom, change);
  if (kind === "step") {
    loom.done.push(what);
    loom.undone.length = 0;
  } else if (kind === "undo") shift(loom.done, loom.undone);
  else if (kind === "redo") shift(loom.undone, loom.done);
}

/** A node's mark, `undefined` when it has none. */
export function markOf(state: State, id: string, field: string): unknown {
  return state.loom?.marks[id]?.[field];
}

function shift(from: string[], to: string[]): void {
  const step = from.pop();
  if (step === undefined) throw new Error("no such step");
  to.push(step);
}

function write(state: State, loom: LoomState, one: Written): void {
  const { node: id, run, parent = null, pieces = [], finish_reason = null, made_of = [] } = one;
  runOf(state, run);
  const node: NodeState = { ...emptyNode, id, run, parent, choice: null, ids: null, echo: false, text: "", ...emptyLists(), finish_reason };
  compose(state, node, pieces);
  siblings(state, parent).push(id);
  state.nodes[id] = node;
  if (made_of.length > 0) marksOf(loom, id)["made_of"] = [...made_of];
  const [whole, other] = new Set(pieces.map((piece) => sampleOf(state, loom, piece, made_of)));
  if (!whole || other !== undefined) return;
  marksOf(loom, id)["sample"] = whole;
  if (finish_reason !== null) node.stop_reason = nodeOf(state, whole).stop_reason;
}

/** The generated node that a piece is of, "" when there is none. */
function sampleOf({ nodes }: State, { marks }: LoomState, { node, text = "" }: Piece, made_of: string[]): string {
  const source = nodes[node || made_of[0] || ""];
  if (!source || !(node || (text && !source.tokens.length && source.text.includes(text)))) return "";
  return source.choice !== null ? source.id : ((marks[source.id]?.["sample"] ?? "") as string);
}

/** Whether a model wrote a node: it was generated, or is a part of one that was. */
export function isSampled(state: State, node: NodeState): boolean {
  return node.choice !== null || markOf(state, node.id, "sample") !== undefined;
}

function compose(state: State, node: NodeState, pieces: Piece[]): void {
  const tokenised = pieces.some((piece) => piece.node);
  for (const { node: from = "", start = 0, stop = 0, text = "" } of pieces) {
    if (from !== "") {
      const source = nodeOf(state, from);
      node.text += source.tokens.slice(start, stop).join("");
      for (const list of ["tokens", "logprobs", "top"] as const)
        for (const one of source[list].slice(start, stop)) (node[list] as unknown[]).push(one);
      continue;
    }
    node.text += text;
    if (tokenised && text !== "") {
      node.tokens.push(text);
      node.logprobs.push(null);
      node.top.push(null);
    }
  }
}

function set(state: State, loom: LoomState, { node: id, field, value = null }: Change): void {
  if (id !== "") nodeOf(state, id);
  if (field === "place") return place(state, id, value as [string | null, string | null]);
  const marks = marksOf(loom, id);
  if (isEmpty(value)) delete marks[field];
  else marks[field] = value;
  if (Object.keys(marks).length === 0) delete loom.marks[id];
}

function place(state: State, id: string, [parent, before]: [string | null, string | null]): void {
  const node = nodeOf(state, id);
  for (let step = parent; step !== null; step = nodeOf(state, step).parent)
    if (step === id) throw new Error("below itself");
  const old = siblings(state, node.parent);
  old.splice(old.indexOf(id), 1);
  const target = siblings(state, parent);
  const at = before === null ? -1 : target.indexOf(before);
  target.splice(at < 0 ? target.length : at, 0, id);
  node.parent = parent;
}

function siblings(state: State, parent: string | null): string[] {
  return parent === null ? state.roots : nodeOf(state, parent).children;
}

function marksOf(loom: LoomState, id: string): Record<string, unknown> {
  return (loom.marks[id] ??= table());
}

function isEmpty(value: unknown): boolean {
  if (value === null || value === false || value === "") return true;
  return typeof value === "object" && Object.keys(value).length === 0;
}

function table<T>(): Record<string, T> {
  return Object.create(null) as Record<string, T>;
}
