/**
 * Reads the packed state that `acs_jupyter/widgets/packing.py` writes; the grammar stands there.
 */
import type { Top } from "./events";
import type { LoomState } from "./revise";
import { emptyState, type NodeState, type RunState, type State } from "./state";

export interface Snapshot {
  seq: number;
  at: number;
  state: State;
}

interface PackedNode extends Omit<NodeState, "text" | "tokens" | "logprobs" | "top"> {
  text: string | null;
  count: number;
  packed: string;
}

interface Packed {
  v: number;
  seq: number;
  at: number;
  strings: string[];
  state: { roots: string[]; nodes: Record<string, PackedNode>; runs: Record<string, RunState>; loom?: LoomState };
}

/** The state in a packed string, or `null` when there is none or another version wrote it. */
export function unpack(text: string): Snapshot | null {
  if (text === "") return null;
  const packed = JSON.parse(text) as Packed;
  if (packed.v !== 1) return null;
  const state = emptyState();
  state.roots = packed.state.roots;
  for (const [id, node] of Object.entries(packed.state.nodes)) state.nodes[id] = unpackNode(node, packed.strings);
  for (const [id, run] of Object.entries(packed.state.runs)) state.runs[id] = run;
  if (packed.state.loom !== undefined) state.loom = adopted(packed.state.loom);
  return { seq: packed.seq, at: packed.at, state };
}

/** Ids are data: a table that JSON made has a prototype. */
function adopted(loom: LoomState): LoomState {
  const marks = Object.create(null) as LoomState["marks"];
  for (const [id, some] of Object.entries(loom.marks)) marks[id] = Object.assign(Object.create(null), some);
  return { ...loom, marks };
}

function unpackNode({ text, count, packed, ...rest }: PackedNode, strings: string[]): NodeState {
  return fillNode(rest as NodeState, text, count, packed, strings);
}

/** Tokens are read when somebody looks at them: a tree of thousands of nodes is open before that. */
export function fillNode(whole: NodeState, text: string | null, count: number, packed: string, strings: string[]): NodeState {
  const read = () => {
    const tokens = unpackTokens(packed, count, strings);
    for (const [name, value] of Object.entries({ text: text ?? tokens.tokens.join(""), ...tokens })) {
      Object.defineProperty(whole, name, { value, writable: true, enumerable: true, configurable: true });
    }
  };
  for (const name of ["text", "tokens", "logprobs", "top"] as const) {
    Object.defineProperty(whole, name, {
      get() {
        read();
        return whole[name];
      },
      enumerable: true,
      configurable: true,
    });
  }
  return whole;
}

function unpackTokens(packed: string, count: number, strings: string[]) {
  const read = reader(packed);
  const tokens: string[] = [];
  const logprobs: (number | null)[] = [];
  const top: (Top | null)[] = [];
  for (let i = 0; i < count; i++) {
    const token = strings[read()] ?? "";
    const code = read();
    const logprob = code === 0 ? null : -(code - 1) / 1000;
    tokens.push(token);
    logprobs.push(logprob);
    top.push(alternatives(read, token, logprob ?? 0, strings));
  }
  return { tokens, logprobs, top };
}

function alternatives(read: () => number, token: string, logprob: number, strings: string[]): Top | null {
  const count = read() - 1;
  if (count < 0) return null;
  // Without a prototype a token "__proto__" is only a key; and a table from the start is made in a third of the time.
  const top = { __proto__: null } as unknown as Top;
  for (let i = 0; i < count; i++) {
    const place = read();
    if (place === 0) top[token] = logprob;
    else top[strings[place - 1] ?? ""] = -read() / 1000;
  }
  return top;
}

function reader(base64: string): () => number {
  const bytes = atob(base64);
  let place = 0;
  return () => {
    let number = 0;
    for (let scale = 1; ; scale *= 128) {
      const byte = bytes.charCodeAt(place++);
      number += (byte & 0x7f) * scale;
      if (!(byte & 0x80)) return number;
    }
  };
}
