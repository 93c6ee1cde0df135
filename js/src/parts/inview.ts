/**
 * Which tokens of a text can be seen: within its own box when it scrolls in one, and within the window.
 *
 * Blocks out of view are not laid out, so only those at the edges are looked into, by halves.
 */
import type { TokenText } from "./tokens";

export interface Span {
  first: number;
  last: number;
}

/** The first and last token in view, or `null` when none is. */
export function inView(text: TokenText): Span | null {
  const box = text.element.getBoundingClientRect();
  const top = Math.max(box.top, 0);
  const bottom = Math.min(box.bottom, innerHeight);
  if (bottom <= top || text.tokens.length === 0) return null;
  const { blocks, tokens } = text;
  const until = (place: number) => (blocks[place + 1]?.from ?? tokens.length) - 1;
  const upper = firstThat(0, blocks.length - 1, (i) => (blocks[i]?.element.getBoundingClientRect().bottom ?? 0) > top + 1);
  const lower = firstThat(upper, blocks.length - 1, (i) => (blocks[i]?.element.getBoundingClientRect().bottom ?? 0) >= bottom - 1);
  const from = blocks[upper]?.from ?? 0;
  const first = firstThat(from, until(upper), (i) => (tokens[i]?.getBoundingClientRect().bottom ?? 0) > top + 1);
  const end = blocks[lower]?.from ?? 0;
  const after = firstThat(end, until(lower) + 1, (i) => i > until(lower) || (tokens[i]?.getBoundingClientRect().top ?? 0) > bottom - 1);
  return { first, last: Math.max(first, after - 1) };
}

/** Bring a token to the upper third of its box, or to the middle of the window where the text has no box. */
export function bringToView(text: TokenText, place: number): void {
  const token = text.tokens[place];
  const { element } = text;
  if (token === undefined) return;
  if (element.scrollHeight <= element.clientHeight + 1) {
    token.scrollIntoView({ block: "center" });
    return;
  }
  // Paragraphs on the way get their true height only when they come into view; the second try is exact.
  for (let i = 0; i < 2; i++) {
    element.scrollTop += token.getBoundingClientRect().top - element.getBoundingClientRect().top - element.clientHeight / 3;
  }
}

/** The first number from `low` to `high` for which `holds`, when it goes on holding from there; else `high`. */
export function firstThat(low: number, high: number, holds: (at: number) => boolean): number {
  let [from, to] = [low, high];
  while (from < to) {
    const middle = (from + to) >> 1;
    if (holds(middle)) to = middle;
    else from = middle + 1;
  }
  return from;
}
