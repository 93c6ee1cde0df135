/**
 * A continuation as text in which every token is an element: append only, one element a paragraph, blocks of some.
 *
 * How a token looks is its brush's business; a brush can change, and then tokens are painted again one by one.
 */
import type { NodeState } from "../state";
import { level } from "./colour";
import { isPut } from "./description";
import { make } from "./dom";
import { fill, hasMarks, put } from "./invisible";
import { Aligner, type Piece } from "./text";
import { brief, levelOn, measurePiece, type View } from "./views";
import { fate, type Settings } from "./whatif";

/** What decides how tokens look. */
export interface Brush {
  view: View;
  numbers: boolean;
  /** Alternatives that the request asked for. */
  asked: number | null;
  /** Mark what these settings would have cut. */
  whatif: Settings | null;
}

/** Sampled tokens that other settings would have cut, of those that can be judged. */
export interface Tally {
  judged: number;
  cut: number;
  unknown: number;
}

interface Entry extends Tally {
  piece: Piece;
  span: HTMLElement;
  /** What a number stands behind: the token, or the first mark in one that ends a line. */
  last: HTMLElement;
  /** Classes that no brush changes. */
  base: string;
  /** UTF-16 units of the text before it. */
  place: number;
  /** Under the view in which it was painted last. */
  value: number | null;
}

/** Paragraphs that the browser passes over as one while they are out of view, and their first token. */
interface Block {
  element: HTMLElement;
  from: number;
  /** UTF-16 units of the text before it. */
  place: number;
  paragraphs: number;
}

/** A new block begins behind so many tokens or paragraphs: the browser watches each, and clips each by itself. */
const BLOCK_TOKENS = 200;
const BLOCK_PARAGRAPHS = 24;
/** Characters on a line and its height, for the size of a block that nobody has seen yet. */
const LINE = 100;
const LINE_EM = 1.7;

/** Most tokens: nothing in them is invisible or steers, and they are copies of one element. */
const PLAIN = /^[ -~]*[!-~][ -~]*$/;
/** One element for each way a token can look: a copy needs no name written and none read. */
const blanks: Record<string, HTMLElement> = {};
const blank = (name: string) =>
  (blanks[name] ??= Object.assign(make("span", name, " "), { tabIndex: -1 })).cloneNode(true) as HTMLElement;

export class TokenText {
  readonly element = make("div", "acs-text");
  readonly tally: Tally = { judged: 0, cut: 0, unknown: 0 };
  readonly blocks: Block[] = [];
  readonly #spans: HTMLElement[] = [];
  readonly #entries: Entry[] = [];
  readonly #aligner = new Aligner();
  #paragraph: HTMLElement | null = null;
  #plain: Text | null = null;
  #bytes: HTMLElement | null = null;
  /** UTF-16 units of the text that are drawn. */
  #place = 0;
  #parting: number | null = null;
  #seam = false;
  /** New blocks, until they are filled: what is not in the page costs the page nothing. */
  readonly #new = document.createDocumentFragment();

