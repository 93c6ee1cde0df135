/**
 * A text in a text box, to the byte. A box knows one line end and shows `\r\n` and `\r` as `\n`; here the text keeps
 * its own, and an edit changes only what was edited. It must not know the page.
 */

/** As a text box gives it back. */
export function boxed(text: string): string {
  return text.replace(/\r\n?/g, "\n");
}

export class ExactText {
  #exact = "";
  #shown = "";
  /** What the box has shown, and the text it stood for: undo brings an earlier view back. Empty without `\r`. */
  readonly #past = new Map<string, string>();

  get exact(): string {
    return this.#exact;
  }

  get shown(): string {
    return this.#shown;
  }

  set(exact: string): void {
    this.#remember();
    this.#exact = exact;
    this.#shown = boxed(exact);
  }

  /** The box was edited and shows this now. */
  edited(shown: string): void {
    if (shown === this.#shown) return;
    this.#remember();
    this.#exact = this.#past.get(shown) ?? (this.#exact.includes("\r") ? this.#spliced(shown) : shown);
    this.#shown = shown;
  }

  #remember(): void {
    if (!this.#exact.includes("\r")) return;
    this.#past.delete(this.#shown);
    this.#past.set(this.#shown, this.#exact);
    const [oldest] = this.#past.keys();
    if (this.#past.size > 100 && oldest !== undefined) this.#past.delete(oldest);
  }

  #spliced(shown: string): string {
    const before = this.#shown;
    const most = Math.min(before.length, shown.length);
    let head = 0;
    while (head < most && before[head] === shown[head]) head++;
    let tail = 0;
    while (tail < most - head && before[before.length - 1 - tail] === shown[shown.length - 1 - tail]) tail++;
    let start = this.#exact.slice(0, this.#place(head));
    const rest = shown.slice(head, shown.length - tail) + this.#exact.slice(this.#place(before.length - tail));
    // Two line ends must not become one.
    if (rest.startsWith("\n")) start = start.replace(/\r+$/, (returns) => "\n".repeat(returns.length));
    return start + rest;
  }

  /** Where in the text the box's `index` lies: behind a whole line end, never inside it. */
  #place(index: number): number {
    let at = 0;
    for (let i = 0; i < index; i++) at += this.#exact.startsWith("\r\n", at) ? 2 : 1;
    return at;
  }
}

/** What is wrong with a text that UTF-8 cannot carry, or "". */
export function surrogateProblem(text: string): string {
  const found = /\p{Surrogate}/u.exec(text);
  if (found === null) return "";
  const code = text.charCodeAt(found.index).toString(16).toUpperCase();
  const place = Array.from(text.slice(0, found.index)).length;
  return `The prompt holds a lone surrogate (U+${code}) at character ${place}; it has no UTF-8 form and cannot be sent.`;
}
