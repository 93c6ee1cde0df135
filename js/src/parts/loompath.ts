/**
 * The text from the root to the cursor as one text, its tokens those of all nodes on the way.
 *
 * Far from its end it is text alone until it comes into view: a token is an element, and a path can be a book.
 */
import { gistOf, isHollow } from "../outline";
import { echoed, type NodeState, type State } from "../state";
import { make } from "./dom";
import type { Looked } from "./inspect";
import { put } from "./invisible";
import { isBusy } from "./loomoutline";
import { emptyWords, ownText } from "./loomrow";
import { TokenText, type Brush } from "./tokens";

/** Tokens from the end that are elements at once. */
const NEAR = 1500;

interface Segment {
  id: string;
  element: HTMLElement;
  text: TokenText | null;
}

export class PathView {
  readonly element = make("div", "acs-text acs-loom-path");
  #segments: Segment[] = [];
  #tokens: HTMLElement[] = [];
  #state: State | null = null;
  readonly #seen: IntersectionObserver;
  #atEnd = true;

  constructor(
    readonly brushOf: (node: NodeState) => Brush,
    signal: AbortSignal,
  ) {
    this.element.setAttribute("role", "group");
    this.element.setAttribute("aria-label", "Text to the current node");
    this.#seen = new IntersectionObserver((entries) => {
      for (const { target, isIntersecting } of entries) {
        const segment = isIntersecting ? this.#segments.find(({ element }) => element === target) : undefined;
        if (segment !== undefined) this.#fill(segment);
      }
    }, { root: this.element, rootMargin: "200px" });
    // Who reads the end goes on seeing it, whatever opens beside it.
    this.element.addEventListener("scroll", () => (this.#atEnd = this.#below < 4), { signal, passive: true });
    const sized = new ResizeObserver(() => this.#atEnd && this.#toEnd());
    sized.observe(this.element);
    signal.addEventListener("abort", () => {
      this.#seen.disconnect();
      sized.disconnect();
    });
  }

  /** Show the path of these nodes; what it shares with the one before stays. */
  show(state: State, ids: readonly string[]): void {
    const another = this.#state !== state;
    this.#state = state;
    let same = 0;
    while (!another && same < ids.length && this.#segments[same]?.id === ids[same]) same++;
    const moved = same < this.#segments.length || same < ids.length;
    for (const { element } of this.#segments.splice(same)) {
      this.#seen.unobserve(element);
      element.remove();
    }
    for (const id of ids.slice(same)) this.#segments.push(this.#open(id));
    let near = NEAR;
    for (let i = this.#segments.length - 1; i >= 0; i--) {
      const segment = this.#segments[i];
      const node = segment && state.nodes[segment.id];
      if (segment === undefined || node === undefined) continue;
      segment.element.classList.toggle("acs-loom-here", i === this.#segments.length - 1);
      if (near > 0 || segment.text !== null) this.#fill(segment);
      near -= node.tokens.length + 20;
    }
    if (!moved) return;
    this.#settle();
    this.#toEnd();
  }

  /** Contents of some nodes came. */
  filled(): void {
    const state = this.#state;
    if (state === null) return;
    for (const segment of this.#segments) {
      const node = state.nodes[segment.id];
      if (segment.text === null && node !== undefined && !isHollow(node)) put(segment.element, ownText(state, node));
    }
    this.show(state, this.#segments.map(({ id }) => id));
    this.#settle();
  }

  /** Bring the last node's text up to what has come. */
  update(): void {
    const last = this.#segments.at(-1);
    if (last?.text != null) this.#fill(last);
  }

  /** All token elements, in order. */
  get tokens(): readonly HTMLElement[] {
    const count = this.#segments.reduce((sum, { text }) => sum + (text?.tokens.length ?? 0), 0);
    if (count !== this.#tokens.length || this.#tokens.at(-1)?.isConnected === false) {
      this.#tokens = this.#segments.flatMap(({ text }) => (text === null ? [] : [...text.tokens]));
    }
    return this.#tokens;
  }

  look(element: HTMLElement): Looked | undefined {
    for (const { id, text } of this.#segments) {
      const piece = text?.pieceAt(text.placeOf(element));
      const node = this.#state?.nodes[id];
      if (piece !== undefined && node !== undefined) return { node, piece, parts: false, tokens: this.tokens };
    }
    return undefined;
  }

  /** Go to a token of the last node: its first, or the one in its middle. */
  focus(middle = false): boolean {
    const tokens = this.#segments.at(-1)?.text?.tokens ?? [];
    const element = tokens[middle ? tokens.length >> 1 : 0] ?? this.tokens.at(-1);
    element?.focus();
    return element !== undefined;
  }

  repaint(): void {
    for (const { id, text } of this.#segments) {
      const node = this.#state?.nodes[id];
      if (text === null || node === undefined) continue;
      const brush = this.brushOf(node);
      text.tokens.forEach((_, place) => text.paint(place, node, brush));
    }
  }

  /** How much there is below what is in view. */
  get #below(): number {
    const { scrollHeight, scrollTop, clientHeight } = this.element;
    return scrollHeight - scrollTop - clientHeight;
  }

  #toEnd(): void {
    this.#atEnd = true;
    this.element.scrollTop = this.element.scrollHeight;
  }

  #open(id: string): Segment {
    const element = make("span", "acs-loom-seg");
    element.dataset["node"] = id;
    const node = this.#state?.nodes[id];
    if (node !== undefined && this.#state !== null) put(element, isHollow(node) ? `${gistOf(this.#state, node).begins} …` : ownText(this.#state, node));
    if (node !== undefined && node.choice === null && node.tokens.length === 0) element.classList.add("acs-loom-written");
    this.element.append(element);
    this.#seen.observe(element);
    return { id, element, text: null };
  }

  #fill(segment: Segment): void {
    const { id, element } = segment;
    const state = this.#state;
    const node = state?.nodes[id];
    if (state === null || node === undefined || isHollow(node)) return;
    if (segment.text === null) {
      this.#seen.unobserve(element);
      segment.text = new TokenText();
      segment.text.element.className = "acs-loom-flow";
      element.replaceChildren(segment.text.element);
    }
    segment.text.update(node, !isBusy(state, id), echoed(state, node), this.brushOf(node));
    element.dataset["empty"] = node.text === "" && !isBusy(state, id) && node.ids === null ? `∅ ${emptyWords(state, node)}` : "";
  }

  /** One tab stop in all of the text: where its last node begins. */
  #settle(): void {
    this.#tokens = [];
    for (const element of this.element.querySelectorAll<HTMLElement>('[tabindex="0"]')) {
      element.tabIndex = -1;
      element.removeAttribute("role");
      element.removeAttribute("aria-label");
    }
    const stop = this.#segments.at(-1)?.text?.tokens[0] ?? this.tokens.at(-1);
    if (stop !== undefined) stop.tabIndex = 0;
  }
}
