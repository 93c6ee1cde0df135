/**
 * Branches in words: which came from which, where they leave, what is known of the seam. The mirror of
 * `acs_jupyter/log/branching.py` and `widgets/roads.py`; golden files keep them equal. It must not know the page.
 */
import type { NodeState, RunState, State } from "../state";
import { count } from "./status";
import { visible } from "./text";

const LONGEST = 24;

type From = NonNullable<NodeState["origin"]>;

/** The node in which a branch begins. */
function nodeIn(state: State, run: string): NodeState | undefined {
  return state.nodes[state.runs[run]?.nodes[0] ?? ""];
}

export function originOf(state: State, run: string): From | null {
  return nodeIn(state, run)?.origin ?? null;
}

/** The run that a branch left, or `null`. */
export function sourceOf(state: State, run: string): string | null {
  const origin = originOf(state, run);
  return origin === null ? null : (state.nodes[origin.node]?.run ?? null);
}

/** The runs from the original to this one. */
export function road(state: State, run: string): string[] {
  const source = sourceOf(state, run);
  return source === null ? [run] : [...road(state, source), run];
}

export function rootOf(state: State, run: string): string {
  return road(state, run)[0] ?? run;
}

/** All branches of an original and theirs, in the order in which they were opened. */
export function descendants(state: State, root: string): string[] {
  const family = new Set([root]);
  const found: string[] = [];
  for (const run of Object.keys(state.runs)) {
    const source = sourceOf(state, run);
    if (source === null || !family.has(source)) continue;
    family.add(run);
    found.push(run);
  }
  return found;
}

/** `original` or `branch 3`. */
export function branchName(state: State, run: string): string {
  const root = rootOf(state, run);
  return run === root ? "original" : `branch ${descendants(state, root).indexOf(run) + 1}`;
}

/** What a branch left: `original`, `original 2` (its second choice), `branch 3`; "" for what is no branch. */
export function sourceName(state: State, run: string): string {
  const node = state.nodes[originOf(state, run)?.node ?? ""];
  if (node === undefined) return "";
  const several = (state.runs[node.run]?.nodes.length ?? 0) > 1;
  return branchName(state, node.run) + (several ? ` ${(node.choice ?? 0) + 1}` : "");
}

/** Where and how a branch leaves: `token 5 “·the”`; "" for what is no branch. */
export function leavingWords(state: State, run: string): string {
  const origin = originOf(state, run);
  const source = state.nodes[origin?.node ?? ""];
  if (origin === null || source === undefined) return "";
  const place = source.tokens.length > 0 ? `token ${count(origin.tokens + 1)}` : "";
  if (origin.text === "") return place === "" ? "sampled again" : `${place} sampled again`;
  if (isToken(source, origin)) return `${place} ${short(origin.text)}`;
  return place === "" ? "edited" : `edited from ${place}`;
}

/** How a branch was sent, and what is known of its seam; "" for what is no branch. */
export function seamWords(state: State, run: string): string {
  const origin = originOf(state, run);
  const here = state.runs[run];
  if (origin === null || here === undefined) return "";
  if (origin.exact) {
    const words = `by token ids, found for ${count(origin.cost)} tokens`;
    if (origin.seam === null) return words;
    return `${words}; the server reads what was kept otherwise than it was written, first at token ${count(origin.seam + 1)}`;
  }
  const expected = expectedPrompt(state, run);
  if (expected === null || !counted(here)) return "by text; whether the seam was retokenised is not known";
  if (expected === here.prompt_tokens) return "by text; the server counted the tokens that were written";
  const words = `by text, retokenised: the server read ${count(here.prompt_tokens)} tokens where ${count(expected)} were written`;
  if (origin.seam !== null) return `${words}, first at token ${count(origin.seam + 1)}`;
  return origin.cost > 0 ? `${words}; where is not to be found` : words;
}

/** Whether the server is known to have read other tokens than were written. */
export function retokenised(state: State, run: string): boolean {
  const origin = originOf(state, run);
  const here = state.runs[run];
  if (origin === null || here === undefined) return false;
  if (origin.exact) return origin.seam !== null;
  const expected = expectedPrompt(state, run);
  return expected !== null && counted(here) && expected !== here.prompt_tokens;
}

function expectedPrompt(state: State, run: string): number | null {
  const node = nodeIn(state, run);
  return node?.origin ? tokensBefore(state, node, node.kept) : null;
}

/** Tokens from the prompt's first to the node's `until`-th, as far as they were counted. */
function tokensBefore(state: State, node: NodeState, until: number): number | null {
  const run = state.runs[node.run];
  if (run === undefined) return null;
  const { origin } = node;
  if (origin === null) {
    const prompts = new Set(run.nodes.map((id) => state.nodes[id]?.parent));
    const text = node.parent !== null && (state.nodes[node.parent]?.ids ?? null) === null;
    return text && prompts.size === 1 && !node.echo && counted(run) ? run.prompt_tokens + until : null;
  }
  if (until > node.kept) return counted(run) ? run.prompt_tokens + until - node.kept : null;
  if (origin.text !== "" && node.kept === origin.tokens) return null;
  const source = state.nodes[origin.node];
  const put = until - origin.tokens;
  if (source === undefined || (put > 0 && !isToken(node, origin))) return null;
  const before = tokensBefore(state, source, Math.min(until, origin.tokens));
  return before === null ? null : before + Math.max(0, put);
}

/** Whether the text put in place is one of the alternatives that came for that place. */
function isToken(node: NodeState, origin: From): boolean {
  const top = node.top[origin.tokens];
  return top !== null && top !== undefined && Object.hasOwn(top, origin.text);
}

function counted(run: RunState): boolean {
  return (run.usage_source === "usage" || run.usage_source === "continuous") && run.prompt_tokens > 0;
}

function short(text: string): string {
  const characters = Array.from(text, visible);
  return `“${characters.slice(0, LONGEST).join("")}${characters.length > LONGEST ? "…" : ""}”`;
}
