/**
 * A box for a text that a command needs: an edit, a new node, a note, a place to split at.
 */
import { freshId, make } from "./dom";
import { keep } from "./shortcuts";
import { ExactText, surrogateProblem } from "./exact";

/** Keys and clipboard are the box's: the loom and JupyterLab have uses of their own for them. */
const KEPT = "keydown keyup keypress copy cut paste input contextmenu";

export interface Question {
  label: string;
  text: string;
  /** What the button says. */
  act: string;
  note?: string;
  /** One line: Enter sends. */
  line?: boolean;
  /** Gets the text, to the byte, and the place of the cursor in it, in code points. A line it gives back is a refusal. */
  done(text: string, at: number): string | undefined;
}

export class Ask {
  readonly element = make("form", "acs-edit acs-loom-ask");
  readonly #label = make("label", "");
  readonly #area = make("textarea", "");
  readonly #send = make("button", "acs-stop");
  readonly #note = make("span", "acs-tip-note");
  readonly #problem = make("p", "acs-error");
  #exact = new ExactText();
  #question: Question | null = null;
  /** What was sent last. */
  #sent: Question | null = null;

  /** `closed`: the box is away, and the focus has to go somewhere. */
  constructor(readonly closed: () => void) {
    this.#label.htmlFor = this.#area.id = freshId("ask");
    this.#area.spellcheck = false;
    this.#problem.setAttribute("role", "alert");
    this.#send.type = "submit";
    const cancel = make("button", "acs-quiet", "Cancel");
    cancel.addEventListener("click", () => this.close());
    const row = make("div", "acs-edit-row");
    row.append(this.#send, cancel, this.#note);
    this.element.append(this.#label, this.#area, this.#problem, row);
    this.element.hidden = this.#problem.hidden = true;
    keep(this.element, KEPT);
    // JupyterLab refuses line breaks in any box inside a cell, by a listener on the box itself.
    this.element.addEventListener("beforeinput", (event) => event.stopPropagation(), { capture: true });
    this.#area.addEventListener("input", () => this.#exact.edited(this.#area.value));
    this.element.addEventListener("keydown", (event) => {
      const enter = event.key === "Enter" && (event.ctrlKey || event.metaKey || (this.#question?.line === true && !event.shiftKey));
      if (event.key === "Escape") this.close();
      else if (enter) this.#submit();
      else return;
      event.preventDefault();
    });
    this.element.addEventListener("submit", (event) => {
      event.preventDefault();
      event.stopPropagation();
      this.#submit();
    });
  }

  get open(): boolean {
    return this.#question !== null;
  }

  put(question: Question): void {
    this.#question = question;
    this.#exact = new ExactText();
    this.#exact.set(question.text);
    this.#label.textContent = question.label;
    this.#send.textContent = question.act;
    this.#send.title = question.line === true ? "Enter" : "Ctrl+Enter";
    this.#note.textContent = question.note ?? "";
    this.#area.rows = question.line === true ? 1 : Math.min(10, Math.max(3, question.text.split("\n").length + 1));
    this.#area.value = this.#exact.shown;
    this.#tell("");
    this.element.hidden = false;
    this.#area.focus();
    this.#area.setSelectionRange(this.#area.value.length, this.#area.value.length);
    this.element.scrollIntoView({ block: "nearest" });
  }

  /** The kernel did not take a text: whoever wrote it has it again, unless they write something else by now. */
  refused(text: string, line: string): void {
    const sent = this.#sent;
    if (sent === null || this.open || words(sent.text) !== words(text)) return;
    this.put(sent);
    this.#tell(line);
  }

  close(): void {
    if (this.#question === null) return;
    this.#question = null;
    this.element.hidden = true;
    this.closed();
  }

  #submit(): void {
    this.#exact.edited(this.#area.value);
    const text = this.#exact.exact;
    const before = this.#area.value.slice(0, this.#area.selectionStart);
    const problem = surrogateProblem(text) || this.#question?.done(text, placeIn(text, before));
    if (problem) return this.#tell(problem);
    this.#sent = this.#question && { ...this.#question, text };
    this.close();
  }

  #tell(problem: string): void {
    this.#problem.textContent = problem;
    this.#problem.hidden = problem === "";
    this.#area.setAttribute("aria-invalid", String(problem !== ""));
  }
}

/** A text without regard to its blanks: tags and names of files are sent without those around them. */
function words(text: string): string {
  return text.split(/\s+/).filter((word) => word !== "").join(" ");
}

/** Where in a text, in code points, a box that shows one line end for all stands after `shown`. */
export function placeIn(text: string, shown: string): number {
  let at = 0;
  for (let i = 0; i < shown.length; i++) at += text.startsWith("\r\n", at) ? 2 : 1;
  return Array.from(text.slice(0, at)).length;
}
