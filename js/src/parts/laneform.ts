/**
 * A lane's settings where they can be changed: folded away, made when somebody opens them.
 */
import type { Fields } from "../host";
import { make } from "./dom";
import type { Field } from "./fields";
import { Form } from "./form";
import { PromptBox } from "./promptbox";

/** What stands in it: the lane's own fields as text, and its own prompt; null: the shared one. */
export interface LaneDraft {
  fields: Fields;
  prompt: string | null;
}

export class LaneForm {
  readonly element = make("details", "acs-lane-form");
  readonly #summary = make("summary", "");
  readonly #words = make("span", "", "Settings");
  #form: Form | null = null;
  #box: PromptBox | null = null;
  #draft: LaneDraft = { fields: {}, prompt: null };
  #kept = "";

  /** `common`: what all lanes have unless one says otherwise. */
  constructor(
    readonly letter: string,
    readonly fields: readonly Field[],
    readonly common: Fields,
    readonly changed: () => void,
  ) {
    this.#summary.append(this.#words, make("span", "acs-hidden", ` of lane ${letter}`));
    this.element.append(this.#summary);
    this.element.addEventListener("toggle", () => {
      if (this.element.open) this.#open();
    });
  }

  get draft(): LaneDraft {
    return this.#draft;
  }

  /** What the lane is, whatever stands in the form. */
  tell(kept: LaneDraft): void {
    this.#kept = written(kept);
    this.#say();
  }

  /** Show what was written on another page, or before this one was loaded. */
  put(draft: LaneDraft): void {
    this.#draft = draft;
    this.#form?.put(draft.fields);
    if (draft.prompt !== null) this.#box?.put(draft.prompt);
    this.#say();
  }

  /** Whether it can be sent; what was written and cannot is said at its field, which gets the focus. */
  check(): boolean {
    if (this.#isKept) return true;
    if (this.#form !== null && !this.#form.check()) {
      this.element.open = true;
      this.#form.check(true);
      return false;
    }
    return (this.#box?.problem ?? "") === "";
  }

  #open(): void {
    if (this.#form !== null) return;
    this.#form = new Form(this.fields, () => this.#edited(), this.common);
    this.#form.put(this.#draft.fields);
    if (this.#draft.prompt !== null) {
      this.#box = new PromptBox(() => this.#edited(), `Prompt of lane ${this.letter}`);
      this.#box.put(this.#draft.prompt);
      this.element.append(this.#box.element);
    }
    this.element.append(this.#form.element);
  }

  #edited(): void {
    this.#draft = { fields: this.#form?.values ?? this.#draft.fields, prompt: this.#box?.text ?? this.#draft.prompt };
    this.#say();
    this.changed();
  }

  get #isKept(): boolean {
    return written(this.#draft) === this.#kept;
  }

  #say(): void {
    const words = this.#isKept ? "Settings" : "Settings, changed for the next run";
    if (this.#words.textContent !== words) this.#words.textContent = words;
  }
}

function written({ fields, prompt }: LaneDraft): string {
  return JSON.stringify([Object.entries(fields).sort(), prompt]);
}
