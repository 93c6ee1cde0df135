/**
 * The parameters of a request: a field each with its help, and at the field what is wrong with it.
 */
import type { Fields } from "../host";
import { freshId, make, say } from "./dom";
import { problem, type Field } from "./fields";

type Input = HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement;

interface Row {
  field: Field;
  input: Input;
  error: HTMLElement;
}

/** Those that stand open; the others are one click away. */
const FIRST = 4;

export class Form {
  readonly element = make("div", "acs-form");
  readonly #rows = new Map<string, Row>();

  /** `common`: what holds for a field that is left empty. */
  constructor(fields: readonly Field[], changed: () => void, readonly common: Fields = {}) {
    const first = make("div", "acs-form-grid");
    const rest = make("div", "acs-form-grid");
    fields.forEach((field, place) => (place < FIRST ? first : rest).append(this.#row(field, changed)));
    const more = make("details", "acs-form-more");
    more.append(make("summary", "", "More parameters"), rest);
    this.element.append(first, more);
  }

  /** Every field that is filled, as it is written. */
  get values(): Fields {
    const filled = [...this.#rows.values()].filter(({ input }) => input.value !== "");
    return Object.fromEntries(filled.map(({ field, input }) => [field.name, input.value]));
  }

  /** Fill the form; what is not named is emptied. */
  put(values: Fields): void {
    for (const { field, input } of this.#rows.values()) {
      const value = values[field.name] ?? "";
      if (input.value !== value) input.value = value;
    }
    this.check();
  }

  /** Whether all fields can be sent; each that cannot says why, and the first gets the focus. */
  check(focus = false): boolean {
    const wrong = [...this.#rows.values()].filter((row) => !this.#judge(row));
    const [first] = wrong;
    if (focus && first !== undefined) show(first);
    return wrong.length === 0;
  }

  /** Say something at a field; false when there is none of that name. */
  say(name: string, message: string): boolean {
    const row = this.#rows.get(name);
    if (row === undefined) return false;
    tell(row, message);
    show(row);
    return true;
  }

  #judge(row: Row): boolean {
    const words = problem(row.field, row.input.value);
    tell(row, words === "" ? "" : `${row.field.name}: ${words}`);
    return words === "";
  }

  #row(field: Field, changed: () => void): HTMLElement {
    const element = make("div", "acs-field");
    const label = make("label", "acs-field-name", field.name);
    const input = inputFor(field, this.common[field.name]);
    const help = make("p", "acs-field-help", field.kind === "texts" ? `${field.help}; one a line` : field.help);
    const error = make("p", "acs-field-error");
    input.id = label.htmlFor = freshId(field.name);
    help.id = freshId("help");
    error.id = freshId("wrong");
    error.hidden = true;
    error.setAttribute("role", "alert");
    input.setAttribute("aria-describedby", `${error.id} ${help.id}`);
    const row = { field, input, error };
    this.#rows.set(field.name, row);
    input.addEventListener("input", () => {
      this.#judge(row);
      changed();
    });
    element.append(label, input, error, help);
    return element;
  }
}

function inputFor({ kind, name }: Field, common: string | undefined): Input {
  const empty = common === undefined ? "not sent" : `all lanes: ${common.replaceAll("\n", " ")}`;
  if (kind === "boolean") {
    const select = make("select", "");
    for (const value of ["", "true", "false"]) {
      const option = make("option", "", value !== "" ? value : common === undefined ? "server's default" : empty);
      option.value = value;
      select.append(option);
    }
    return select;
  }
  if (kind === "texts") {
    const area = make("textarea", "");
    area.rows = 1;
    area.spellcheck = false;
    if (common !== undefined) area.placeholder = empty;
    return area;
  }
  const input = make("input", "");
  // Not type="number": such a box gives back nothing for what it does not understand.
  input.type = "text";
  input.inputMode = kind === "integer" ? "numeric" : kind === "number" ? "decimal" : "text";
  input.placeholder = name === "model" && common === undefined ? "the server's default" : empty;
  input.autocomplete = "off";
  input.spellcheck = false;
  return input;
}

function tell({ input, error }: Row, message: string): void {
  say(error, message);
  input.setAttribute("aria-invalid", String(message !== ""));
}

function show({ input }: Row): void {
  const folded = input.closest("details");
  if (folded !== null) folded.open = true;
  input.focus();
}
