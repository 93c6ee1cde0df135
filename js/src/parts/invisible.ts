/**
 * A token's text with marks for what cannot be seen. The marks hold no text: what is selected is the model's.
 */
import { make } from "./dom";
import { codePoints, INVISIBLE, STEERING } from "./text";

const MARKED = new RegExp(`[\\n\\t]|${INVISIBLE.source}`, "u");
const JOINER = /[\u200c\u200d]/;

/** Whether there is something in a text that is marked. */
export function hasMarks(text: string): boolean {
  return MARKED.test(text);
}

/** Fill an element with text, a mark before each character that cannot be seen. */
export function fill(span: HTMLElement, text: string): void {
  if (!hasMarks(text)) {
    span.textContent = text;
    return;
  }
  const joinersShow = !/[\p{L}\p{Extended_Pictographic}]/u.test(text);
  for (const part of text.split(new RegExp(`(${MARKED.source})`, "u"))) {
    if (part === "") continue;
    const marked = MARKED.test(part) && (joinersShow || !JOINER.test(part));
    if (marked) span.append(mark(part));
    // A code point is named by its mark; whatever glyph a font has for it would only be in the way. It is shut in: what
    // would turn the text behind it around turns nothing.
    if (marked && !/[\n\t]/.test(part)) span.append(make("span", "acs-ghost", part));
    else span.append(document.createTextNode(part));
  }
}

/** A text as it is, unless something in it steers how it shows: then as `fill` draws it. */
export function put(element: HTMLElement, text: string): void {
  if (element.textContent === text) return;
  element.textContent = "";
  if (STEERING.test(text)) fill(element, text);
  else element.textContent = text;
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
