/**
 * Text and tokens: which stretch of the text belongs to which tokens, and how the invisible is shown.
 *
 * The text is the authority: pieces joined are a prefix of it, and all of it once the node is complete.
 */

/** A stretch of text. `first..last` are its tokens; `first` is -1 for text whose tokens are not known. */
export interface Piece {
  text: string;
  first: number;
  last: number;
}

const LOOKAHEAD_TOKENS = 16;
const LOOKAHEAD_TEXT = 400;

/**
 * Cuts a growing text into pieces, each call what is new, `most` of it at once.
 *
 * Tokens without text are bytes of a character that is not complete: they join the token that completes it.
 * Text can lag behind its tokens (the server holds back what could become a stop string) and can end before
 * them (it was one). Where both disagree, the text between two places that agree is shown without tokens.
 */
export class Aligner {
  #place = 0;
  #token = 0;
  #first = 0;

  /** How far into the text pieces have been given out. */
  get place(): number {
    return this.#place;
  }

  /** Tokens without text that wait for the one that completes their character. */
  get waiting(): number {
    return this.#token - this.#first;
  }

  next(text: string, tokens: readonly string[], complete: boolean, most = Infinity): Piece[] {
    const pieces: Piece[] = [];
    while (this.#token < tokens.length && this.#step(text, tokens, complete, pieces)) {
      if (pieces.length >= most) return pieces;
    }
    if (this.#place < text.length && (tokens.length === 0 || complete || this.#token >= tokens.length)) {
      this.#plain(text, text.length, pieces);
    }
    return pieces;
  }

  #step(text: string, tokens: readonly string[], complete: boolean, pieces: Piece[]): boolean {
    const token = tokens[this.#token] ?? "";
    if (token === "") {
      this.#token++;
      return true;
    }
    if (text.startsWith(token, this.#place)) {
      pieces.push({ text: token, first: this.#first, last: this.#token });
      this.#place += token.length;
      this.#first = ++this.#token;
      return true;
    }
    const rest = text.slice(this.#place, this.#place + token.length);
    if (rest.length < token.length && token.startsWith(rest)) {
      if (complete && rest !== "") {
        pieces.push({ text: rest, first: this.#first, last: this.#token });
        this.#place = text.length;
      }
      if (complete) this.#first = this.#token = tokens.length; // cut off: never shown
      return false;
    }
    return this.#catchUp(text, tokens, complete, pieces);
  }

  #catchUp(text: string, tokens: readonly string[], complete: boolean, pieces: Piece[]): boolean {
    const near = text.slice(this.#place, this.#place + LOOKAHEAD_TEXT);
    const limit = Math.min(tokens.length, this.#token + LOOKAHEAD_TOKENS);
    for (let i = this.#token + 1; i < limit; i++) {
      const token = tokens[i] ?? "";
      const found = token.trim().length > 1 ? near.indexOf(token) : -1;
      if (found < 0) continue;
      if (found > 0) this.#plain(text, this.#place + found, pieces);
      this.#first = this.#token = i;
      return true;
    }
    if (!complete) return false;
    this.#first = this.#token = tokens.length;
    return false;
  }

  #plain(text: string, end: number, pieces: Piece[]): void {
    pieces.push({ text: text.slice(this.#place, end), first: -1, last: -1 });
    this.#place = end;
    this.#first = this.#token;
  }
}

/** Characters that show nothing, or change how others show: controls, format characters, odd spaces. */
export const INVISIBLE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2000-\u200f\u2028-\u202f\u205f-\u206f\u2800\u3000\u3164\ufeff\ufff0-\ufffb\u{e0000}-\u{e0fff}]/u;

/** Controls that would turn the text after them around. */
export const STEERING = /[\u202a-\u202e\u2066-\u2069\u200e\u200f\u061c]/;

/** `U+202E`, for each code point. */
export function codePoints(text: string): string {
  return Array.from(text, (c) => `U+${(c.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`).join(" ");
}

/** A token in quotes with everything in it visible: `“·the”`, `“↵”`, or its code points. */
export function quoted(token: string): string {
  if (token === "") return "(no text)";
  const shown = Array.from(token, visible).join("");
  return `“${shown}”`;
}

/** The character itself when it can be seen, else a mark for it. */
export function visible(character: string): string {
  if (character === " ") return "·";
  if (character === "\n") return "↵";
  if (character === "\t") return "⇥";
  return INVISIBLE.test(character) ? `⟨${codePoints(character)}⟩` : character;
}

/** A few characters of a text, from its end or its beginning, on one line. */
export function excerpt(text: string, most: number, end = false): string {
  const near = end ? text.slice(-4 * most) : text.slice(0, 4 * most);
  const characters = Array.from(near);
  const few = end ? characters.slice(-most) : characters.slice(0, most);
  const line = few.map((c) => (c === " " ? c : visible(c))).join("");
  if (few.join("").length === text.length) return line;
  return end ? `…${line}` : `${line}…`;
}

/** Worth saying in code points: nothing but what cannot be seen, or what has no glyph of its own. */
export function needsCodePoints(token: string): boolean {
  return token !== "" && (INVISIBLE.test(token) || token.includes("\ufffd") || /^\s+$/.test(token) || /^\p{M}/u.test(token));
}
