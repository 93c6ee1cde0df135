/**
 * The whole of something small, and which part of it is in view; a click or a drag goes there.
 *
 * It is hidden from screen readers: what it shows is in the tree, and the cursor goes everywhere.
 */
import { make } from "../dom";
import { brushOf } from "./ink";

/** A mark, in shares of the whole. */
export interface Mark {
  left: number;
  right: number;
  top: number;
  bottom: number;
  colour: string;
  /** It is drawn over the others, and never lower than can be seen. */
  above: boolean;
}

/** Drawn at most this often while things come. */
const EVERY_MS = 400;

export class Minimap {
  readonly element = make("div", "acs-minimap");
  readonly #canvas = make("canvas", "");
  readonly #frame = make("div", "acs-minimap-seen");
  #later: ReturnType<typeof setTimeout> | undefined;
  #last = -Infinity;

  /** `marks` gives what is drawn; `go` is called with a place, in shares. */
  constructor(
    readonly marks: () => Iterable<Mark>,
    go: (right: number, down: number) => void,
    signal: AbortSignal,
  ) {
    this.element.ariaHidden = "true";
    this.element.append(this.#canvas, this.#frame);
    const moved = (event: PointerEvent) => {
      const { left, top, width, height } = this.element.getBoundingClientRect();
      go(clamp((event.clientX - left) / width), clamp((event.clientY - top) / height));
      event.preventDefault();
    };
    this.element.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      this.element.setPointerCapture(event.pointerId);
      moved(event);
    }, { signal });
    this.element.addEventListener("pointermove", (event) => this.element.hasPointerCapture(event.pointerId) && moved(event), { signal });
    const sized = new ResizeObserver(() => this.draw());
    sized.observe(this.element);
    signal.addEventListener("abort", () => {
      sized.disconnect();
      clearTimeout(this.#later);
    });
  }

  /** Draw it in its time. */
  soon(): void {
    this.#later ??= setTimeout(() => this.draw(), Math.max(0, this.#last + EVERY_MS - performance.now()));
  }

  draw(): void {
    clearTimeout(this.#later);
    this.#later = undefined;
    const brush = brushOf(this.#canvas);
    if (brush === null) return;
    this.#last = performance.now();
    const { clientWidth: width, clientHeight: height } = this.#canvas;
    const above: Mark[] = [];
    const put = ({ left, right, top, bottom, colour }: Mark, least: number) => {
      brush.fillStyle = colour;
      brush.fillRect(left * width, top * height, Math.max(least, (right - left) * width), Math.max(least, (bottom - top) * height));
    };
    for (const mark of this.marks()) {
      if (mark.above) above.push(mark);
      else put(mark, 1);
    }
    for (const mark of above) put(mark, 3);
  }

  /** What is in view, in shares. */
  see(left: number, right: number, top: number, bottom: number): void {
    const { style } = this.#frame;
    const all = [left, right, top, bottom].map(clamp) as [number, number, number, number];
    style.left = `${all[0] * 100}%`;
    style.right = `${(1 - all[1]) * 100}%`;
    style.top = `${all[2] * 100}%`;
    style.bottom = `${(1 - all[3]) * 100}%`;
    this.#frame.hidden = left <= 0 && right >= 1 && top <= 0 && bottom >= 1;
  }
}

function clamp(share: number): number {
  return Math.max(0, Math.min(1, share));
}
