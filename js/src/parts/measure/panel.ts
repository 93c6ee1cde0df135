/**
 * What is measured of a loom's node, in a box between its texts: where its samples part, how it differs from a sibling,
 * what may follow. The kernel measures; the box asks, and draws what it is told.
 */
import type { Tending } from "../../tending";
import { freshId, make, say } from "../dom";
import { diffTable } from "./diff";
import { MultiverseView, words } from "./multiverse";
import { shown, type Measured } from "./told";
import { keep } from "../shortcuts";
import { trieTable } from "./trie";

export type What = Measured["what"];

const TITLES: Record<What, string> = { trie: "Where samples part", diff: "Two texts side by side", map: "Multiverse map" };

export class MeasurePanel {
  readonly element = make("section", "acs-loom-measure");
  readonly #title = make("h3", "");
  readonly #line = make("p", "acs-m-line");
  readonly #problem = make("p", "acs-error");
  readonly #body = make("div", "acs-m-body");
  readonly #here = make("p", "acs-m-here");
  readonly #form = make("form", "acs-m-form");
  readonly #tokens = number("2000", 1);
  readonly #depth = number("8", 1);
  readonly #start = make("button", "acs-stop", "Map");
  readonly #stop = make("button", "acs-quiet", "Stop");
  readonly #map = new MultiverseView(() => this.#look());
  #asked: { what: What; node: string } | null = null;
  #frozen = false;

  constructor(readonly wish: (intent: Tending) => void, readonly closed: () => void) {
    this.#title.id = freshId("measure");
    const close = make("button", "acs-quiet", "Close");
    close.addEventListener("click", () => this.close());
    const top = make("div", "acs-m-top");
    top.append(this.#title, close);
    this.#line.setAttribute("role", "status");
    this.#problem.setAttribute("role", "alert");
    this.#body.tabIndex = 0;
    this.#body.setAttribute("role", "group");
    this.#body.setAttribute("aria-labelledby", this.#title.id);
    this.#build();
    this.element.append(top, this.#line, this.#problem, this.#body, this.#here, this.#form);
    this.element.setAttribute("role", "dialog");
    this.element.setAttribute("aria-labelledby", this.#title.id);
    this.element.tabIndex = -1;
    this.element.hidden = true;
    keep(this.element, "keydown keyup keypress copy cut paste");
    this.element.addEventListener("beforeinput", (event) => event.stopPropagation(), { capture: true });
    this.element.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      event.preventDefault();
      this.close();
    });
  }

  /** Ask for a measure; `other` is what a diff compares with. `frozen`: nothing can be sent or changed. */
  open(what: What, node: string, other: string | null, frozen: boolean): void {
    this.#asked = { what, node };
    this.#frozen = frozen;
    this.#title.textContent = TITLES[what];
    say(this.#line, "Measuring…");
    say(this.#problem, "");
    this.#body.replaceChildren();
    this.#here.hidden = this.#form.hidden = true;
    this.element.hidden = false;
    this.element.focus();
    this.element.scrollIntoView({ block: "nearest" });
    this.wish({ type: "Measure", what, node, ...(other === null ? {} : { other }) });
  }

  close(): void {
    if (this.element.hidden) return;
    this.element.hidden = true;
    this.#asked = null;
    this.closed();
  }

  /** What the kernel tells; that of another node, or of a box that was closed, is old. */
  answer(told: Measured): void {
    if (this.#asked?.what !== told.what || this.#asked.node !== told.node) return;
    say(this.#line, told.line);
    if (told.what !== "map" && told.rows.length === 0) this.#body.replaceChildren(); // the line says why
    else if (told.what === "trie") this.#body.replaceChildren(trieTable(told.rows, (nodes) => this.wish({ type: "Light", nodes })));
    else if (told.what === "diff") this.#body.replaceChildren(diffTable(told.rows, [name(told.node), name(told.other)]));
    else this.#showMap(told);
  }

  #showMap({ cells, busy, refused }: Measured & { what: "map" }): void {
    const fresh = this.#map.element.parentElement !== this.#body;
    if (fresh) this.#body.replaceChildren(this.#map.element);
    this.#map.put(cells, fresh);
    this.#map.element.hidden = cells.length < 2;
    say(this.#problem, refused);
    this.#form.hidden = this.#frozen && cells.length < 2;
    this.#start.textContent = cells.length < 2 ? "Map" : "Go on";
    const focused = this.#start.matches(":focus");
    this.#start.disabled = this.#start.hidden = busy;
    this.#stop.hidden = !busy;
    if (focused && busy) this.#stop.focus();
    if (fresh && cells.length < 2) this.#tokens.focus();
  }

  #build(): void {
    this.#start.type = "submit";
    this.#stop.addEventListener("click", () => this.#send({ stop: true }));
    const follow = this.#button("Branch here", "Make a node of the text to this cell", () => this.#follow());
    const nearer = this.#button("Zoom in", "Enter, or a double click", () => this.#map.zoomIn());
    const away = this.#button("Zoom out", "Backspace", () => this.#map.zoomOut());
    this.#form.noValidate = true; // a box of ours says it
    this.#form.append(label("Tokens at most", this.#tokens), label("Depth", this.#depth), this.#start, this.#stop, follow, nearer, away);
    this.#form.addEventListener("submit", (event) => {
      event.preventDefault();
      event.stopPropagation();
      this.#send({ tokens: Number(this.#tokens.value), depth: Number(this.#depth.value) });
    });
  }

  #button(text: string, title: string, act: () => void): HTMLElement {
    const button = make("button", "acs-quiet", text);
    button.title = title;
    button.addEventListener("click", act);
    return button;
  }

  #send(fields: { tokens?: number; depth?: number; stop?: boolean }): void {
    const node = this.#asked?.node;
    if (node === undefined) return;
    if (this.#frozen) return say(this.#problem, "This loom was opened to look at; nothing can be sent from here.");
    if (fields.tokens !== undefined) {
      const good = [fields.tokens, fields.depth ?? 1].every((value) => Number.isInteger(value) && value >= 1);
      say(this.#problem, good ? "" : "Whole numbers of at least 1 are needed.");
      if (!good) return;
      this.#start.disabled = true;
    }
    this.wish({ type: "Measure", what: "map", node, ...fields });
  }

  #follow(): void {
    const { current } = this.#map;
    const node = this.#asked?.node;
    if (node === undefined || current === undefined || current.cell === 0) return say(this.#problem, "Choose a cell first.");
    if (this.#frozen) return say(this.#problem, "This loom was opened to look at; it cannot be changed here.");
    this.wish({ type: "Follow", node, cell: current.cell });
    this.close();
  }

  #look(): void {
    const { current, zoomed, thin } = this.#map;
    const about = current === undefined || current.cell === 0 ? "" : `${words(current)}.`;
    const where = zoomed === undefined || zoomed.cell === 0 ? "" : `Zoomed to “${shown(zoomed.text)}”.`;
    say(this.#here, [about, where, thin === 0 ? "" : `${thin} cells are too thin to be drawn.`].filter((part) => part !== "").join(" "));
  }
}

const name = (node: string) => `node ${node}`;

function number(value: string, least: number): HTMLInputElement {
  const box = make("input", "");
  Object.assign(box, { type: "number", value, min: String(least), step: "1" });
  return box;
}

function label(text: string, box: HTMLInputElement): HTMLElement {
  const about = make("label", "", `${text} `);
  about.append(box);
  return about;
}
