/**
 * How a node is grown: how many, and with what; filled with what the node was grown with last.
 */
import type { Fields } from "../host";
import { freshId, make } from "./dom";
import type { Field } from "./fields";
import { Form } from "./form";
import { keep } from "./shortcuts";
import { fieldsOf } from "./requestfields";

const MOST = 16;

export class GrowForm {
  readonly element = make("form", "acs-loom-grow");
  readonly #n = make("input", "");
  readonly #form: Form;
  #node = "";

  constructor(
    fields: readonly Field[],
    readonly usual: Fields,
    grow: (node: string, n: number, fields: Fields) => void,
    readonly closed: () => void,
  ) {
    this.#form = new Form(fields, () => {});
    const label = make("label", "acs-field-name", "n");
    this.#n.type = "number";
    this.#n.min = "1";
    this.#n.max = String(MOST);
    this.#n.value = "1";
    this.#n.id = label.htmlFor = freshId("n");
    const go = make("button", "acs-stop", "Grow");
    go.type = "submit";
    const cancel = make("button", "acs-quiet", "Cancel");
    cancel.addEventListener("click", () => this.close());
    const help = make("span", "acs-tip-note", `1 to ${MOST} siblings by one request; the node remembers the rest`);
    const top = make("div", "acs-edit-row");
    top.append(label, this.#n, go, cancel, help);
    this.element.append(top, this.#form.element);
    this.element.setAttribute("aria-label", "Grow");
    this.element.hidden = true;
    keep(this.element, "keydown keyup keypress copy cut paste");
    this.element.addEventListener("beforeinput", (event) => event.stopPropagation(), { capture: true });
    this.element.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      event.preventDefault();
      this.close();
    });
    this.element.addEventListener("submit", (event) => {
      event.preventDefault();
      event.stopPropagation();
      const n = Number(this.#n.value);
      if (!Number.isInteger(n) || n < 1 || n > MOST) return this.#n.focus();
      if (!this.#form.check(true)) return;
      grow(this.#node, n, this.#form.values);
      this.close();
    });
  }

  /** Open for a node that goes on with this sampling. */
  open(node: string, sampling: Record<string, unknown>): void {
    this.#node = node;
    this.#form.put({ ...this.usual, ...fieldsOf(sampling) });
    this.element.hidden = false;
    this.#n.focus();
    this.#n.select();
    this.element.scrollIntoView({ block: "nearest" });
  }

  close(): void {
    if (this.element.hidden) return;
    this.element.hidden = true;
    this.closed();
  }
}
