/**
 * The tree that events fold into: the mirror of `acs_jupyter/log/session.py`, field for field.
 *
 * Golden files keep both equal. The state is changed in place and belongs to whoever made it: copying
 * 20,000 tokens for each token that comes would be quadratic. It must not know models or the page.
 */
import type { Event, Origin, Outcome, Scored, Top } from "./events";
import { revise, type LoomState } from "./revise";

export interface NodeState {
  id: string;
  run: string;
  parent: string | null;
  choice: number | null;
  ids: number[] | null;
  echo: boolean;
  /** How many of the tokens were taken over from the node this one branched from. */
  kept: number;
  /** Where it branched from another node. */
  origin: Required<Origin> | null;
  text: string;
  tokens: string[];
  logprobs: (number | null)[];
  top: (Top | null)[];
  scores: (Scored[] | null)[] | null;
  finish_reason: string | null;
  stop_reason: string | number | null;
  children: string[];
}

export interface RunError {
  code: string;
  message: string;
  status: number | null;
  retryable: boolean;
}

/** Times are seconds since the epoch, by the kernel's clock. */
export interface RunState {
  id: string;
  request: Record<string, unknown>;
  request_id: string | null;
  opened_at: number;
  nodes: string[];
  checkpoint: string | null;
  completion_id: string | null;
  headers: Record<string, string>;
  note: string | null;
  prompt_tokens: number;
  completion_tokens: number;
  usage_source: string | null;
  error: RunError | null;
  outcome: Outcome;
  first_token_at: number | null;
  closed_at: number | null;
}

export interface State {
  roots: string[];
  nodes: Record<string, NodeState>;
  runs: Record<string, RunState>;
  /** How people arranged the tree; absent while nobody has. */
  loom?: LoomState;
}

/** A state in which nothing has happened. Ids are data, so the tables have no prototype. */
export function emptyState(): State {
  return { roots: [], nodes: table(), runs: table() };
}

/** How often a state's tree got another shape: a node more, or what people arranged. */
const shapes = new WeakMap<State, number>();

export function shapeOf(state: State): number {
  return shapes.get(state) ?? 0;
}

/** Fold one event into the state; `at` is when it happened. Throws on a node or run it has not seen. */
export function fold(state: State, event: Event, at: number): void {
  if (event.type === "NodeOpened" || event.type === "Revised") shapes.set(state, shapeOf(state) + 1);
  switch (event.type) {
    case "RunOpened":
      state.runs[event.run] = openRun(event.run, event.request, event.request_id ?? null, at);
      return;
    case "NodeOpened": {
      const { node: id, run, parent = null, choice = null, text = "", ids = null, echo = false } = event;
      const opened: NodeState = { ...emptyNode, id, run, parent, choice, ids, echo, text, ...emptyLists() };
      if (event.origin) takeOver(opened, nodeOf(state, event.origin.node), event.origin);
      state.nodes[id] = opened;
      if (choice !== null) runOf(state, run).nodes.push(id);
      if (parent === null) state.roots.push(id);
      else nodeOf(state, parent).children.push(id);
      return;
    }
    case "Served": {
      const run = runOf(state, event.run);
      run.checkpoint = event.checkpoint || run.checkpoint;
      run.completion_id = event.completion_id || run.completion_id;
      run.request_id = event.request_id || run.request_id;
      run.headers = { ...run.headers, ...event.headers };
      return;
    }
    case "Waited":
      runOf(state, event.run).note = event.note;
      return;
    case "TokensArrived": {
      const node = nodeOf(state, event.node);
      node.text += event.text ?? event.tokens?.join("") ?? "";
      append(node.tokens, event.tokens);
      append(node.logprobs, event.logprobs);
      append(node.top, event.top);
      const run = runOf(state, node.run);
      if (run.first_token_at === null) {
        run.first_token_at = at;
        run.note = null;
      }
      return;
    }
    case "PromptScored":
      nodeOf(state, event.node).scores = event.positions;
      return;
    case "SeamSought": {
      const { origin } = nodeOf(state, event.node);
      if (origin !== null) Object.assign(origin, { seam: event.seam ?? null, cost: event.cost });
      return;
    }
    case "Finished": {
      const node = nodeOf(state, event.node);
      node.finish_reason = event.finish_reason;
      node.stop_reason = event.stop_reason ?? null;
      return;
    }
    case "Spent": {
      const run = runOf(state, event.run);
      run.prompt_tokens = event.prompt_tokens;
      run.completion_tokens = event.completion_tokens;
      run.usage_source = event.source ?? "usage";
      return;
    }
    case "Failed": {
      const run = runOf(state, event.run);
      const { code, message, status = null, retryable = false } = event;
      run.error = { code, message, status, retryable };
      run.request_id = event.request_id || run.request_id;
      return;
    }
    case "RunClosed": {
      const run = runOf(state, event.run);
      run.outcome = event.outcome;
      run.note = null;
      run.closed_at = at;
      return;
    }
    case "Revised":
      revise(state, event);
      return;
    default:
      event satisfies never;
  }
}

