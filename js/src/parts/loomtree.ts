/**
 * The tree as rows of which only those in view are on the page, so that ten thousand nodes are as quick as ten.
 */
import type { State } from "../state";
import { freshId, make } from "./dom";
import { RowView, type Looks } from "./loomrow";
import type { Row } from "./loomoutline";

/** How tall a row is where nothing tells the size of its text. */
const ROW_PX = 24;
const BEYOND = 8;

export class TreeView {
  readonly element = make("div", "acs-loom-tree");
  readonly #inner = make("div", "acs-loom-rows");
  readonly #views = new Map<string, RowView>();
  #places = new Map<string, number>();
  #rows: Row[] = [];
  #state: State | null = null;
  #current: string | null = null;
  #giving = false;
  #tall = ROW_PX;

  /** `looks`: how a row is marked. `go`: a row was clicked or got the focus, `twist`: its triangle was clicked. */
  constructor(
    readonly looks: (id: string) => Omit<Looks, "current">,
    go: (id: string) => void,
    twist: (id: string) => void,
    signal: AbortSignal,
  ) {
    this.element.id = freshId("tree");
    this.#inner.setAttribute("role", "tree");
    this.#inner.setAttribute("aria-label", "Nodes");
    this.element.append(this.#inner);
    this.#followText(signal);
    let frame = 0;
    this.element.addEventListener("scroll", () => (frame ||= requestAnimationFrame(() => ((frame = 0), this.draw()))), { signal, passive: true });
    this.element.addEventListener("click", ({ target }) => {
      const row = target instanceof Element ? target.closest<HTMLElement>(".acs-loom-row") : null;
      const id = row?.dataset["node"];
      if (id === undefined) return;
      if (target instanceof Element && target.classList.contains("acs-loom-twist")) twist(id);
      else go(id);
    }, { signal });
    // Whoever gives a row the focus, a screen reader say, goes there.
    this.#inner.addEventListener("focusin", ({ target }) => {
      const id = target instanceof HTMLElement ? target.dataset["node"] : undefined;
      if (!this.#giving && id !== undefined && id !== this.#current) go(id);
    }, { signal });
  }

  get rows(): readonly Row[] {
    return this.#rows;
  }

  /** The element that holds the rows. */
  get inner(): HTMLElement {
    return this.#inner;
  }

  /** The part of all rows that is in view, in shares. */
  get seen(): [top: number, bottom: number] {
    const whole = Math.max(1, this.#rows.length * this.#tall);
    return [this.element.scrollTop / whole, (this.element.scrollTop + this.element.clientHeight) / whole];
  }

  /** Have this share of all rows in the middle. */
  scrollTo(share: number): void {
    this.element.scrollTop = share * this.#rows.length * this.#tall - this.element.clientHeight / 2;
  }

  /** The place of a node among the rows, -1 when it is folded away. */
  placeOf(id: string): number {
    return this.#places.get(id) ?? -1;
  }

  /** How many rows fit. */
  get page(): number {
    return Math.max(1, Math.floor(this.element.clientHeight / this.#tall) - 1);
  }

  /** Other rows. */
  put(state: State, rows: Row[]): void {
    this.#state = state;
    this.#rows = rows;
    this.#places = new Map(rows.map(({ id }, place) => [id, place]));
    this.#inner.style.height = `${rows.length * this.#tall}px`;
    if (rows.length > 0) this.#inner.removeAttribute("tabindex");
    else this.#inner.tabIndex = 0; // the keys are heard where the focus is
  }

  /** Show a row as the current one, in view. */
  go(id: string | null): void {
    this.#current = id;
    const place = id === null ? -1 : this.placeOf(id);
    if (place >= 0) {
      const [top, box] = [place * this.#tall, this.element];
      if (top < box.scrollTop) box.scrollTop = top;
      else if (top + this.#tall > box.scrollTop + box.clientHeight) box.scrollTop = top + this.#tall - box.clientHeight;
    }
    this.draw();
  }

  /** Give the current row the focus. */
  focus(): void {
    const row = this.#current === null ? undefined : this.#views.get(this.#current);
    this.#give(row?.element ?? this.#inner);
  }

  /** Bring what is in view up to the state. */
  draw(): void {
    const state = this.#state;
    if (state === null) return;
    const { scrollTop, clientHeight } = this.element;
    const first = Math.max(0, Math.floor(scrollTop / this.#tall) - BEYOND);
    const last = Math.min(this.#rows.length, Math.ceil((scrollTop + clientHeight) / this.#tall) + BEYOND);
    const places = Array.from({ length: Math.max(0, last - first) }, (_, i) => first + i);
    const current = this.#current === null ? -1 : this.placeOf(this.#current);
    if (current >= 0 && current < first) places.unshift(current); // what has the focus stays on the page
    else if (current >= last) places.push(current);
    const shown = new Set(places.map((place) => this.#rows[place]?.id ?? ""));
    for (const [id, view] of this.#views) {
      if (shown.has(id)) continue;
      view.element.remove();
      this.#views.delete(id);
    }
    const focused = this.#inner.contains(document.activeElement) ? document.activeElement : null;
    // On the page they stand in the order in which they are read.
    let next = this.#inner.firstElementChild;
    for (const place of places) {
      const row = this.#rows[place];
      if (row === undefined) continue;
      const view = this.#views.get(row.id) ?? this.#open(row.id);
      view.update(state, row, place * this.#tall, { ...this.looks(row.id), current: row.id === this.#current });
      if (view.element === next) next = next.nextElementSibling;
      else this.#inner.insertBefore(view.element, next);
    }
    if (focused instanceof HTMLElement && focused.isConnected && focused !== document.activeElement) this.#give(focused);
  }

  /** What had the focus has it again: nobody went anywhere. */
  #give(element: HTMLElement): void {
    this.#giving = true;
    element.focus({ preventScroll: true });
    this.#giving = false;
  }

  /** Rows are as tall as their text, which some readers enlarge by itself. */
  #followText(signal: AbortSignal): void {
    if (typeof ResizeObserver === "undefined") return;
    const probe = make("span", "acs-loom-probe");
    probe.setAttribute("aria-hidden", "true");
    this.element.append(probe);
    const watch = new ResizeObserver(() => {
      const tall = probe.offsetHeight || ROW_PX;
      if (tall === this.#tall) return;
      this.#tall = tall;
      this.element.style.setProperty("--acs-loom-tall", `${tall}px`);
      this.#inner.style.height = `${this.#rows.length * tall}px`;
      this.go(this.#current);
    });
    watch.observe(probe);
    signal.addEventListener("abort", () => watch.disconnect());
  }

  #open(id: string): RowView {
    const view = new RowView(id);
    this.#views.set(id, view);
    return view;
  }
}
