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
  #height = 0;
  #frame = 0;
  #later: ReturnType<typeof setTimeout> | undefined;
  #began = false;
  #coming = false;

  /** `put` scrolls the box. */
  constructor(
    readonly box: HTMLElement,
    readonly put: (top: number) => void,
    signal: AbortSignal,
  ) {
    box.addEventListener("scroll", () => this.#scrolled(), { signal, passive: true });
    // What is out of view is not laid out; box and blocks get their sizes when the reader comes to them.
    const sized = new ResizeObserver(() => this.#coming && this.#follow());
    sized.observe(box);
    box.addEventListener("contentvisibilityautostatechange", () => this.#began && this.#soon(), { signal });
    signal.addEventListener("abort", () => {
      sized.disconnect();
      cancelAnimationFrame(this.#frame);
      clearTimeout(this.#later);
    });
  }

  /** Something came; `more`: and more will. */
  came(more: boolean): void {
    this.#began = true;
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
    // A block gets its height when it comes into view; then the end moves once more.
    if (this.#coming) this.#soon();
    else this.#frame ||= requestAnimationFrame(() => this.#again());
  }

  /** Once more, unless something comes before: that sees to it, and each frame costs a layout. */
  #soon(): void {
    clearTimeout(this.#later);
    this.#later = setTimeout(() => this.#again(), SOON_MS);
  }

  #again(): void {
    this.#frame = 0;
    if (this.#following && this.box.classList.contains("acs-boxed")) this.#toEnd();
  }

  #toEnd(): void {
    this.#height = this.box.scrollHeight;
    this.put(this.#height);
    this.#last = this.box.scrollTop;
    // As tall as it will be: from here on what is in the box lays out nothing around it.
    if (this.#last > 0) this.box.classList.add("acs-full");
  }

  #scrolled(): void {
    const { scrollTop, scrollHeight, clientHeight } = this.box;
    if (scrollHeight - scrollTop - clientHeight < NEAR_PX) this.#following = true;
    // What was laid out anew moves too, and is no reader.
    else if (scrollTop < this.#last - 1 && scrollHeight === this.#height) this.#following = false;
    this.#last = scrollTop;
    this.#height = scrollHeight;
  }
}
