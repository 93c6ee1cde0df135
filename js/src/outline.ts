/**
 * Reads the outline of a large state, and the contents that follow it: the grammar stands in
 * `acs_jupyter/widgets/outline.py`. It must not know models or the page.
 *
 * A node without its contents is hollow: its text and tokens are empty until they come, and what is known of it, how its
 * text begins and its mean log-probability, is its gist. Nothing is composed of a hollow node's tokens.
 */
import type { Event } from "./events";
import type { Folding } from "./host";
import { fillNode, unpack, type Snapshot } from "./packing";
import { echoed, fold, nodeOf, openRun, type NodeState, type State } from "./state";

export interface Gist {
  /** How the node's own text begins. */
  begins: string;
  /** The mean of its tokens' log-probabilities, `null` when none is known. */
  mean: number | null;
}

const BEGINNING = 180;
const USUAL = { parent: null, choice: null, ids: null, echo: false, kept: 0, origin: null, scores: null, finish_reason: null, stop_reason: null };
const CONTENTS = ["text", "tokens", "logprobs", "top"] as const;

const hollow = new WeakSet<NodeState>();
/** Of nodes that never change any more. */
const gists = new WeakMap<NodeState, Gist>();

/** Whether a node's contents have not come yet. */
export function isHollow(node: NodeState): boolean {
  return hollow.has(node);
}

/** How a node begins and how likely it was: of one that is over it is known without its contents. */
export function gistOf(state: State, node: NodeState): Gist {
  const known = gists.get(node);
  if (known !== undefined) return known;
  const lead = node.echo ? echoed(state, node) : 0;
  const gist = { begins: node.text.slice(lead, lead + BEGINNING), mean: meanOf(node.logprobs) };
  if (state.runs[node.run]?.outcome !== "open") gists.set(node, gist);
  return gist;
}

/** The mean of what is known, `null` when nothing is. */
export function meanOf(logprobs: readonly (number | null)[]): number | null {
  let sum = 0;
  let known = 0;
  for (const logprob of logprobs) {
    if (logprob === null) continue;
    sum += logprob;
    known++;
  }
  return known === 0 ? null : sum / known;
}

interface Head {
  gists: Record<string, [begins: string, mean: number | null]>;
  hollow: string[];
}

/** The state of an outline. What `before` holds already is taken over: a node that is over does not change. */
export function unpackOutline(text: string, before: State): Snapshot | null {
  const end = text.indexOf("\n");
  const snapshot = unpack(text.slice(end + 1));
  if (snapshot === null || end < 0) return snapshot;
  const head = JSON.parse(text.slice(0, end)) as Head;
  // What is as usual was left out.
  for (const [id, run] of Object.entries(snapshot.state.runs)) snapshot.state.runs[id] = { ...openRun(id, {}, null, 0), ...run };
  for (const node of Object.values(snapshot.state.nodes)) {
    for (const [name, value] of Object.entries(USUAL)) if (!(name in node)) Object.assign(node, { [name]: value });
    node.children ??= [];
  }
  for (const [id, [begins, mean]] of Object.entries(head.gists)) gists.set(nodeOf(snapshot.state, id), { begins, mean });
  for (const id of head.hollow) {
    const [node, old] = [nodeOf(snapshot.state, id), before.nodes[id]];
    const kept = old !== undefined && !hollow.has(old);
    if (!kept) hollow.add(node);
    for (const name of CONTENTS) {
      const value = name === "text" ? "" : [];
      Object.defineProperty(node, name, (kept && Object.getOwnPropertyDescriptor(old, name)) || { value, writable: true, enumerable: true, configurable: true });
    }
  }
  return snapshot;
}

/** Put contents into the nodes that lack them; gives the ids of those. */
export function fill(state: State, text: string): string[] {
  const { strings, nodes } = JSON.parse(text) as { strings: string[]; nodes: Record<string, [text: string | null, count: number, packed: string]> };
  const filled: string[] = [];
  for (const [id, [own, count, packed]] of Object.entries(nodes)) {
    const node = state.nodes[id];
    if (node === undefined || !hollow.delete(node)) continue;
    fillNode(node, own, count, packed, strings);
    filled.push(id);
  }
  return filled;
}

/** The nodes of whose tokens an event composes others. */
function sources(event: Event): string[] {
  if (event.type === "NodeOpened") return event.origin ? [event.origin.node] : [];
  return event.type === "Revised" ? (event.written ?? []).flatMap(({ pieces = [] }) => pieces.map(({ node = "" }) => node)) : [];
}

export const outlined: Folding = {
  unpack: unpackOutline,
  fold(state, event, at) {
    for (const id of sources(event)) {
      const node = state.nodes[id];
      if (node !== undefined && hollow.has(node)) throw new Error(`the contents of node ${id} are not here`);
    }
    fold(state, event, at);
  },
  // Texts of nodes that are there do not become others.
  goesOn: (before, after) => Object.keys(before.runs).length > 0 && Object.keys(before.nodes).every((id) => after.nodes[id] !== undefined),
};
