/**
 * What other sampling settings would have left of a recorded distribution.
 *
 * The order is vLLM's (V1): `vllm/v1/sample/sampler.py`, `Sampler.sample` applies temperature (below 1e-5 it
 * takes the most likely token), then the processors that leave the most likely token alone, which is min_p
 * (`vllm/v1/sample/logits_processor/builtin.py`, `MinPLogitsProcessor.apply`), then
 * `vllm/v1/sample/ops/topk_topp_sampler.py`, `apply_top_k_top_p_pytorch`: top_k first, top_p on what is left
 * and renormalised. Logprobs are returned as they were before all of this (`raw_logprobs`), so they can be
 * the input here. Ties at the top_k bound stay, the most likely token always stays, as there.
 *
 * Only the alternatives that were returned are known. They are taken for the whole: min_p and top_k come out
 * as on the server, while top_p is reached sooner than there, by as much as is missing.
 */
import type { NodeState } from "../state";
import { askedAt, rank, type Alternative } from "./ranking";

export interface Settings {
  /** 0: the most likely token, always. */
  temperature: number;
  /** 1: off. */
  top_p: number;
  /** 0: off. */
  top_k: number;
  /** 0: off. */
  min_p: number;
}

export type Cut = "temperature" | "min_p" | "top_k" | "top_p";

export interface Outlook {
  /** Probability under the settings, over the survivors; 0 for what is cut. */
  probability: number;
  /** What cut it, or `null` for a survivor. */
  cut: Cut | null;
}

export const NEUTRAL: Settings = { temperature: 1, top_p: 1, top_k: 0, min_p: 0 };

const GREEDY_BELOW = 1e-5;

/** Logprobs, most likely first, under the settings. */
export function reshape(logprobs: readonly number[], settings: Settings): Outlook[] {
  const count = logprobs.length;
  const cut = new Array<Cut | null>(count).fill(null);
  if (settings.temperature < GREEDY_BELOW) {
    return cut.map((_, i) => (i === 0 ? { probability: 1, cut: null } : { probability: 0, cut: "temperature" }));
  }
  const most = logprobs[0] ?? 0;
  // Relative to the most likely token, whose weight is 1: min_p needs no more, whatever was not returned.
  const weights = logprobs.map((logprob) => Math.exp((logprob - most) / settings.temperature));
  weights.forEach((weight, i) => {
    if (weight < settings.min_p && i > 0) cut[i] = "min_p";
  });
  const bound = settings.top_k > 0 && settings.top_k < count ? (weights[settings.top_k - 1] ?? 0) : 0;
  weights.forEach((weight, i) => {
    if (cut[i] === null && weight < bound) cut[i] = "top_k";
  });
  const left = () => weights.reduce((sum, weight, i) => (cut[i] === null ? sum + weight : sum), 0);
  if (settings.top_p < 1) cutTail(weights, cut, left(), settings.top_p);
  const whole = left();
  return weights.map((weight, i) => ({ probability: cut[i] === null ? weight / whole : 0, cut: cut[i] ?? null }));
}

/** From the least likely on: what together makes up no more than `1 - top_p` goes. */
function cutTail(weights: readonly number[], cut: (Cut | null)[], whole: number, top_p: number): void {
  let sum = 0;
  for (let i = weights.length - 1; i > 0; i--) {
    if (cut[i] !== null) continue;
    sum += (weights[i] ?? 0) / whole;
    if (sum > 1 - top_p) return;
    cut[i] = "top_p";
  }
}

export interface Reshaped extends Outlook {
  alternative: Alternative;
}

/** The alternatives of a token under the settings, and the share of all probability that they hold. */
export function outlook(node: NodeState, index: number, asked: number | null, settings: Settings): { rows: Reshaped[]; covered: number } {
  const { alternatives, other } = rank(node.tokens[index] ?? "", node.logprobs[index] ?? null, node.top[index] ?? null, askedAt(node, index, asked));
  const shapes = reshape(alternatives.map((one) => one.logprob), settings);
  const rows = alternatives.map((alternative, i) => ({ alternative, ...(shapes[i] ?? { probability: 0, cut: null }) }));
  return { rows, covered: 1 - other };
}

/** `unknown`: the token came from outside the list, and whether top_k reaches as far as it cannot be said. */
export type Fate = "kept" | "cut" | "unknown";

/** What would have become of the sampled token; `null` where no alternatives are known. */
export function fate(node: NodeState, index: number, asked: number | null, settings: Settings): Fate | null {
  const top = node.top[index];
  if (!top || (node.logprobs[index] ?? null) === null) return null;
  const { rows } = outlook(node, index, asked, settings);
  const own = rows.find((row) => row.alternative.sampled);
  if (own === undefined || rows.length < 2) return null;
  if (own.cut !== null) return "cut";
  return own.alternative.rank === null && settings.top_k >= rows.length ? "unknown" : "kept";
}

/** The settings a request was made with. */
export function settingsOf(request: Record<string, unknown>): Settings {
  const number = (name: keyof Settings) => {
    const value = request[name];
    return typeof value === "number" && Number.isFinite(value) ? value : NEUTRAL[name];
  };
  return { temperature: number("temperature"), top_p: number("top_p"), top_k: Math.max(0, number("top_k")), min_p: number("min_p") };
}
