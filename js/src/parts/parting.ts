/**
 * Where the continuations of one prompt part: the end of the text that all of them begin with.
 */

/** Follows growing texts; never reads a character twice. */
export class Parting {
  #place = 0;
  #found = false;

  /**
   * UTF-16 units that all texts share, once that is settled: two differ there, or one has ended. `null` before,
   * when they share nothing, and when they are one and the same.
   */
  next(texts: readonly string[], complete: boolean): number | null {
    if (!this.#found && texts.length > 1) this.#read(texts, complete);
    return this.#found && this.#place > 0 ? this.#place : null;
  }

  #read([first = "", ...others]: readonly string[], complete: boolean): void {
    const shortest = Math.min(first.length, ...others.map((text) => text.length));
    while (this.#place < shortest && others.every((text) => text[this.#place] === first[this.#place])) this.#place++;
    const differ = this.#place < shortest;
    const ended = complete && [first, ...others].some((text) => text.length > this.#place);
    this.#found = differ || ended;
  }
}
