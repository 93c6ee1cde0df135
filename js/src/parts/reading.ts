/**
 * A scored text as the inspector is told it: what is measured of a token, and the text as a table.
 *
 * The mirror of `Inspected.to_browser` in `acs_jupyter/scores/inspected.py`. It must not know the page.
 */
import { bits, SCALES, type Scales, type View } from "./views";

/** What stands for a probability of zero. */
export const NEVER = -9999;

export interface TokenRead {
  text: string;
  id: number | null;
  /** Natural; `null` where nothing is scored. */
  logprob: number | null;
  rank: number | null;
  top: [string, number][];
}

export interface Statistics {
  tokens: number;
  scored: number;
  bytes: number;
  logprob: number | null;
  perplexity: number | null;
  bits_per_byte: number | null;
}

export interface Reading {
  model: string;
  /** Alternatives asked for at each position. */
  asked: number;
  /** Whose ranks: the server's own, or places among what was returned. */
  ranks: "server" | "returned";
  /** Tokens in front of the text. */
  front: number;
  statistics: Statistics;
  tokens: TokenRead[];
}

/** A whole distribution: its likeliest tokens, the text's own with its rank, and ln Σ p^(1/T) for T = 0.05, 0.10 … 2. */
export interface WholeRow {
  vocabulary: number;
  entropy: number;
  rows: [number, string, number][];
  own: [number, string, number, number] | null;
  sums: number[];
}

export interface Whole {
  entropy: (number | null)[];
  rows: Record<string, WholeRow>;
}

/** A stretch of text with its tokens: those without text belong to the one that completes their character. */
export interface Stretch {
  text: string;
  first: number;
  last: number;
}

/** What the trait holds, or nothing when it is not what it should be. */
export function readReading(raw: unknown): Reading | null {
  try {
    const told = JSON.parse(String(raw)) as Omit<Reading, "tokens"> & { tokens: [string, number | null, number | null, number | null, [string, number][]][] };
    const tokens = told.tokens.map(([text, id, logprob, rank, top]) => ({ text, id, logprob, rank, top }));
    return { ...told, tokens };
  } catch {
    return null;
  }
}

export function readWhole(raw: unknown): Whole {
  try {
    const told = JSON.parse(String(raw)) as Partial<Whole>;
    return { entropy: told.entropy ?? [], rows: told.rows ?? {} };
  } catch {
    return { entropy: [], rows: {} };
  }
}

export function stretches(tokens: readonly TokenRead[]): Stretch[] {
  const found: Stretch[] = [];
  let first = 0;
  tokens.forEach(({ text }, last) => {
    if (text === "" && last < tokens.length - 1) return;
    found.push({ text, first, last });
    first = last + 1;
  });
  return found;
}

/** The inspector's scales: the server tells a rank however far down it is, and entropy can be that of the whole. */
export function scalesFor(reading: Reading): Scales {
  const told = reading.ranks === "server";
  return {
    probability: { ...SCALES.probability, name: "logprob, nats", about: "Log-probability of the token, by its probability" },
    surprisal: { ...SCALES.surprisal, about: "Surprisal of the token: −log₂ of its probability, in bits" },
    rank: told
      ? { ...SCALES.rank, high: "1001 and more", bounds: [2, 3, 4, 6, 11, 101, 1001], about: "Rank of the token in the whole vocabulary, as the server tells it; 1 is the most likely" }
      : { ...SCALES.rank, about: "Place of the token among the alternatives returned; 1 is the most likely" },
    entropy: { ...SCALES.entropy, name: "entropy", about: "Entropy in bits: of the whole distribution where it is known, elsewhere of the alternatives returned, renormalised" },
  };
}