  constructor(lead = "") {
    if (lead === "") return;
    const first = make("span", "acs-lead");
    put(first, lead);
    this.#openParagraph().append(first);
    this.element.append(this.#new);
  }

  /**
   * Draw what is new in the node, or `most` pieces of it; the first `echoed` units of its text are the prompt's. Says
   * whether there is more.
   */
  update(node: NodeState, complete: boolean, echoed: number, brush: Brush, most = Infinity): boolean {
    const pieces = this.#aligner.next(node.text, node.tokens, complete, most);
    for (const piece of pieces) {
      this.#bytes?.remove();
      this.#bytes = null;
      const echo = this.#place < echoed;
      if (piece.first < 0) this.#appendPlain(piece.text, echo);
      else this.#appendToken(piece, node, echo, brush);
      this.#place += piece.text.length;
    }
    this.#showBytes(this.#aligner.waiting, complete);
    if (this.#new.firstChild !== null) this.element.append(this.#new);
    return pieces.length >= most;
  }

  /** All token elements, in order. */
  get tokens(): readonly HTMLElement[] {
    return this.#spans;
  }

  /** The place of an element among the tokens, -1 for another's: asked by a hand, looked for among all. */
  placeOf(element: HTMLElement): number {
    return this.#spans.indexOf(element);
  }

  /** The piece at a place. */
  pieceAt(place: number): Piece | undefined {
    return this.#entries[place]?.piece;
  }

  /** Mark the kept token that the server reads otherwise, once it is known. */
  markSeam(node: NodeState, brush: Brush): void {
    const seam = node.origin?.seam ?? null;
    if (seam === null || this.#seam) return;
    const place = this.#pieceOf(seam);
    const entry = this.#entries[place];
    if (entry === undefined) return;
    this.#seam = true;
    entry.base += " acs-seam";
    this.paint(place, node, brush);
  }

  /** The element of a node's token. */
  elementOf(token: number): HTMLElement | undefined {
    return this.#spans[this.#pieceOf(token)];
  }

  #pieceOf(token: number): number {
    return this.#entries.findIndex(({ piece }) => piece.first <= token && token <= piece.last);
  }

  /** Whether the continuations part at this token. */
  partsAt(place: number): boolean {
    return place === this.#parting;
  }

  /** Paint one token as the brush says. */
  paint(place: number, node: NodeState, brush: Brush): void {
    const entry = this.#entries[place];
    if (entry === undefined) return;
    let name = this.#name(entry, node, brush);
    if (place === this.#parting) name += " acs-parts";
    if (entry.span.className !== name) entry.span.className = name;
    if (brush.numbers && entry.value !== null) entry.last.dataset["n"] = brief(brush.view, entry.value, brush.asked);
    else if (entry.last.hasAttribute("data-n")) delete entry.last.dataset["n"];
  }

  #name(entry: Entry, node: NodeState, brush: Brush): string {
    const value = (entry.value = measurePiece(brush.view, node, entry.piece, brush.asked));
    let name = entry.base;
    if (value !== null) name += ` acs-p${levelOn(brush.view, value)}`;
    if (brush.view !== "probability") name += ` acs-by-${brush.view}`;
    this.#judge(entry, node, brush);
    if (entry.cut > 0) name += " acs-cut";
    return name;
  }

  /** Mark the token in which the text leaves what its siblings share: the first `units` of it. */
  partAfter(units: number, node: NodeState, brush: Brush): void {
    if (this.#parting !== null) return;
    const found = this.#entries.findIndex(({ place, piece }) => units >= place && units < place + piece.text.length);
    if (found < 0) return;
    this.#parting = found;
    this.paint(found, node, brush);
  }

  #judge(entry: Entry, node: NodeState, brush: Brush): void {
    if (brush.whatif === null && entry.judged + entry.unknown === 0) return;
    const before = { judged: entry.judged, cut: entry.cut, unknown: entry.unknown };
    Object.assign(entry, { judged: 0, cut: 0, unknown: 0 });
    for (let i = entry.piece.first; brush.whatif !== null && i <= entry.piece.last; i++) {
      const found = fate(node, i, brush.asked, brush.whatif);
      if (found !== null) entry.judged++;
      if (found === "cut") entry.cut++;
      if (found === "unknown") entry.unknown++;
    }
    this.tally.judged += entry.judged - before.judged;
    this.tally.cut += entry.cut - before.cut;
    this.tally.unknown += entry.unknown - before.unknown;
  }

  #appendToken(piece: Piece, node: NodeState, echo: boolean, brush: Brush): void {
    let base = "acs-t";
    if (piece.last > piece.first) base += " acs-joined";
    if (echo) base += " acs-echo";
    if (piece.first < node.kept) base += isPut(node, piece.last) ? " acs-put" : " acs-kept";
    if (/^ +$/.test(piece.text)) base += " acs-space";
    const entry = { piece, base, place: this.#place, judged: 0, cut: 0, unknown: 0 } as Entry;
    const span = (entry.span = blank(this.#name(entry, node, brush)));
    if (PLAIN.test(piece.text)) (span.firstChild as Text).data = piece.text;
    else {
      span.textContent = "";
      fill(span, piece.text);
    }
    (this.#paragraph ?? this.#openParagraph()).append(span);
    const index = this.#spans.push(span) - 1;
    if (index === 0) span.tabIndex = 0;
    entry.last = (piece.text.endsWith("\n") && span.querySelector<HTMLElement>(".acs-mark")) || span;
    this.#entries.push(entry);
    if (brush.numbers) this.paint(index, node, brush);
    this.#plain = null;
    if (piece.text.endsWith("\n")) this.#paragraph = null;
  }

  #appendPlain(text: string, echo: boolean): void {
    for (const line of text.split(/(?<=\n)/)) {
      const plain = !hasMarks(line);
      if (plain && this.#plain !== null && this.#paragraph !== null && !echo) this.#plain.appendData(line);
      else {
        const span = make("span", echo ? "acs-plain acs-echo" : "acs-plain");
        fill(span, line);
        this.#plain = plain ? (span.firstChild as Text) : null;
        (this.#paragraph ?? this.#openParagraph()).append(span);
      }
      if (line.endsWith("\n")) this.#paragraph = this.#plain = null;
    }
  }

  #showBytes(waiting: number, complete: boolean): void {
    if (waiting === 0) return;
    if (this.#bytes === null) {
      this.#bytes = make("span", "acs-bytes");
      (this.#paragraph ?? this.#openParagraph()).append(this.#bytes);
    }
    this.#bytes.dataset["mark"] = complete ? "∅" : "⋯";
    this.#bytes.title = complete
      ? "The last token has no text: special, or part of a character"
      : "Bytes of an incomplete character";
  }

  #openParagraph(): HTMLElement {
    const element = make("div", "acs-par");
    this.#paragraph = element;
    this.#blockFor().append(element);
    return element;
  }

  #blockFor(): HTMLElement {
    const last = this.blocks.at(-1);
    const [from, place] = [this.#spans.length, this.#place];
    if (last !== undefined) {
      if (from - last.from < BLOCK_TOKENS && last.paragraphs++ < BLOCK_PARAGRAPHS) return last.element;
      const lines = last.paragraphs / 2 + (place - last.place) / LINE;
      last.element.style.containIntrinsicSize = `auto ${(lines * LINE_EM).toFixed(1)}em`;
    }
    const element = make("div", "acs-block");
    this.blocks.push({ element, from, place, paragraphs: 1 });
    this.#new.append(element);
    return element;
  }
}

/** The level of a piece: that of its least probable token. */
export function weakest(node: NodeState, piece: Piece): number | null {
  let found: number | null = null;
  for (let i = piece.first; i <= piece.last; i++) {
    const one = level(node.logprobs[i]);
    if (one !== null && (found === null || one > found)) found = one;
  }
  return found;
}
