/**
 * One position's distribution in order: cumulative, where a temperature moves it, and where a nucleus ends.
 *
 * Temperature acts before top_p, as in vLLM (see `whatif.ts`). Of a whole distribution both are exact; of what was
 * returned they are over that alone, except the nucleus at temperature 1, which needs no more.
 */
import { NEVER, type TokenRead, type WholeRow } from "./reading";

/** The sliders go in steps of this, and a whole distribution comes with its sum at each of them. */
export const STEP = 0.05;

export interface SpreadRow {
  text: string;
  id: number | null;
  logprob: number;
  /** `null` for the text's own token where its rank is not known. */
  rank: number | null;
  own: boolean;
  probability: number;
  /** Up to this row; `null` behind a gap. */
  cumulative: number | null;
  /** At the temperature. */
  moved: number;
  /** Whether the nucleus has it; `null` where that is not known. */
  inside: boolean | null;
}

export interface Spread {
  rows: SpreadRow[];
  /** Share of all probability that the rows hold, 0 to 1. */
  covered: number;
  /** Tokens in the nucleus; `null` when it reaches beyond what is known. */
  nucleus: number | null;
  /** Whether the temperature column is exact. */
  exact: boolean;
  entropy: number | null;
}

interface Entry {
  id: number | null;
  text: string;
  logprob: number;
  rank: number | null;
}

/** Of the alternatives that were returned. */
export function spreadReturned(token: TokenRead, temperature: number, top_p: number): Spread {
  const entries: Entry[] = token.top.map(([text, logprob], place) => ({ id: null, text, logprob, rank: place + 1 }));
  const at = entries.findIndex(({ text, logprob }) => text === token.text && logprob === token.logprob);
  const outside = at < 0 && token.logprob !== null;
  if (outside) entries.push({ id: token.id, text: token.text, logprob: token.logprob ?? NEVER, rank: token.rank });
  const sum = Math.log(entries.reduce((all, { logprob }) => all + Math.exp(logprob / temperature), 0));
  return spread(entries, at < 0 ? entries.length - 1 : at, outside, temperature, top_p, temperature === 1 ? 0 : sum, temperature === 1);
}

/** Of a whole distribution. */
export function spreadWhole(whole: WholeRow, temperature: number, top_p: number): Spread {
  const entries: Entry[] = whole.rows.map(([id, text, logprob], place) => ({ id, text, logprob, rank: place + 1 }));
  let at = -1;
  let outside = false;
  if (whole.own !== null) {
    const [id, text, logprob, rank] = whole.own;
    at = entries.findIndex((one) => one.id === id);
    outside = at < 0;
    if (outside) at = entries.push({ id, text, logprob, rank }) - 1;
  }
  const sum = whole.sums[Math.round(temperature / STEP) - 1] ?? 0;
  return { ...spread(entries, at, outside, temperature, top_p, sum, true), entropy: whole.entropy };
}

function spread(entries: Entry[], own: number, outside: boolean, temperature: number, top_p: number, sum: number, exact: boolean): Spread {
  let [cumulative, moved, covered] = [0, 0, 0];
  let nucleus: number | null = null;
  const rows = entries.map((entry, place): SpreadRow => {
    const probability = Math.exp(entry.logprob);
    const share = entry.logprob <= NEVER ? 0 : Math.exp(entry.logprob / temperature - sum);
    const beyond = outside && place === own;
    const inside = nucleus === null ? (beyond ? null : true) : false;
    if (!beyond) [cumulative, moved] = [cumulative + probability, moved + share];
    if (!beyond && nucleus === null && moved >= top_p - 1e-9 && top_p < 1) nucleus = place + 1;
    covered += probability;
    return { ...entry, own: place === own, probability, cumulative: beyond ? null : Math.min(1, cumulative), moved: share, inside };
  });
  return { rows, covered: Math.min(1, covered), nucleus, exact, entropy: null };
}
