/**
 * The search of a loom: by a text, or by a predicate that the kernel reads; and the way through what was found.
 */
import { keep } from "./shortcuts";
import { freshId, make, say } from "./dom";

const AFTER_MS = 200;

export class SearchBar {
  readonly element = make("div", "acs-loom-search");
  readonly #box = make("input", "");
  readonly #how = make("select", "acs-quiet");
  readonly #count = make("span", "acs-loom-count");
  #later: ReturnType<typeof setTimeout> | undefined;
  /** Reading order is the kernel's. */
  found: readonly string[] = [];

  /** `search` asks the kernel; `step` goes to the next one found (-1: the one before). */
  constructor(
    readonly search: (text: string, predicate: boolean) => void,
    step: (by: 1 | -1) => void,
    readonly closed: () => void,
  ) {
    const label = make("label", "acs-hidden", "Search");
    this.#box.type = "text";
    this.#box.autocomplete = "off";
    this.#box.spellcheck = false;
    this.#box.id = label.htmlFor = freshId("search");
    this.#how.setAttribute("aria-label", "Search by");
    for (const how of ["text", "predicate"]) this.#how.append(Object.assign(make("option", "", how), { value: how }));
    this.#count.setAttribute("role", "status");
    this.element.setAttribute("role", "search");
    this.element.append(label, this.#box, this.#how, this.#count);
    this.element.hidden = true;
    this.#hint();
    keep(this.element, "keydown keyup keypress copy cut paste");
    this.#box.addEventListener("input", () => this.#soon());
    this.#how.addEventListener("change", () => {
      this.#hint();
      this.#soon();
    });
    this.element.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.close();
      else if (event.key === "Enter" && event.target === this.#box) {
        if (this.#later === undefined && this.found.length > 0) step(event.shiftKey ? -1 : 1);
        else this.#now();
      } else return;
      event.preventDefault();
    });
  }

  open(): void {
    this.element.hidden = false;
    this.#box.focus();
    this.#box.select();
  }

  close(): void {
    if (this.element.hidden) return;
    this.element.hidden = true;
    this.closed();
  }

  /** Nothing is found any more; says whether there was anything. */
  forget(): boolean {
    const had = this.found.length > 0;
    this.found = [];
    return had;
  }

  /** The kernel's answer; an answer to an older question is passed over. */
  answer({ text, predicate, nodes, refused }: { text: string; predicate: boolean; nodes: string[]; refused?: string }): boolean {
    if (text !== this.#box.value || predicate !== this.#predicate) return false;
    this.found = nodes;
    this.#box.setAttribute("aria-invalid", String(refused !== undefined));
    say(this.#count, refused ?? (text === "" ? "" : nodes.length === 0 ? "nothing found" : `${nodes.length} found; Enter goes through them`));
    return true;
  }

  get #predicate(): boolean {
    return this.#how.value === "predicate";
  }

  #hint(): void {
    this.#box.placeholder = this.#predicate ? 'logprob < -5 and finish == "length"' : "a text, a tag, a note";
  }

  #soon(): void {
    clearTimeout(this.#later);
    this.#later = setTimeout(() => this.#now(), AFTER_MS);
  }

  #now(): void {
    clearTimeout(this.#later);
    this.#later = undefined;
    this.search(this.#box.value, this.#predicate);
  }
}
