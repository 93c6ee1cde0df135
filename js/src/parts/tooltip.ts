/**
 * The tooltip: what the model almost said. A popover, since anything else is clipped or displaced in a notebook.
 */
import type { NodeState } from "../state";
import { percent } from "./colour";
import { freshId, make } from "./dom";
import { rank, type Alternative, type Ranking } from "./ranking";
import { codePoints, needsCodePoints, quoted, type Piece } from "./text";

const LONGEST = 12;
const GAP = 6;
const EDGE = 8;

export class Tooltip {
  readonly element = make("div", "acs-tip");
  #anchor: HTMLElement | null = null;

  constructor() {
    this.element.id = freshId("tip");
    this.element.setAttribute("role", "tooltip");
    this.element.popover = "manual";
  }

  get anchor(): HTMLElement | null {
    return this.#anchor;
  }

  show(anchor: HTMLElement, content: Node, near?: { x: number; y: number }): void {
    if (this.#anchor !== anchor) this.hide();
    this.#anchor = anchor;
    this.element.replaceChildren(content);
    anchor.setAttribute("aria-describedby", this.element.id);
    if (!this.element.matches(":popover-open")) this.element.showPopover();
    this.#place(lineOf(anchor, near));
  }

  /** The anchor has moved. */
  follow(): void {
    if (this.#anchor !== null) this.#place(lineOf(this.#anchor));
  }

  hide(): void {
    this.#anchor?.removeAttribute("aria-describedby");
    this.#anchor = null;
    if (this.element.isConnected && this.element.matches(":popover-open")) this.element.hidePopover();
  }

  /** Under the token, above it where there is no room, and always inside the window. */
  #place(line: DOMRect): void {
    const { width, height } = this.element.getBoundingClientRect();
    const below = line.bottom + GAP;
    const fits = below + height <= innerHeight - EDGE || line.top < innerHeight - line.bottom;
    const top = fits ? below : line.top - GAP - height;
    const left = Math.min(line.left, innerWidth - EDGE - width);
    this.element.style.top = `${Math.max(EDGE, Math.min(top, innerHeight - EDGE - height))}px`;
    this.element.style.left = `${Math.max(EDGE, left)}px`;
  }
}

/** The box of the line the pointer is on, when a token runs over the end of a line. */
function lineOf(anchor: HTMLElement, near?: { x: number; y: number }): DOMRect {
  const boxes = Array.from(anchor.getClientRects()).filter((box) => box.width > 0);
  const under = near && boxes.find((box) => near.y >= box.top - 2 && near.y <= box.bottom + 2);
  return under ?? boxes[0] ?? anchor.getBoundingClientRect();
}

/** Everything known about the tokens of a piece. `asked`: alternatives the request asked for. */
export function describe(node: NodeState, piece: Piece, asked: number | null): Node {
  const content = document.createDocumentFragment();
  const several = piece.last > piece.first;
  if (several) content.append(make("p", "acs-tip-note", `${piece.last - piece.first + 1} tokens make this text`));
  for (let i = piece.first; i <= piece.last; i++) {
    content.append(section(node, i, i === piece.last ? piece.text : "", asked, several ? 4 : LONGEST));
  }
  return content;
}

/** What a screen reader says for a token. */
export function spoken(node: NodeState, piece: Piece): string {
  const logprob = node.logprobs[piece.last];
  const words = piece.text.trim() === "" || needsCodePoints(piece.text) ? names(piece.text) : piece.text.trim();
  return logprob === null || logprob === undefined ? words : `${words}, ${percent(logprob)}`;
}

function names(text: string): string {
  const name: Record<string, string> = { " ": "space", "\n": "newline", "\t": "tab" };
  const parts = Array.from(text, (c) => name[c] ?? codePoints(c));
  return parts.length > 3 && new Set(parts).size === 1 ? `${parts.length} × ${parts[0]}` : parts.join(" ");
}

function section(node: NodeState, index: number, text: string, asked: number | null, most: number): HTMLElement {
  const token = node.tokens[index] ?? "";
  const logprob = node.logprobs[index] ?? null;
  const whole = make("div", "acs-tip-token");
  const head = make("div", "acs-tip-head");
  head.append(make("span", "acs-tip-quote", quoted(token)));
  head.append(make("span", "acs-tip-figure", logprob === null ? "no probability" : percent(logprob)));
  whole.append(head);
  if (needsCodePoints(token)) whole.append(make("div", "acs-tip-note", codePoints(token)));
  if (text !== "" && text !== token) whole.append(make("div", "acs-tip-note", `cut to ${quoted(text)}`));
  if (logprob !== null || node.top[index]) whole.append(table(rank(token, logprob, node.top[index] ?? null, asked), most));
  return whole;
}

function table({ alternatives, other }: Ranking, most: number): HTMLElement {
  const grid = make("table", "acs-tip-table");
  const shown = alternatives.filter((one, place) => place < most || one.sampled);
  for (const one of shown) grid.append(row(one));
  const hidden = alternatives.filter((one) => !shown.includes(one));
  if (hidden.length > 0) {
    const mass = hidden.reduce((sum, one) => sum + Math.exp(one.logprob), 0);
    grid.append(line("acs-tip-rest", "", `${hidden.length} more`, Math.log(mass), ""));
  }
  if (other >= 0.00005) grid.append(line("acs-tip-rest", "", "other", Math.log(other), ""));
  return grid;
}

function row(one: Alternative): HTMLElement {
  const place = one.rank === null ? "…" : String(one.rank);
  const element = line(one.sampled ? "acs-tip-sampled" : "", place, quoted(one.token), one.logprob, one.logprob.toFixed(2));
  if (one.sampled) element.append(make("td", "acs-tip-mark", "sampled"));
  return element;
}

function line(name: string, place: string, text: string, logprob: number, shown: string): HTMLElement {
  const element = make("tr", name);
  const bar = make("td", "acs-tip-bar");
  bar.style.setProperty("--acs-share", String(Math.min(1, Math.exp(logprob))));
  element.append(
    make("td", "acs-tip-rank", place),
    make("td", "acs-tip-text", text),
    bar,
    make("td", "acs-tip-figure", percent(logprob)),
    make("td", "acs-tip-figure acs-tip-log", shown.replace("-", "−")),
  );
  return element;
}
