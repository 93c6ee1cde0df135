/**
 * The tooltip: what the model almost said. A popover, since anything else is clipped or displaced in a notebook.
 */
import { freshId, make } from "./dom";

const GAP = 6;
const EDGE = 8;

export class Tooltip {
  readonly element = make("div", "acs-tip");
  #anchor: HTMLElement | null = null;

  constructor() {
    this.element.id = freshId("tip");
    this.element.setAttribute("role", "tooltip");
    this.element.popover = "manual";
    this.element.tabIndex = -1; // pinned, it can be clicked into and its text selected
  }

  get anchor(): HTMLElement | null {
    return this.#anchor;
  }

  /** What the keys can go to in it. */
  get stops(): HTMLElement[] {
    return [...this.element.querySelectorAll<HTMLElement>("button, input")];
  }

  show(anchor: HTMLElement, content: Node, near?: { x: number; y: number }): void {
    if (this.#anchor !== anchor) this.hide();
    this.#anchor = anchor;
    this.element.replaceChildren(content);
    anchor.setAttribute("aria-describedby", this.element.id);
    if (!this.element.matches(":popover-open")) this.element.showPopover();
    this.#place(lineOf(anchor, near));
  }

  /** Keep it open. To a reader it becomes a place to go to, and its token a button that is pressed. */
  pin(name: string): void {
    this.#anchor?.setAttribute("aria-pressed", "true");
    this.#anchor?.removeAttribute("aria-describedby");
    this.element.classList.add("acs-pinned");
    this.element.setAttribute("role", "dialog");
    this.element.setAttribute("aria-label", name);
  }

  /** The anchor has moved. */
  follow(): void {
    if (this.#anchor !== null) this.#place(lineOf(this.#anchor));
  }

  hide(): void {
    this.#anchor?.removeAttribute("aria-describedby");
    this.#anchor?.removeAttribute("aria-pressed");
    this.#anchor = null;
    this.element.classList.remove("acs-pinned");
    this.element.setAttribute("role", "tooltip");
    this.element.removeAttribute("aria-label");
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
