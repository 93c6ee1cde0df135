/**
 * The strip over a long text: the surprisal of the whole, and which part of it is in view.
 */
import type { NodeState } from "../state";
import { make } from "./dom";
import { bringToView, inView } from "./inview";
import { bars, FULL, stepTo } from "./overview";
import type { TokenText } from "./tokens";
import { bits } from "./views";

/** Shorter texts can be seen whole. */
export const LONG = 400;

/** While a text comes, its strip is drawn no more often than this, whatever scrolls. */
const DRAW_EVERY_MS = 300;

const INK = "214, 106, 12"; // holds on light and on dark grounds, so a change of theme needs no redrawing

export class Strip {
  readonly element = make("div", "acs-strip");
  readonly #canvas = make("canvas", "");
  readonly #seen = make("span", "acs-strip-seen");
  readonly #bits: number[] = [];
  #frame = 0;
  #drawn = "";
  #drawnAt = -Infinity;
  #due = false;
  #later: ReturnType<typeof setTimeout> | undefined;

  constructor(
    readonly text: TokenText,
    name: string,
    signal: AbortSignal,
  ) {
    const { element } = this;
    element.hidden = true;
    element.tabIndex = 0;
    element.title = "Surprisal of the whole text. Click or use the arrow keys to go there";
    const said = { role: "slider", "aria-label": `Surprisal of the whole text${name}`, "aria-orientation": "horizontal", "aria-valuemin": "1" };
    for (const [key, value] of Object.entries(said)) element.setAttribute(key, value);
    this.#canvas.setAttribute("aria-hidden", "true");
    element.append(this.#canvas, this.#seen);

    const soon = () => this.#soon();
    const sized = new ResizeObserver(soon);
    sized.observe(element);
    signal.addEventListener("abort", () => {
      sized.disconnect();
      cancelAnimationFrame(this.#frame);
      clearTimeout(this.#later);
    });
    // A text that comes scrolls by itself; its strip is drawn in its own time.
    const scrolled = () => this.#later === undefined && this.#soon();
    addEventListener("scroll", scrolled, { signal, capture: true, passive: true });
    element.addEventListener("keydown", (event) => this.#key(event));
    element.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      element.setPointerCapture(event.pointerId);
      this.#goTo(event);
    });
    element.addEventListener("pointermove", (event) => {
      if (element.hasPointerCapture(event.pointerId)) this.#goTo(event);
    });
  }

  /** Take in what is new. Says whether the strip is there. */
  update(node: NodeState): boolean {
    const { tokens } = this.text;
    for (let place = this.#bits.length; place < tokens.length; place++) {
      const piece = this.text.pieceAt(place);
      let sum = NaN;
      for (let i = piece?.first ?? 0; piece !== undefined && i <= piece.last; i++) {
        const logprob = node.logprobs[i];
        if (logprob !== null && logprob !== undefined) sum = (Number.isNaN(sum) ? 0 : sum) + bits(logprob);
      }
      this.#bits.push(sum);
    }
    const shown = tokens.length > LONG && this.#bits.some((one) => one > 0);
    this.element.hidden = !shown;
    if (!shown) return false;
    const wait = this.#drawnAt + DRAW_EVERY_MS - performance.now();
    this.#due = wait <= 0;
    clearTimeout(this.#later);
    this.#later = setTimeout(() => this.#catchUp(), Math.max(0, wait) + DRAW_EVERY_MS);
    return true;
  }

  /** Draw now what is due: in the frame that has changed the text, which is laid out by then. */
  settle(): void {
    if (!this.#due) return;
    this.#due = false;
    this.#show();
  }

  #catchUp(): void {
    this.#later = undefined;
    this.#soon();
  }

  #soon(): void {
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      this.#show();
    });
  }

  #show(): void {
    this.#drawnAt = performance.now();
    if (this.element.hidden || !this.element.isConnected) return;
    this.#draw();
    this.#mark();
  }

  #draw(): void {
    const { clientWidth: width, clientHeight: height } = this.element;
    const key = `${width} ${height} ${devicePixelRatio} ${this.#bits.length}`;
    const context = key === this.#drawn || width === 0 ? null : this.#canvas.getContext("2d");
    if (context === null) return;
    this.#drawn = key;
    this.#canvas.width = Math.round(width * devicePixelRatio);
    this.#canvas.height = Math.round(height * devicePixelRatio);
    context.scale(devicePixelRatio, devicePixelRatio);
    const step = 2;
    bars(this.#bits, Math.floor(width / step)).forEach(({ mean, most }, i) => {
      for (const [value, alpha] of [[most, 0.16], [mean, 0.6]] as const) {
        const tall = Math.min(1, value / FULL) * height;
        context.fillStyle = `rgba(${INK}, ${alpha})`;
        context.fillRect(i * step, height - tall, step - 0.5, tall);
      }
    });
  }

  #mark(): void {
    const count = this.text.tokens.length;
    const seen = inView(this.text);
    this.#seen.hidden = seen === null;
    const { first, last } = seen ?? { first: 0, last: 0 };
    this.#seen.style.left = `${(first / count) * 100}%`;
    this.#seen.style.width = `${((last + 1 - first) / count) * 100}%`;
    this.element.setAttribute("aria-valuemax", String(count));
    this.element.setAttribute("aria-valuenow", String(first + 1));
    this.element.setAttribute("aria-valuetext", seen === null ? "out of view" : `tokens ${first + 1} to ${last + 1} of ${count}`);
  }

  #goTo(event: PointerEvent): void {
    const box = this.element.getBoundingClientRect();
    const share = Math.max(0, Math.min(0.9999, (event.clientX - box.left) / box.width));
    bringToView(this.text, Math.floor(share * this.text.tokens.length));
  }

  #key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const seen = inView(this.text) ?? { first: 0, last: 0 };
    // A token is brought to the upper third, so the third is where the counting starts.
    const page = seen.last - seen.first + 1;
    const to = stepTo(event.key, seen.first + Math.round(page / 3), this.text.tokens.length, page);
    if (to === null) return;
    bringToView(this.text, to);
    event.preventDefault();
    event.stopPropagation();
  }
}
