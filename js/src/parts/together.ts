/**
 * Columns that scroll as one: where one is scrolled to, the others follow.
 */
export class Together {
  on = true;
  readonly #boxes: HTMLElement[] = [];
  /** Where each was put from here: the event of that is an echo, and a shorter column must not pull back. */
  readonly #put = new WeakMap<HTMLElement, number>();

  constructor(readonly signal: AbortSignal) {}

  add(box: HTMLElement): void {
    this.#boxes.push(box);
    box.addEventListener("scroll", () => this.#follow(box), { signal: this.signal, passive: true });
  }

  /** Scroll a box without taking the others along. */
  put(box: HTMLElement, top: number): void {
    box.scrollTop = top;
    this.#put.set(box, box.scrollTop);
  }

  #follow(box: HTMLElement): void {
    const echo = this.#put.get(box) === box.scrollTop;
    this.#put.delete(box);
    if (!this.on || echo) return;
    for (const other of this.#boxes) {
      if (other !== box && other.scrollTop !== box.scrollTop) this.put(other, box.scrollTop);
    }
  }
}