/** A token under a view: a probability, bits, or a rank (`Infinity` for one beyond what was returned). */
export function measureToken(view: View, reading: Reading, index: number, whole: Whole): number | null {
  const token = reading.tokens[index];
  if (token === undefined) return null;
  if (view === "entropy") return whole.entropy[index] ?? entropyOfReturned(token);
  if (token.logprob === null) return null;
  if (view === "probability") return Math.exp(token.logprob);
  if (view === "surprisal") return bits(token.logprob);
  if (reading.ranks === "returned" && token.rank !== null && token.rank > reading.asked) return Infinity;
  return token.rank;
}

/** A stretch under a view: its least likely, lowest ranked or least certain token speaks for it. */
export function measureStretch(view: View, reading: Reading, { first, last }: Stretch, whole: Whole): number | null {
  const values: number[] = [];
  for (let i = first; i <= last; i++) {
    const value = measureToken(view, reading, i, whole);
    if (value !== null) values.push(value);
  }
  if (values.length === 0) return null;
  return view === "probability" ? Math.min(...values) : Math.max(...values);
}

/** In bits, over what was returned and renormalised; `null` when that is fewer than two. */
export function entropyOfReturned(token: TokenRead): number | null {
  const logs = token.top.map(([, logprob]) => logprob);
  if (token.logprob !== null && !token.top.some(([text, logprob]) => text === token.text && logprob === token.logprob)) logs.push(token.logprob);
  if (logs.length < 2) return null;
  const shares = logs.map(Math.exp);
  const sum = shares.reduce((a, b) => a + b, 0);
  return shares.reduce((found, share) => (share > 0 ? found - (share / sum) * Math.log2(share / sum) : found), 0);
}

/** What stands beside a token. */
export type Beside = "nothing" | "value" | "id" | "bytes";

export function beside(kind: Beside, view: View, reading: Reading, stretch: Stretch, whole: Whole): string {
  if (kind === "nothing") return "";
  if (kind === "bytes") return hex(stretch.text);
  const tokens = reading.tokens.slice(stretch.first, stretch.last + 1);
  if (kind === "id") return tokens.map(({ id }) => id ?? "?").join("+");
  if (view === "probability") {
    const known = tokens.map(({ logprob }) => logprob).filter((one) => one !== null);
    return known.length === 0 ? "" : nats(Math.min(...known));
  }
  const value = measureStretch(view, reading, stretch, whole);
  if (value === null) return "";
  if (view === "rank") return value === Infinity ? `>${reading.asked}` : String(value);
  return value.toFixed(1);
}

/** `−3.21`; `−∞` for what is ruled out. */
export function nats(logprob: number): string {
  return logprob <= NEVER ? "−∞" : logprob.toFixed(2).replace("-", "−");
}

/** UTF-8 in hexadecimal: `e2 82 ac`. */
export function hex(text: string): string {
  return Array.from(new TextEncoder().encode(text), (byte) => byte.toString(16).padStart(2, "0")).join(" ");
}

/** The rank of a text among what was returned at each position; `null` where it is not among it. */
export function ranksReturned(reading: Reading, text: string): (number | null)[] {
  return reading.tokens.map((token) => {
    if (token.text === text && token.rank !== null) return token.rank;
    const place = token.top.findIndex(([one]) => one === text);
    return place < 0 ? null : place + 1;
  });
}

/** One row a token, as a spreadsheet or `pandas.read_clipboard(sep="\t")` reads it; the frame's columns and units. */
export function table(reading: Reading): string {
  const lines = ["position\tid\ttext\tstart\tlogprob\tsurprisal\trank"];
  let start = 0;
  reading.tokens.forEach((token, position) => {
    const { id, text, logprob, rank } = token;
    const value = logprob === null ? "" : logprob <= NEVER ? "-inf" : String(logprob);
    const surprisal = logprob === null ? "" : logprob <= NEVER ? "inf" : String(+(-logprob / Math.LN2).toFixed(5) + 0);
    lines.push([position, id ?? "", quotedField(text), start, value, surprisal, rank ?? ""].join("\t"));
    start += Array.from(text).length;
  });
  return `${lines.join("\n")}\n`;
}

function quotedField(text: string): string {
  return `"${text.replaceAll('"', '""')}"`;
}
