/**
 * A loom's tree as a list of rows: what is alive, what is folded, where one goes from a node. It must not know the page.
 */
import { markOf } from "../revise";
import { shapeOf, type State } from "../state";

export interface Row {
  id: string;
  /** From 1, of the tree that is shown. */
  level: number;
  /** How far it is moved to the right: a node that alone goes on does not move. */
  indent: number;
  /** Its place among its siblings, from 1, and how many they are. */
  place: number;
  size: number;
  children: number;
  folded: boolean;
}

/** The living children of a node, of the tree when `null`. */
export function alive(state: State, parent: string | null): string[] {
  const siblings = parent === null ? state.roots : (state.nodes[parent]?.children ?? []);
  return siblings.filter((id) => markOf(state, id, "deleted") !== true);
}

const counted = new WeakMap<State, { shape: number; living: number }>();

/** How many nodes are alive; counted once for each shape of the tree. */
export function livingCount(state: State): number {
  const before = counted.get(state);
  if (before !== undefined && before.shape === shapeOf(state)) return before.living;
  const waiting = alive(state, null);
  let living = 0;
  for (let id = waiting.pop(); id !== undefined; id = waiting.pop(), living += 1) {
    for (const child of alive(state, id)) waiting.push(child);
  }
  counted.set(state, { shape: shapeOf(state), living });
  return living;
}

/** Whether the node is there, and it and all above it are alive. */
export function isAlive(state: State, id: string): boolean {
  for (let step: string | null = id; step !== null; step = state.nodes[step]?.parent ?? null) {
    if (state.nodes[step] === undefined || markOf(state, step, "deleted") === true) return false;
  }
  return true;
}

/** The node that is shown as the root, or `null`. */
export function hoisted(state: State): string | null {
  const stack = (markOf(state, "", "hoisted") ?? []) as string[];
  return stack.filter((id) => isAlive(state, id)).at(-1) ?? null;
}

/** All rows that are not folded away, in reading order. */
export function outline(state: State, root: string | null, isFolded: (id: string) => boolean): Row[] {
  const rows: Row[] = [];
  const waiting: Omit<Row, "children" | "folded">[] = [];
  const push = (ids: string[], level: number, indent: number) => {
    for (let i = ids.length - 1; i >= 0; i--) waiting.push({ id: ids[i] ?? "", level, indent, place: i + 1, size: ids.length });
  };
  push(root === null ? alive(state, null) : [root], 1, 0);
  for (let row = waiting.pop(); row !== undefined; row = waiting.pop()) {
    const children = alive(state, row.id);
    const folded = children.length > 0 && isFolded(row.id);
    rows.push({ ...row, children: children.length, folded });
    if (!folded) push(children, row.level + 1, row.indent + (children.length > 1 ? 1 : 0));
  }
  return rows;
}

/** The ids from the root to a node. */
export function pathTo(state: State, id: string): string[] {
  const path: string[] = [];
  for (let step: string | null = id; step !== null; step = state.nodes[step]?.parent ?? null) path.push(step);
  return path.reverse();
}

/** Where to go when a node is no longer there: its next living sibling, the one before, or what is above. */
export function nearest(state: State, id: string): string | null {
  for (let step: string | null = id; step !== null; ) {
    const node: State["nodes"][string] | undefined = state.nodes[step];
    if (node === undefined) break;
    if (node.parent === null || isAlive(state, node.parent)) {
      const siblings = node.parent === null ? state.roots : (state.nodes[node.parent]?.children ?? []);
      const at = siblings.indexOf(step);
      const living = (one: string) => isAlive(state, one);
      return siblings.slice(at).find(living) ?? siblings.slice(0, at).findLast(living) ?? node.parent;
    }
    step = node.parent;
  }
  return alive(state, null)[0] ?? null;
}

/** Whether a run still writes to the node. */
export function isBusy(state: State, id: string): boolean {
  const node = state.nodes[id];
  return node !== undefined && node.choice !== null && node.finish_reason === null && state.runs[node.run]?.outcome === "open";
}

/** What a node goes on with: its run's sampling, and what it was told itself. */
export function samplingOf(state: State, id: string): Record<string, unknown> {
  const request = state.runs[state.nodes[id]?.run ?? ""]?.request ?? {};
  const { n: _n, echo: _echo, stream: _stream, prompt_logprobs: _scores, stream_options: _options, ...kept } = request;
  return { ...kept, ...(markOf(state, id, "sampling") as object | undefined) };
}
