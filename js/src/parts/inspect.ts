/**
 * Looking at tokens with the pointer and with the keyboard: one tab stop a text, arrows from token to token.
 *
 * No key leaves the widget, but for those that `shortcuts.ts` lets pass.
 */
import { spoken } from "./description";
import { keepKeys, passes } from "./shortcuts";
import type { Tooltip } from "./tooltip";
import type { NodeState } from "../state";
import type { Piece } from "./text";

export interface Looked {
  node: NodeState;
  piece: Piece;
  /** Whether the continuations part here. */
  parts: boolean;
  /** All token elements of the text, in order. */
  tokens: readonly HTMLElement[];
}

export interface Inspection {
  look(element: HTMLElement): Looked | undefined;
  /** What to show; pinned, with `done`, which closes it and goes back to the token. */
  describe(looked: Looked, done: (() => void) | null): Node;
  /** A token was focused or pinned. */
  chosen(element: HTMLElement, looked: Looked): void;
}

/** Wires a container of token texts to a tooltip; the signal ends it. */
export function inspect(root: HTMLElement, tip: Tooltip, inspection: Inspection, signal: AbortSignal): void {
  let pinned = false;
  // A page that scrolls under a resting pointer sends pointer events too; they must not take the tooltip
  // from whoever walks with the keys.
  let keys = false;
  // A tooltip was closed: neither the focus that goes back to its token nor the pointer that rests opens one.
  let closing = false;
  let quiet = false;
  let rest = { x: NaN, y: NaN };
  const stops = new WeakMap<readonly HTMLElement[], HTMLElement>();

  const show = (element: HTMLElement, near?: { x: number; y: number }) => {
    const looked = inspection.look(element);
    if (looked !== undefined) tip.show(element, inspection.describe(looked, null), near);
  };

  const release = () => {
    pinned = false;
    tip.hide();
  };

  const pin = (element: HTMLElement) => {
    const looked = inspection.look(element);
    if (looked === undefined) return;
    tip.show(element, inspection.describe(looked, () => goBack(true)));
    pinned = true;
    tip.pin(`Alternatives of ${spoken(looked.node, looked.piece)}`);
    inspection.chosen(element, looked);
  };

  /** Close what is pinned and go back to its token, on which no tooltip opens then (`quietly`). */
  const goBack = (quietly: boolean) => {
    const { anchor } = tip;
    closing = quiet = quietly;
    anchor?.focus();
    closing = false;
    if (quietly) release();
  };

  /** Make an element the one tab stop of its text. */
  const stopAt = (element: HTMLElement, { tokens, node, piece }: Looked) => {
    const before = stops.get(tokens) ?? tokens[0];
    if (before !== undefined && before !== element) leave(before);
    stops.set(tokens, element);
    element.tabIndex = 0;
    element.setAttribute("role", "button");
    element.setAttribute("aria-label", spoken(node, piece));
  };

  const on = <K extends keyof HTMLElementEventMap>(type: K, act: (event: HTMLElementEventMap[K]) => void) =>
    root.addEventListener(type, act, { signal });

  const moved = ({ screenX: x, screenY: y }: PointerEvent) => {
    if (x !== rest.x || y !== rest.y) keys = quiet = false;
    rest = { x, y };
  };

  keepKeys(root, signal);
  on("pointermove", moved);
  on("pointerover", (event) => {
    moved(event);
    if (pinned || keys || quiet) return;
    const element = tokenAt(event.target);
    if (element !== null) show(element, event);
    else tip.hide();
  });
  on("pointerleave", () => {
    if (!pinned && !keys) tip.hide();
  });
  on("click", (event) => {
    if (event.target instanceof Node && tip.element.contains(event.target)) return;
    const element = tokenAt(event.target);
    const selecting = getSelection()?.isCollapsed === false;
    if (element === null || selecting || (pinned && tip.anchor === element)) return release();
    release();
    pin(element);
  });
  on("focusin", (event) => {
    const element = tokenAt(event.target);
    const looked = element === null ? undefined : inspection.look(element);
    if (element === null || looked === undefined) return;
    stopAt(element, looked);
    if (!pinned) inspection.chosen(element, looked);
    keys = !closing && element.matches(":focus-visible");
    if (keys && !(pinned && tip.anchor === element)) show(element);
  });
  on("focusout", ({ relatedTarget }) => {
    if (relatedTarget instanceof Node && tip.element.contains(relatedTarget)) return;
    keys = false;
    release();
  });
  tip.element.addEventListener(
    "keydown",
    (event) => {
      const { stops } = tip;
      const at = stops.findIndex((one) => one === document.activeElement);
      const step = { ArrowDown: 1, ArrowUp: -1, Tab: event.shiftKey ? -1 : 1 }[event.key];
      const next = step === undefined ? undefined : stops[at + step];
      if (!passes(event)) event.stopPropagation();
      if (event.key === "Escape") goBack(true);
      else if (next !== undefined && at + (step ?? 0) >= 0) next.focus();
      else if (event.key === "Tab") {
        goBack(false); // the key goes on from there by itself, with Shift it stays there
        if (!event.shiftKey) return;
      } else if (step === undefined) return;
      event.preventDefault();
    },
    { signal },
  );
  on("keydown", (event) => {
    const element = tokenAt(event.target);
    const looked = element === null ? undefined : inspection.look(element);
    if (element === null || looked === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    const { tokens } = looked;
    const at = tokens.indexOf(element);
    quiet = event.key === "Escape";
    if (quiet) release();
    else if (event.key === "Enter" || event.key === " ") pinned ? release() : pin(element);
    else if (event.key === "Tab" && !event.shiftKey && pinned) (tip.stops[0] ?? tip.element).focus();
    else if (event.key in steps) steps[event.key]?.(tokens, at)?.focus();
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  on("copy", (event) => {
    const exact = selectedText(root);
    if (exact === "" || event.clipboardData === null) return;
    event.clipboardData.setData("text/plain", exact);
    event.preventDefault();
    event.stopPropagation();
  });
  const onScroll = () => {
    if (tip.anchor === null) return;
    const box = tip.anchor.getBoundingClientRect();
    const around = tip.anchor.closest(".acs-text")?.getBoundingClientRect() ?? box;
    const [top, bottom] = [Math.max(0, around.top), Math.min(innerHeight, around.bottom)];
    if (box.bottom > top && box.top < bottom) tip.follow();
    else release();
  };
  addEventListener("scroll", onScroll, { signal, capture: true, passive: true });
}

/** What the keys that move lead to. */
export const steps: Record<string, (tokens: readonly HTMLElement[], at: number) => HTMLElement | undefined> = {
  ArrowRight: (tokens, at) => tokens[at + 1],
  ArrowLeft: (tokens, at) => tokens[at - 1],
  ArrowDown: (tokens, at) => onLine(tokens, at, 1),
  ArrowUp: (tokens, at) => onLine(tokens, at, -1),
  Home: (tokens) => tokens[0],
  End: (tokens) => tokens.at(-1),
};

function leave(element: HTMLElement): void {
  element.tabIndex = -1;
  element.removeAttribute("role");
  element.removeAttribute("aria-label");
}

export function tokenAt(target: EventTarget | null): HTMLElement | null {
  return target instanceof Element ? target.closest<HTMLElement>(".acs-t") : null;
}

/** The token nearest to this one's middle on the next line down (`step` 1) or up (-1). */
function onLine(tokens: readonly HTMLElement[], at: number, step: 1 | -1): HTMLElement | undefined {
  const from = tokens[at]?.getClientRects()[0];
  if (from === undefined) return undefined;
  const middle = from.left + from.width / 2;
  let best: HTMLElement | undefined;
  let distance = Infinity;
  let line: number | null = null;
  for (let i = at + step; i >= 0 && i < tokens.length; i += step) {
    const box = tokens[i]?.getClientRects()[0];
    if (box === undefined || (box.top - from.top) * step < from.height / 2) continue;
    if (line !== null && Math.abs(box.top - line) > from.height / 2) break;
    line = box.top;
    const off = Math.abs(box.left + box.width / 2 - middle);
    if (off < distance) [best, distance] = [tokens[i], off];
  }
  return best;
}

/** The selected part of the texts, to the byte: blocks and marks add nothing. */
function selectedText(root: HTMLElement): string {
  const selection = getSelection();
  if (selection === null || selection.isCollapsed || selection.rangeCount === 0) return "";
  const range = selection.getRangeAt(0).cloneRange();
  const { startContainer: start } = range;
  const text = (start instanceof Element ? start : start.parentElement)?.closest(".acs-text") ?? null;
  if (text === null || !root.contains(text)) return "";
  if (!text.contains(range.endContainer)) {
    // Three clicks select to the beginning of what comes next, which is none of the text.
    const beyond = range.cloneRange();
    beyond.setStartAfter(text);
    if (beyond.toString() !== "") return "";
    range.setEnd(text, text.childNodes.length);
  }
  return range.cloneContents().textContent ?? "";
}
