/**
 * The box a prompt is written in, and the line under it that says what cannot be seen there.
 *
 * Tab leaves the box, as everywhere; a button puts a tab in. What is put in by this page can be undone like typing.
 */
import { freshId, make, say } from "./dom";
import { ExactText, surrogateProblem } from "./exact";
import { count } from "./status";
import { codePoints, INVISIBLE } from "./text";

/** Above this many characters a text is put in without the browser's help, which would take seconds. */
const UNDOABLE = 50_000;

export class PromptBox {
  readonly element = make("div", "acs-box");
  readonly area = make("textarea", "acs-box-area");
  readonly #text = new ExactText();
  readonly #facts = make("span", "acs-box-facts");
  readonly #problem = make("p", "acs-error");

  constructor(changed: () => void, name = "Prompt") {
    const label = make("label", "acs-box-label", name);
    this.area.id = label.htmlFor = freshId("prompt");
    this.area.rows = 7;
    this.area.spellcheck = false;
    this.area.autocomplete = "off";
    this.area.setAttribute("autocapitalize", "off");
    this.#facts.id = freshId("facts");
    this.#problem.id = freshId("problem");
    this.#problem.setAttribute("role", "alert");
    this.area.setAttribute("aria-describedby", `${this.#facts.id} ${this.#problem.id}`);
    const tab = make("button", "acs-quiet", "insert tab");
    tab.title = "Put a tab character at the cursor; the Tab key leaves the box";
    tab.addEventListener("click", () => {
      this.area.focus();
      insert("\t");
    });
    this.area.addEventListener("input", () => {
      this.#text.edited(this.area.value);
      this.#tell();
      changed();
    });
    const foot = make("div", "acs-box-foot");
    foot.append(this.#facts, tab);
    this.element.append(label, this.area, foot, this.#problem);
    this.#tell();
  }

  /** To the byte. */
  get text(): string {
    return this.#text.exact;
  }

  get problem(): string {
    return surrogateProblem(this.text);
  }

  /** Put another text in; undo brings the one before back. */
  put(text: string): void {
    if (text === this.text) return;
    this.#text.set(text);
    const { shown } = this.#text;
    if (shown !== this.area.value) {
      const small = shown.length + this.area.value.length < UNDOABLE;
      if (!small || !this.area.isConnected || !replaced(this.area, shown)) this.area.value = shown;
    }
    this.#text.set(text); // whatever the box made of it on the way
    this.#tell();
  }

  say(message: string): void {
    say(this.#problem, message);
    this.area.setAttribute("aria-invalid", String(message !== ""));
  }

  #tell(): void {
    this.say(this.problem);
    this.#facts.textContent = facts(this.text).join(" · ");
  }
}

/** What a reader of the box should know of a text. */
export function facts(text: string): string[] {
  const bytes = new TextEncoder().encode(text).length;
  const length = text.length - (text.match(/[\ud800-\udbff][\udc00-\udfff]/g)?.length ?? 0);
  const found = [`${count(length)} ${length === 1 ? "character" : "characters"}`];
  if (bytes !== length) found.push(`${count(bytes)} bytes`);
  const returns = text.match(/\r/g)?.length ?? 0;
  if (returns > 0) found.push(`${count(returns)} carriage ${returns === 1 ? "return" : "returns"} (\\r), kept`);
  const hidden = new Map<string, number>();
  for (const [character] of text.matchAll(new RegExp(INVISIBLE.source, "gu"))) {
    if (character !== "\r") hidden.set(character, (hidden.get(character) ?? 0) + 1);
  }
  for (const [character, times] of [...hidden].slice(0, 4)) {
    found.push(times === 1 ? codePoints(character) : `${times} × ${codePoints(character)}`);
  }
  if (hidden.size > 4) found.push("and others unseen");
  const end = /[ \t\u00a0\u3000]$/.exec(text);
  if (end !== null) found.push(end[0] === "\t" ? "ends in a tab" : "ends in a space");
  else if (/\n$/.test(text)) found.push("ends in a newline");
  return found;
}

/** As if typed into what has the focus, so that undo knows it. */
function insert(text: string): boolean {
  // Deprecated and without a successor: nothing else reaches the undo list of a text box.
  return document.execCommand("insertText", false, text);
}

function replaced(area: HTMLTextAreaElement, text: string): boolean {
  const before = document.activeElement;
  area.focus();
  area.select();
  const done = text === "" ? document.execCommand("delete") : insert(text);
  if (before instanceof HTMLElement && before !== area) before.focus();
  return done && area.value === text;
}
