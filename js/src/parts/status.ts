/**
 * What is said about a run in words. It must not know the page.
 */
import type { NodeState, RunState, State } from "../state";

/** Why a choice ended, in words; "" while it has not. */
export function finishWords(node: NodeState, run: RunState): string {
  const { finish_reason: reason, stop_reason: at } = node;
  if (reason === "length") {
    const limit = clampOf(run)?.["applied"] ?? run.request["max_tokens"];
    return limit === undefined || limit === null ? "reached max_tokens" : `reached max_tokens (${String(limit)})`;
  }
  if (reason === "stop") {
    if (typeof at === "string") return `stop string ${JSON.stringify(at)}`;
    return typeof at === "number" ? `stop token ${at}` : "end of text";
  }
  if (reason !== null) return reason;
  return run.outcome === "open" ? "" : outcomeWords(run);
}

/** Of a part of a generated text: that it is one, and with the end of the text how that ended. */
export function cutWords(node: NodeState, run: RunState): string[] {
  return ["split from a sample", ...(node.finish_reason === null ? [] : [finishWords(node, run)])];
}

/** How the run as a whole stands. */
export function outcomeWords(run: RunState): string {
  switch (run.outcome) {
    case "open":
      return run.first_token_at === null ? "waiting" : "running";
    case "done":
      return "done";
    case "stopped":
      return "stopped";
    case "interrupted":
      return "interrupted";
    case "failed":
      return run.error === null ? "failed" : `failed: ${run.error.code}`;
  }
}

/** The model that answered, or the one that was asked. */
export function modelName(run: RunState): string {
  const asked = run.request["model"];
  return run.checkpoint ?? (typeof asked === "string" ? asked : "default model");
}

/** Tokens of the completion: the server's count, or while there is none, those that came. */
export function completionTokens(state: State, run: RunState): number {
  if (run.usage_source !== null) return run.completion_tokens;
  return run.nodes.reduce((sum, id) => sum + (state.nodes[id]?.tokens.length ?? 0), 0);
}

/** Seconds; what came sooner was not waited for: a job's result, which is read whole when it has long ended. */
const AT_ONCE = 0.0005;

/** `1 token`, `2,000 tokens`. */
export function tokenCount(tokens: number): string {
  return `${count(tokens)} ${tokens === 1 ? "token" : "tokens"}`;
}

/** Figures for the status line, each ready to show. `at`: when the last thing happened. */
export function figures(state: State, run: RunState, at: number): string[] {
  const shown: string[] = [];
  const tokens = completionTokens(state, run);
  if (tokens > 0) {
    const prompt = run.usage_source === null ? "" : `${count(run.prompt_tokens)} + `;
    const about = run.usage_source === "estimate" ? "about " : "";
    shown.push(`${about}${prompt}${tokenCount(tokens)}`);
  }
  if (run.first_token_at !== null) {
    const waited = run.first_token_at - run.opened_at;
    if (waited >= AT_ONCE) shown.push(`first token ${seconds(waited)}`);
    const took = (run.closed_at ?? at) - run.first_token_at;
    if (tokens > 1 && took > 0.05) shown.push(`${rate((tokens - 1) / took)} tok/s`);
  }
  return shown;
}

/** The server lowered `max_tokens`: a sentence, or "". */
export function clampWords(run: RunState): string {
  const clamp = clampOf(run);
  if (clamp === undefined) return "";
  const { requested, applied, reason } = clamp;
  const why = reason ? ` (${reason.replaceAll("_", " ")})` : "";
  return applied === undefined
    ? "The server lowered max_tokens."
    : `The server lowered max_tokens${requested === undefined ? "" : ` from ${requested}`} to ${applied}${why}.`;
}

export const UNSAVED =
  "The notebook has no whole copy of this: the page was reloaded, or the cell moved, before it ended. %acs last writes one.";

/** What went wrong, on one line, or "". */
export function errorWords(run: RunState): string {
  if (run.error === null) return "";
  const { code, message, status } = run.error;
  return `${code}${status === null ? "" : ` (${status})`}: ${message.replace(/\s+/g, " ").trim()}`;
}

/** The fields of the clamp header, when there is one. */
function clampOf(run: RunState): Record<string, string | undefined> | undefined {
  const header = run.headers["x-acs-max-tokens-clamped"];
  const pairs = header?.split(",").map((part) => part.split("=", 2).map((s) => s.trim()));
  return pairs && (Object.fromEntries(pairs) as Record<string, string | undefined>);
}

/** `12,345`. Called for every message, and `toLocaleString` is slow. */
export function count(value: number): string {
  return String(value).replace(/\B(?=(\d{3})+$)/g, ",");
}

function seconds(value: number): string {
  return value < 1 ? `${Math.round(value * 1000)} ms` : `${value.toFixed(value < 10 ? 2 : 1)} s`;
}

function rate(value: number): string {
  return value >= 100 ? count(Math.round(value)) : value.toFixed(1);
}
