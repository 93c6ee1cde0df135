/**
 * Rows that are moved by dragging: onto another row, below its node; between two rows, beside them.
 *
 * It must not know what a move does, nor who may not be moved: the kernel says that.
 */
import type { State } from "../state";
import { alive, isBusy, pathTo } from "./loomoutline";

/** Where a dragged node goes: below `parent`, before the sibling `before`, or behind all. */
export interface Drop {
  node: string;
  parent: string | null;
  before?: string;
}

type Edge = "before" | "in" | "after";

/** So much of a row's height, above and below, is the place between two rows. */
const EDGE = 0.28;

/** Where a row that is dropped goes; `null` where it cannot be: into itself, or where it stands already. */
export function dropOf(state: State, node: string, over: string, edge: Edge): Drop | null {
  if (pathTo(state, over).includes(node)) return null;
  if (edge === "in") return { node, parent: over };
  const parent = state.nodes[over]?.parent ?? null;
  const siblings = alive(state, parent);
  const at = siblings.indexOf(over) + (edge === "after" ? 1 : 0);
  const before = siblings[at];
  if (before === node || siblings[at - 1] === node) return null;
  return before === undefined ? { node, parent } : { node, parent, before };
}

/** Whether something still comes at a node or below it. */
export function growsBelow(state: State, node: string): boolean {
  const waiting = [node];
  for (let id = waiting.pop(); id !== undefined; id = waiting.pop()) {
    if (isBusy(state, id)) return true;
    waiting.push(...alive(state, id));
  }
  return false;
}

/** `can`: whether a node may be moved now; `done`: it was dropped. */
export function dragRows(rows: HTMLElement, now: () => State, can: (node: string) => boolean, done: (drop: Drop) => void, signal: AbortSignal): void {
  let dragged: string | null = null;
  let marked: HTMLElement | null = null;
  const rowOf = (event: DragEvent) => (event.target instanceof Element ? event.target.closest<HTMLElement>(".acs-loom-row") : null);
  const mark = (row: HTMLElement | null, edge?: Edge) => {
    if (marked !== row) marked?.removeAttribute("data-drop");
    marked = row;
    if (row !== null && edge !== undefined) row.dataset["drop"] = edge;
  };
  const placeOf = (event: DragEvent): [HTMLElement, Edge, Drop] | null => {
    const row = rowOf(event);
    const over = row?.dataset["node"];
    if (dragged === null || row === null || over === undefined) return null;
    const { top, height } = row.getBoundingClientRect();
    const share = (event.clientY - top) / height;
    const edge = share < EDGE ? "before" : share > 1 - EDGE ? "after" : "in";
    const drop = dropOf(now(), dragged, over, edge);
    return drop === null ? null : [row, edge, drop];
  };
  const end = () => {
    mark(null);
    dragged = null;
  };
  const listen = (type: "dragstart" | "dragover" | "drop" | "dragend" | "dragleave", heard: (event: DragEvent) => void) =>
    rows.addEventListener(type, (event) => {
      event.stopPropagation(); // nothing of it is the notebook's
      heard(event);
    }, { signal });
  listen("dragstart", (event) => {
    const node = rowOf(event)?.dataset["node"];
    if (node === undefined || !can(node)) return event.preventDefault();
    dragged = node;
    event.dataTransfer?.setData("text/plain", ""); // without any data some browsers do not begin
    if (event.dataTransfer !== null) event.dataTransfer.effectAllowed = "move";
  });
  listen("dragover", (event) => {
    const place = placeOf(event);
    mark(place?.[0] ?? null, place?.[1]);
    if (place !== null) event.preventDefault();
  });
  listen("drop", (event) => {
    const place = placeOf(event);
    if (dragged !== null) event.preventDefault();
    end();
    if (place !== null) done(place[2]);
  });
  listen("dragleave", (event) => {
    if (!(event.relatedTarget instanceof Node) || !rows.contains(event.relatedTarget)) mark(null);
  });
  listen("dragend", end);
}