/** How many alternatives a run's request asked for. */
export function askedOf(run: RunState | undefined): number | null {
  const value = run?.request["logprobs"];
  return typeof value === "number" ? value : null;
}

/** How many UTF-16 units of a node's text repeat what stands before it (the server's echo). */
export function echoed(state: State, node: NodeState): number {
  const before = node.echo && node.parent !== null ? textTo(state, node.parent) : "";
  return before !== "" && node.text.startsWith(before) ? before.length : 0;
}

/** The whole text from the root to the end of a node; an echoed prompt counts once. */
export function textTo(state: State, id: string): string {
  const texts: string[] = [];
  for (let step: string | null = id; step !== null; ) {
    const node = nodeOf(state, step);
    texts.push(node.parent === null ? node.text : node.text.slice(echoed(state, node)));
    step = node.parent; // a loop: a tree can be deeper than the stack
  }
  return texts.reverse().join("");
}

/** Whether a state only adds to what another one shows: runs and nodes are there, texts and tokens begin alike. */
export function goesOn(before: State, after: State): boolean {
  const runs = Object.keys(before.runs);
  return (
    runs.length > 0 &&
    runs.every((id) => after.runs[id] !== undefined) &&
    Object.values(before.nodes).every((old) => {
      const node = after.nodes[old.id];
      return node !== undefined && node.run === old.run && node.text.startsWith(old.text) && old.tokens.every((token, i) => token === node.tokens[i]);
    })
  );
}

export function nodeOf(state: State, id: string): NodeState {
  const node = state.nodes[id];
  if (node === undefined) throw new Error(`no node ${id}`);
  return node;
}

export function runOf(state: State, id: string): RunState {
  const run = state.runs[id];
  if (run === undefined) throw new Error(`no run ${id}`);
  return run;
}

/** Begin a branch with a copy of another node's beginning; the token put in place keeps its known logprob. */
function takeOver(node: NodeState, source: NodeState, origin: Origin): void {
  const { tokens: count = 0, text = "", exact = false, seam = null, cost = 0 } = origin;
  node.origin = { node: origin.node, tokens: count, text, exact, seam, cost };
  node.echo = source.echo;
  node.tokens = source.tokens.slice(0, count);
  node.logprobs = source.logprobs.slice(0, count);
  node.top = source.top.slice(0, count);
  if (text !== "" && source.tokens.length > 0) {
    const top = source.top[count] ?? null;
    node.tokens.push(text);
    // A token may be called like what every object has: "constructor".
    node.logprobs.push(top !== null && Object.hasOwn(top, text) ? (top[text] ?? null) : null);
    node.top.push(top);
  }
  node.kept = node.tokens.length;
  node.text += node.tokens.length > 0 ? node.tokens.join("") : text;
}

export const emptyNode = { kept: 0, origin: null, scores: null, finish_reason: null, stop_reason: null };
export const emptyLists = () => ({ tokens: [], logprobs: [], top: [], children: [] });

export function openRun(id: string, request: Record<string, unknown>, request_id: string | null, at: number): RunState {
  return {
    id,
    request,
    request_id,
    opened_at: at,
    nodes: [],
    checkpoint: null,
    completion_id: null,
    headers: {},
    note: null,
    prompt_tokens: 0,
    completion_tokens: 0,
    usage_source: null,
    error: null,
    outcome: "open",
    first_token_at: null,
    closed_at: null,
  };
}

function table<T>(): Record<string, T> {
  return Object.create(null) as Record<string, T>;
}

function append<T>(list: T[], more: T[] | undefined): void {
  if (more !== undefined) for (const item of more) list.push(item);
}
