/**
 * The ways to colour a text: what each measures of a token, its eight levels, and the words for it.
 *
 * A level is a tint and, from the third on, an underline that grows; so no view hangs on colour alone.
 */
import type { NodeState } from "../state";
import { BOUNDS } from "./colour";
import { askedAt, placeOf } from "./ranking";
import type { Piece } from "./text";

export const VIEWS = ["probability", "surprisal", "rank", "entropy"] as const;
export type View = (typeof VIEWS)[number];

export interface Scale {
  /** In the list of choices. */
  name: string;
  /** The two ends of the legend. */
  low: string;
  high: string;
  /** One sentence for whoever wants to know what is measured. */
  about: string;
  /** Level `i` begins where the measure reaches `bounds[i - 1]`. */
  bounds: readonly number[];
}

export type Scales = Record<View, Scale>;

export const SCALES: Scales = {
  probability: {
    name: "probability",
    low: "likely",
    high: "unlikely",
    about: "Probability of the sampled token",
    bounds: BOUNDS.map((bound) => -bound),
  },
  surprisal: {
    name: "surprisal, bits",
    low: "0 bits",
    high: "13",
    about: "Surprisal of the sampled token: −log₂ of its probability, in bits",
    bounds: [1, 2, 3, 5, 7, 10, 13],
  },
  rank: {
    name: "rank",
    low: "1st",
    high: "not listed",
    about: "Place of the sampled token among the alternatives returned; 1 is the most likely",
    bounds: [2, 3, 4, 6, 11, 21, Infinity],
  },
  entropy: {
    name: "entropy, returned",
    low: "0 bits",
    high: "3",
    about: "Entropy of the alternatives returned, in bits, renormalised: the rest is not known",
    bounds: [0.25, 0.5, 1, 1.5, 2, 2.5, 3],
  },
};

export function isView(value: unknown): value is View {
  return (VIEWS as readonly unknown[]).includes(value);
}

/**
 * A token under a view: a probability, bits, or a rank (`Infinity` for one that is not on the list).
 * `null` where it is not known. `asked`: alternatives the request asked for.
 */
export function measure(view: View, node: NodeState, index: number, asked: number | null): number | null {
  const logprob = node.logprobs[index];
  if (view === "entropy") return entropyOf(node, index);
  if (logprob === null || logprob === undefined) return null;
  if (view === "probability") return Math.exp(logprob);
  if (view === "surprisal") return bits(logprob);
  const top = node.top[index];
  if (!top) return null;
  const known = askedAt(node, index, asked);
  return placeOf(node.tokens[index] ?? "", logprob, top, known) ?? (known === null ? null : Infinity);
}

/** A piece under a view: its least likely, lowest ranked or least certain token speaks for it. */
export function measurePiece(view: View, node: NodeState, piece: Piece, asked: number | null): number | null {
  let found: number | null = null;
  for (let i = piece.first; i <= piece.last; i++) {
    const one = measure(view, node, i, asked);
    if (one === null) continue;
    if (found === null) found = one;
    else found = view === "probability" ? Math.min(found, one) : Math.max(found, one);
  }
  return found;
}

/** 0 (plain) to 7 (the strongest). */
export function levelOn(view: View, value: number, scales: Scales = SCALES): number {
  const height = view === "probability" ? -value : value;
  const { bounds } = scales[view];
  const above = bounds.findIndex((bound) => (view === "probability" ? height <= bound : height < bound));
  return above < 0 ? bounds.length : above;
}

/** A measure in as few characters as will do, to stand beside its token. */
export function brief(view: View, value: number, asked: number | null): string {
  if (view === "rank") return value === Infinity ? `>${asked ?? "list"}` : String(value);
  if (view !== "probability") return value.toFixed(1);
  const percent = value * 100;
  return percent < 1 ? "<1%" : percent > 99 && percent < 99.95 ? ">99%" : `${percent.toFixed(0)}%`;
}

/** What a cell of the legend stands for: `2 to 3 bits`. */
export function range(view: View, level: number, scales: Scales = SCALES): string {
  const { bounds } = scales[view];
  if (view === "rank") {
    const from = level === 0 ? 1 : (bounds[level - 1] ?? 1);
    const to = (bounds[level] ?? 0) - 1;
    return from === Infinity ? "not on the list" : to === Infinity ? `${from} and more` : from === to ? String(from) : `${from} to ${to}`;
  }
  const [from, to] = [bounds[level - 1], bounds[level]];
  if (view === "probability") {
    const upper = percentOf(from === undefined ? 1 : -from);
    return to === undefined ? `below ${upper}` : `${upper} to ${percentOf(-to)}`;
  }
  return to === undefined ? `${from} bits and more` : `${from ?? 0} to ${to} bits`;
}

/** −log₂ of the probability, from its natural logarithm. */
export function bits(logprob: number): number {
  return Math.max(0, -logprob / Math.LN2);
}

/** Entropy in bits over what was returned, renormalised; `null` when that is fewer than two alternatives. */
export function entropyOf(node: NodeState, index: number): number | null {
  const top = node.top[index];
  const logprob = node.logprobs[index];
  if (!top) return null;
  const values = Object.values(top);
  const token = node.tokens[index] ?? "";
  if (logprob !== null && logprob !== undefined && !Object.hasOwn(top, token)) values.push(logprob);
  if (values.length < 2) return null;
  const shares = values.map(Math.exp);
  const whole = shares.reduce((sum, share) => sum + share, 0);
  return shares.reduce((sum, share) => (share > 0 ? sum - (share / whole) * Math.log2(share / whole) : sum), 0);
}

function percentOf(probability: number): string {
  return `${+(probability * 100).toPrecision(3)} %`;
}
