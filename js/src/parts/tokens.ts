/**
 * A continuation as text in which every token is an element: append only, one block a paragraph.
 *
 * What is shown of invisible characters comes from the stylesheet, so that selected text is the model's text.
 */
import type { NodeState } from "../state";
import { level } from "./colour";
import { make } from "./dom";
import { Aligner, codePoints, INVISIBLE, STEERING, type Piece } from "./text";

const MARKED = new RegExp(`[\\n\\t]|${INVISIBLE.source}`, "u");
const JOINER = /[\u200c\u200d]/;

export class TokenText {
  readonly element = make("div", "acs-text");
  readonly #spans: HTMLElement[] = [];
  readonly #pieces = new Map<Element, Piece>();
  readonly #aligner = new Aligner();
  #paragraph: HTMLElement | null = null;
  #plain: Text | null = null;
  #bytes: HTMLElement | null = null;

  constructor(lead = "") {
    if (lead !== "") this.#openParagraph().append(make("span", "acs-lead", lead));
  }

  /** Draw what is new in the node; the first `echoed` units of its text are the prompt's. */
  update(node: NodeState, complete: boolean, echoed: number): void {
    let place = this.#aligner.place;
    for (const piece of this.#aligner.next(node.text, node.tokens, complete)) {
      this.#bytes?.remove();
      this.#bytes = null;
      if (piece.first < 0) this.#appendPlain(piece.text, place < echoed);
      else this.#appendToken(piece, node, place < echoed);
      place += piece.text.length;
    }
    this.#showBytes(this.#aligner.waiting, complete);
  }

  get tokens(): readonly HTMLElement[] {
    return this.#spans;
  }

  /** The piece an element shows, when it is a token of this text. */
  pieceOf(element: Element): Piece | undefined {
    return this.#pieces.get(element);
  }

  #appendToken(piece: Piece, node: NodeState, echo: boolean): void {
    const span = make("span", "acs-t");
    const tint = weakest(node, piece);
    if (tint !== null) span.classList.add(`acs-p${tint}`);
    if (piece.last > piece.first) span.classList.add("acs-joined");
    if (echo) span.classList.add("acs-echo");
    if (STEERING.test(piece.text)) span.classList.add("acs-steering");
    if (/^ +$/.test(piece.text)) span.classList.add("acs-space");
    fill(span, piece.text);
    span.tabIndex = this.#spans.length === 0 ? 0 : -1;
    this.#spans.push(span);
    this.#pieces.set(span, piece);
    (this.#paragraph ?? this.#openParagraph()).append(span);
    this.#plain = null;
    if (piece.text.endsWith("\n")) this.#paragraph = null;
  }

  #appendPlain(text: string, echo: boolean): void {
    for (const line of text.split(/(?<=\n)/)) {
      if (this.#plain !== null && this.#paragraph !== null && !echo) this.#plain.appendData(line);
      else {
        const span = make("span", echo ? "acs-plain acs-echo" : "acs-plain");
        this.#plain = document.createTextNode(line);
        span.append(this.#plain);
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
      ? "The last token has no text of its own: a special token, or part of a character"
      : "Bytes of a character that is not complete yet";
  }

  #openParagraph(): HTMLElement {
    this.#paragraph = make("div", "acs-par");
    this.element.append(this.#paragraph);
    return this.#paragraph;
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

/** Text with a mark before each character that cannot be seen; the marks hold no text. */
function fill(span: HTMLElement, text: string): void {
  if (!MARKED.test(text)) {
    span.textContent = text;
    return;
  }
  const joinersShow = !/[\p{L}\p{Extended_Pictographic}]/u.test(text);
  for (const part of text.split(new RegExp(`(${MARKED.source})`, "u"))) {
    if (part === "") continue;
    const marked = MARKED.test(part) && (joinersShow || !JOINER.test(part));
    if (marked) span.append(mark(part));
    // A code point is named by its mark; whatever glyph a font has for it would only be in the way.
    if (marked && !/[\n\t]/.test(part)) span.append(make("span", "acs-ghost", part));
    else span.append(document.createTextNode(part));
  }
}

function mark(character: string): HTMLElement {
  const element = make("i", "acs-mark");
  if (character === "\n") element.dataset["mark"] = "↵";
  else if (character === "\t") element.dataset["mark"] = "⇥";
  else {
    element.dataset["mark"] = codePoints(character);
    element.classList.add("acs-code");
  }
  return element;
}
