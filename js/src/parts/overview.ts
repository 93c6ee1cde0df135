/**
 * The surprisal of a whole text in a few hundred bars. It must not know the page.
 */

/** Bits at which a bar is full. */
export const FULL = 12;

export interface Bar {
  /** Bits: of the tokens in this bar, on average and at most; 0 where none is known. */
  mean: number;
  most: number;
}

/** `bits` a token (NaN for unknown) gathered into `count` bars. Fewer tokens than bars: each token has several. */
export function bars(bits: readonly number[], count: number): Bar[] {
  const found: Bar[] = [];
  for (let i = 0; i < count; i++) {
    const from = Math.floor((i * bits.length) / count);
    const to = Math.max(from + 1, Math.floor(((i + 1) * bits.length) / count));
    let [sum, known, most] = [0, 0, 0];
    for (let k = from; k < Math.min(to, bits.length); k++) {
      const one = bits[k] ?? NaN;
      if (Number.isNaN(one)) continue;
      sum += one;
      known++;
      if (one > most) most = one;
    }
    found.push({ mean: known === 0 ? 0 : sum / known, most });
  }
  return found;
}

/** Where a key leads from token `at` of `count` when `page` tokens are in view; `null` for other keys. */
export function stepTo(key: string, at: number, count: number, page: number): number | null {
  const half = Math.max(1, Math.round(page / 2));
  const steps: Record<string, number> = {
    ArrowRight: at + half,
    ArrowDown: at + half,
    ArrowLeft: at - half,
    ArrowUp: at - half,
    PageDown: at + page,
    PageUp: at - page,
    Home: 0,
    End: count - 1,
  };
  const to = steps[key];
  return to === undefined ? null : Math.max(0, Math.min(count - 1, to));
}
