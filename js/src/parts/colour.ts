/**
 * How likely a token was, as one of eight levels. The stylesheet gives each a tint of one hue and, so that
 * nothing hangs on colour alone, the improbable ones an underline that grows heavier.
 * `acs_jupyter/widgets/snapshot.py` uses the same bounds.
 */
export const BOUNDS = [0.5, 0.25, 0.1, 0.03, 0.01, 0.003, 0.001] as const;

/** 0 for likely to 7 for a thousandth and less; `null` when no probability is known. */
export function level(logprob: number | null | undefined): number | null {
  if (logprob === null || logprob === undefined) return null;
  const probability = Math.exp(logprob);
  const found = BOUNDS.findIndex((bound) => probability >= bound);
  return found < 0 ? BOUNDS.length : found;
}

/** A probability for people: `34.1 %`, `0.02 %`, `<0.001 %`. */
export function percent(logprob: number): string {
  const value = Math.exp(logprob) * 100;
  if (value < 0.001) return "<0.001 %";
  return `${value.toFixed(value >= 10 ? 1 : value >= 0.1 ? 2 : 3)} %`;
}
