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
 * `asked` is how many alternatives the request asked for. The server lists that many and, when it is not
 * among them, the sampled token: one entry more than asked, last in probability, says so.
 */
export function rank(token: string, logprob: number | null, top: Top | null, asked: number | null): Ranking {
  const entries = Object.entries(top ?? {});
  if (logprob !== null && !entries.some(([text]) => text === token)) entries.push([token, logprob]);
  entries.sort((a, b) => b[1] - a[1]);
  const outside = asked !== null && entries.length > asked;
  const alternatives = entries.map(([text, value], place) => {
    const sampled = text === token;
    return { token: text, logprob: value, sampled, rank: sampled && outside && place === entries.length - 1 ? null : place + 1 };
  });
  const covered = entries.reduce((sum, [, value]) => sum + Math.exp(value), 0);
  return { alternatives, other: Math.min(1, Math.max(0, 1 - covered)) };
}

/** The rank that `rank` gives the sampled token, without putting the others in order. */
export function placeOf(token: string, logprob: number, top: Top, asked: number | null): number | null {
  let before = 0;
  let count = 0;
  let found = false;
  const own = Object.hasOwn(top, token) ? (top[token] ?? logprob) : logprob;
  for (const text of Object.keys(top)) {
    const value = top[text] ?? 0;
    count++;
    if (text === token) found = true;
    else if (value > own || (value === own && !found)) before++;
  }
  if (!found) count++;
  return asked !== null && count > asked && before === count - 1 ? null : before + 1;
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
