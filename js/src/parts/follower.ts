/**
 * Keeps a box that scrolls at its end while text comes, until its reader goes back, and again from when the
 * reader is at the end.
 */

/** So near to the end is at the end. */
const NEAR_PX = 24;
/** A stream that is quicker than this does without frames of its own for the end that moves. */
const SOON_MS = 120;

export class Follower {
  #following = true;
  #last = 0;
  #frame = 0;
  #later: ReturnType<typeof setTimeout> | undefined;
  #coming = false;

  /** `put` scrolls the box. */
  constructor(
    readonly box: HTMLElement,
    readonly put: (top: number) => void,
    signal: AbortSignal,
  ) {
    box.addEventListener("scroll", () => this.#scrolled(), { signal, passive: true });
    // A box out of view is not laid out; it gets its size when the reader comes to it.
    const sized = new ResizeObserver(() => this.#coming && this.#follow());
    sized.observe(box);
    signal.addEventListener("abort", () => {
      sized.disconnect();
      cancelAnimationFrame(this.#frame);
      clearTimeout(this.#later);
    });
  }

  /** Something came; `more`: and more will. */
  came(more: boolean): void {
    this.#coming = more;
    this.#follow();
  }

  /** The reader looks at a place: stay there until they go to the end. */
  hold(): void {
    this.#following = false;
  }

  #follow(): void {
    if (!this.#following || !this.box.classList.contains("acs-boxed")) return;
    this.#toEnd();
    // A block gets its height when it comes into view; then the end moves once more. What comes next sees to that, if it
    // comes soon: each frame costs a layout.
    clearTimeout(this.#later);
    const once = () => {
      this.#frame = 0;
      if (this.#following) this.#toEnd();
    };
    if (this.#coming) this.#later = setTimeout(once, SOON_MS);
    else this.#frame ||= requestAnimationFrame(once);
  }

  #toEnd(): void {
    this.put(this.box.scrollHeight);
    this.#last = this.box.scrollTop;
    // As tall as it will be: from here on what is in the box lays out nothing around it.
    if (this.#last > 0) this.box.classList.add("acs-full");
  }

  #scrolled(): void {
    const { scrollTop, scrollHeight, clientHeight } = this.box;
    if (scrollHeight - scrollTop - clientHeight < NEAR_PX) this.#following = true;
    else if (scrollTop < this.#last - 1) this.#following = false;
    this.#last = scrollTop;
  }
}
