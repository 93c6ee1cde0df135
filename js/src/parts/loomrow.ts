/**
 * One node as one row of the tree.
 */
import { isSampled, markOf } from "../revise";
import { gistOf } from "../outline";
import { echoed, type NodeState, type State } from "../state";
import { level } from "./colour";
import { make } from "./dom";
import { isBusy, type Row } from "./loomoutline";
import { visible } from "./text";

const BEGINNING = 90;
const STEP_PX = 14;
/** Further to the right nothing moves: what is deep must still be read. */
const MOST_STEPS = 14;

/** What a row shows that is the window's own. */
export interface Looks {
  current: boolean;
  lit: boolean;
  found: boolean;
  taken: boolean;
}

export class RowView {
  readonly element = make("div", "acs-loom-row");
  readonly #twist = make("span", "acs-loom-twist");
  readonly #goes = make("span", "acs-loom-goes", "↳");
  readonly #dot = make("span", "acs-loom-dot");
  readonly #text = make("span", "acs-loom-text");
  readonly #marks = make("span", "acs-loom-marks");
  #drawn = "";

  constructor(readonly id: string) {
    this.element.setAttribute("role", "treeitem");
    this.element.dataset["node"] = id;
    this.element.draggable = true;
    this.#twist.ariaHidden = this.#goes.ariaHidden = this.#dot.ariaHidden = this.#marks.ariaHidden = "true";
    this.element.append(this.#twist, this.#goes, this.#dot, this.#text, this.#marks);
  }

  update(state: State, row: Row, top: number, looks: Looks): void {
    const node = state.nodes[row.id];
    if (node === undefined) return;
    const face = faceOf(state, node);
    const drawn = JSON.stringify([row, top, looks, face]);
    if (drawn === this.#drawn) return;
    this.#drawn = drawn;
    const { element } = this;
    element.style.top = `${top}px`;
    element.style.paddingLeft = `${4 + Math.min(row.indent, MOST_STEPS) * STEP_PX}px`;
    this.#goes.hidden = !goesOn(row);
    element.tabIndex = looks.current ? 0 : -1;
    for (const [name, value] of Object.entries({ level: row.level, setsize: row.size, posinset: row.place, selected: looks.current })) {
      element.setAttribute(`aria-${name}`, String(value));
    }
    if (row.children > 0) element.setAttribute("aria-expanded", String(!row.folded));
    else element.removeAttribute("aria-expanded");
    element.dataset["kind"] = face.kind;
    for (const [name, on] of Object.entries({ ...looks, unread: face.unread, busy: face.busy })) element.classList.toggle(`acs-loom-${name}`, on);
    this.#twist.textContent = row.children === 0 ? "" : row.folded ? "▸" : "▾";
    this.#dot.className = `acs-loom-dot${face.level === null ? "" : ` acs-p${face.level}`}`;
    this.#text.textContent = face.text === "" ? face.empty : face.text;
    this.#text.classList.toggle("acs-loom-empty", face.text === "");
    const marks = [...face.tags.map((tag) => `#${tag}`), face.note ? "✎" : "", face.bookmark ? "★" : "", face.rating, row.folded ? `${row.children}` : ""];
    this.#marks.textContent = marks.filter((mark) => mark !== "").join(" ");
    element.setAttribute("aria-label", spokenRow(face, row, looks));
  }
}

/** Whether a row goes on from the one above it: an only child, which stands no further to the right than its parent. */
export function goesOn({ level, size }: Pick<Row, "level" | "size">): boolean {
  return level > 1 && size === 1;
}

export interface RowFace {
  kind: "prompt" | "generated" | "written";
  text: string;
  empty: string;
  unread: boolean;
  busy: boolean;
  bookmark: boolean;
  note: boolean;
  tags: string[];
  rating: string;
  level: number | null;
}

/** What of a node its row shows. */
export function faceOf(state: State, node: NodeState): RowFace {
  const busy = isBusy(state, node.id);
  const mark = (field: string) => markOf(state, node.id, field);
  const rating = mark("rating");
  const { begins, mean } = gistOf(state, node);
  return {
    kind: isSampled(state, node) ? "generated" : node.parent === null ? "prompt" : "written",
    text: beginning(begins),
    empty: busy ? "waiting" : node.ids !== null ? `${node.ids.length} token ids` : emptyWords(state, node),
    unread: mark("unread") === true,
    busy,
    bookmark: mark("bookmark") === true,
    note: typeof mark("note") === "string",
    tags: (mark("tags") ?? []) as string[],
    rating: typeof rating === "number" ? `${rating}/5` : "",
    level: mean === null ? null : level(mean),
  };
}

/** Why there is no text. */
export function emptyWords(state: State, node: NodeState): string {
  const run = state.runs[node.run];
  if (node.choice === null || run === undefined) return "empty text";
  if (run.error !== null) return `failed: ${run.error.code}`;
  if (node.finish_reason !== null) return node.finish_reason === "stop" ? "empty: the model ended at once" : `empty: ${node.finish_reason}`;
  return run.outcome === "done" ? "empty" : `empty: ${run.outcome}`;
}

export function ownText(state: State, node: NodeState): string {
  const lead = node.echo ? echoed(state, node) : 0;
  return lead === 0 ? node.text : node.text.slice(lead);
}

/** As a row shows it. */
export function beginning(text: string): string {
  const shown = Array.from(text.slice(0, 2 * BEGINNING)).slice(0, BEGINNING);
  return shown.map((c) => (c === " " ? c : visible(c))).join("");
}

/** A row in words. */
export function spokenRow(face: RowFace, row: Pick<Row, "children">, looks: Looks): string {
  const words = [face.text.trim() === "" ? face.empty : face.text.trim()];
  if (face.kind === "written") words.push("written by hand");
  if (face.busy) words.push("being generated");
  if (face.unread) words.push("unread");
  if (face.bookmark) words.push("bookmarked");
  if (face.tags.length > 0) words.push(`tagged ${face.tags.join(", ")}`);
  if (face.note) words.push("has a note");
  if (face.rating !== "") words.push(`rated ${face.rating}`);
  if (looks.lit) words.push("lit");
  if (looks.found) words.push("found");
  if (row.children > 0) words.push(row.children === 1 ? "1 child" : `${row.children} children`);
  return words.join(", ");
}
