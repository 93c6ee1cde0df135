/**
 * A text changed by hand, from which the model goes on. It belongs to the page, not to what is drawn: a draft
 * survives when the view around it is drawn anew.
 */
import { freshId, make } from "./dom";
import { keep } from "./shortcuts";
import { boxed, ExactText } from "./exact";

/** Keys and clipboard are the box's: JupyterLab has uses of its own for them. */
const KEPT = "keydown keyup keypress copy cut paste beforeinput input contextmenu";

export class Editor {
  readonly element = make("form", "acs-edit");
  readonly #box = make("textarea", "");
  readonly #exact = new ExactText();
  readonly #send = make("button", "acs-stop", "Continue from this text");
  /** The text that was sent and of which nothing is known yet. */
  #sent: string | null = null;

  /** `original`: the text as it is. `go` gets the text as it was left; `ended`: its reader wants it away. */
  constructor(
    readonly original: string,
    name: string,
    go: (text: string) => void,
    ended: () => void,
  ) {
    const label = make("label", "", `The text to go on from, ${name}`);
    label.htmlFor = this.#box.id = freshId("edit");
    this.#exact.set(original);
    this.#box.value = original;
    // Each edit by itself: of two at once, what lies between them would count as edited.
    this.#box.addEventListener("input", () => this.#exact.edited(this.#box.value));
    this.#box.spellcheck = false;
    this.#box.rows = Math.min(14, Math.max(4, Math.ceil(original.length / 60)));
    keep(this.element, KEPT);
    this.element.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.element.requestSubmit();
      else if (event.key === "Escape" && this.text === original) ended();
      else return;
      event.preventDefault();
    });
    this.element.addEventListener("submit", (event) => {
      event.preventDefault();
      event.stopPropagation();
      if (this.#sent === this.text) return;
      this.#wait(this.text);
      go(this.text);
    });
    const [send, cancel] = [this.#send, make("button", "acs-quiet", "Cancel")];
    send.type = "submit";
    send.title = "Ctrl+Enter";
    cancel.addEventListener("click", ended);
    const row = make("div", "acs-edit-row");
    row.append(send, cancel, make("span", "acs-tip-note", "A new branch; this text stays as it is."));
    this.element.append(label, this.#box, row);
  }

  /** What was sent and waits for its branch; the box stays with its text until that is there. */
  get sent(): string | null {
    return this.#sent;
  }

  /** Nothing came of what was sent: it can be sent again. */
  refused(): void {
    this.#wait(null);
  }

  #wait(sent: string | null): void {
    this.#sent = sent;
    this.#send.textContent = sent === null ? "Continue from this text" : "Waiting for the branch…";
  }

  /** The text as it is now: what was not touched is as it was, to the byte. */
  get text(): string {
    this.#exact.edited(this.#box.value);
    return this.#exact.exact;
  }

  /** Go to the box, with what follows a place selected: to write on from there, or to keep it. */
  open(place: number): void {
    this.#box.focus();
    const start = boxed(this.original.slice(0, place)).length;
    this.#box.setSelectionRange(start, this.#box.value.length);
    // The caret is at the selection's end; show its beginning.
    const share = start / Math.max(1, this.#box.value.length);
    this.#box.scrollTop = Math.max(0, share * this.#box.scrollHeight - this.#box.clientHeight / 2);
    this.element.scrollIntoView({ block: "nearest", inline: "nearest" });
  }
}
