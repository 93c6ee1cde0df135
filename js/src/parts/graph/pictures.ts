/**
 * A loom's tree drawn: the minimap beside its rows, and the graph. One cursor, the same looks as the rows.
 */
import { gistOf } from "../../outline";
import { isSampled, markOf } from "../../revise";
import type { State } from "../../state";
import { level } from "../colour";
import { alive, isBusy, type Row } from "../loomoutline";
import { faceOf, spokenRow, type Looks } from "../loomrow";
import type { TreeView } from "../loomtree";
import { inkOf, tint, watchTheme, type Ink } from "./ink";
import { Minimap, type Mark } from "./minimap";
import type { Face } from "./paint";
import { GraphView } from "./view";

/** What the pictures need of their loom. */
export interface Pictured {
  readonly state: State;
  readonly current: string | null;
  looksOf(id: string): Omit<Looks, "current">;
  go(id: string): void;
  isFolded(id: string): boolean;
  fold(id: string, folded: boolean): void;
}

/** Further right nothing moves, as in the rows. */
const MOST_INDENT = 14;
/** Rows that are as high as this in the minimap stand apart. */
const APART_PX = 4;
const UNREAD = "rgba(128, 128, 128, 0.55)";

export class Pictures {
  readonly graph: GraphView;
  readonly strip: Minimap;

  constructor(
    readonly loom: Pictured,
    readonly tree: TreeView,
    signal: AbortSignal,
  ) {
    const twist = (id: string) => {
      loom.go(id);
      loom.fold(id, !loom.isFolded(id));
    };
    this.graph = new GraphView(
      { faceOf: (id) => this.#faceOf(id), stress: (id, ink) => this.#stress(id, ink), wordsOf: (id) => this.#wordsOf(id), go: (id) => loom.go(id), twist },
      signal,
    );
    this.strip = new Minimap(() => this.#marks(), (_, down) => tree.scrollTo(down), signal);
    tree.element.addEventListener("scroll", () => this.#see(), { signal, passive: true });
    watchTheme(() => this.strip.soon(), signal);
  }

  /** Other rows. */
  put(): void {
    this.graph.put(this.tree.rows);
    this.strip.soon();
    this.#see();
  }

  /** The cursor moved. */
  go(id: string | null): void {
    this.graph.go(id);
    this.strip.soon();
    this.#see();
  }

  /** Something came, or looks otherwise. */
  update(): void {
    this.graph.update();
    this.strip.soon();
  }

  #see(): void {
    const [top, bottom] = this.tree.seen;
    this.strip.see(0, 1, top, bottom);
    this.strip.element.hidden = top <= 0 && bottom >= 1;
  }

  *#marks(): Iterable<Mark> {
    const { rows } = this.tree;
    const ink = inkOf(this.tree.element);
    const height = 1 / Math.max(1, rows.length);
    const lines = this.strip.element.clientHeight || 1;
    const gap = height * lines >= APART_PX ? height / 4 : 0;
    let drawn = -1;
    for (let place = 0; place < rows.length; place++) {
      const { id, indent } = rows[place] as Row;
      const [top, bottom] = [place * height, (place + 1) * height - gap];
      const colour = this.#stress(id, ink);
      if (colour !== null) yield { left: 0, right: 1, top, bottom, colour, above: true };
      // Of the rows on one line of pixels the first is drawn.
      const line = Math.floor(top * lines);
      if (colour !== null || line === drawn) continue;
      drawn = line;
      const face = this.#faceOf(id);
      const left = Math.min(indent, MOST_INDENT) / (MOST_INDENT + 4);
      yield { left, right: 1, top, bottom, colour: face.unread ? UNREAD : tint(ink, Math.max(1, face.level ?? 0)), above: false };
    }
  }

  /** The colour of what stands out, `null` of what does not. */
  #stress(id: string, ink: Ink): string | null {
    if (this.loom.current === id) return ink.focus;
    const { lit, found } = this.loom.looksOf(id);
    return lit || found ? `rgb(${ink.hue})` : null;
  }

  #faceOf(id: string): Face {
    const { state } = this.loom;
    const node = state.nodes[id];
    const looks = this.loom.looksOf(id);
    const current = this.loom.current === id;
    if (node === undefined) return { text: () => "", level: null, current, ...looks, unread: false, busy: false, marked: false, written: false };
    const open = isBusy(state, id);
    const mean = open ? null : gistOf(state, node).mean;
    return {
      text: () => {
        const { text, empty } = faceOf(state, node);
        return text === "" ? empty : text;
      },
      level: mean === null ? null : level(mean),
      current,
      ...looks,
      unread: markOf(state, id, "unread") === true,
      busy: open,
      marked: markOf(state, id, "bookmark") === true,
      written: !isSampled(state, node),
    };
  }

  #wordsOf(id: string): string {
    const { state } = this.loom;
    const node = state.nodes[id];
    if (node === undefined) return "";
    const row = { children: alive(state, id).length };
    return spokenRow(faceOf(state, node), row, { ...this.loom.looksOf(id), current: true });
  }
}
