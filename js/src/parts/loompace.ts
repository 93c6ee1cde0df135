/**
 * When the texts follow the cursor: in the next frame, one after the other; once it rests while a key is held.
 */

/** Moves that follow each other as quickly are those of a key that is held. */
const HELD_MS = 120;
const REST_MS = 70;

export class Pace {
  readonly #steps: readonly (() => void)[];
  #last = -Infinity;
  #frame = 0;
  #rest: ReturnType<typeof setTimeout> | undefined;

  constructor(...steps: (() => void)[]) {
    this.#steps = steps;
  }

  /** The cursor moved. */
  moved(): void {
    const held = performance.now() - this.#last < HELD_MS;
    this.#last = performance.now();
    this.stop();
    if (held) this.#rest = setTimeout(() => this.#go(0), REST_MS);
    else this.#go(0);
  }

  stop(): void {
    clearTimeout(this.#rest);
    cancelAnimationFrame(this.#frame);
  }

  #go(step: number): void {
    this.#frame = requestAnimationFrame(() => {
      this.#steps[step]?.();
      if (step + 1 < this.#steps.length) this.#go(step + 1);
    });
  }
}
