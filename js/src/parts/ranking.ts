/**
 * The alternatives of one token in order, the sampled one among them, and what they leave uncovered.
 */
import type { Top } from "../events";

export interface Alternative {
  token: string;
  logprob: number;
  sampled: boolean;
  /** Place by probability, from 1; `null` for a sampled token from outside the top list. */
  rank: number | null;
}

export interface Ranking {
  alternatives: Alternative[];
  /** Probability that no listed token holds, 0 to 1. */
  other: number;
}

/**
 * `asked` is how many alternatives the request asked for, `null` where that is not known. The server lists that many
 * and, when it is not among them, the sampled token: one entry more than asked, last in probability, says so. Where it
 * is not known how many were asked for, the last of a list counts as such. `acs_jupyter/log/ranking.py` is the same rule.
 */
export function rank(token: string, logprob: number | null, top: Top | null, asked: number | null): Ranking {
  const entries = Object.entries(top ?? {});
  if (logprob !== null && !entries.some(([text]) => text === token)) entries.push([token, logprob]);
  entries.sort((a, b) => b[1] - a[1]);
  const own = logprob === null ? null : placeOf(token, logprob, top ?? {}, asked);
  const alternatives = entries.map(([text, value], place) => ({ token: text, logprob: value, sampled: text === token, rank: text === token ? own : place + 1 }));
  const covered = entries.reduce((sum, [, value]) => sum + Math.exp(value), 0);
  return { alternatives, other: Math.min(1, Math.max(0, 1 - covered)) };
}

/** The rank of the sampled token. */
export function placeOf(token: string, logprob: number, top: Top, asked: number | null): number | null {
  const others = Object.keys(top).filter((text) => text !== token);
  const before = others.filter((text) => (top[text] ?? 0) > logprob).length;
  return before === others.length && (asked === null || before >= asked) ? null : before + 1;
}

/** How many alternatives were asked for at a token of a node: what a branch kept was asked for by another run. */
export function askedAt(node: { kept: number }, index: number, asked: number | null): number | null {
  return index < node.kept ? null : asked;
}

/**
 * How many alternatives came where more were asked for, or `null`: ids that decode to one spelling share an
 * entry, so the list can be shorter than asked.
 */
export function fewer(top: Top | null | undefined, asked: number | null): number | null {
  if (!top || asked === null) return null;
  const came = Object.keys(top).length;
  return came < asked ? came : null;
}
