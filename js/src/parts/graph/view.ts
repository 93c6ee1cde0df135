/**
 * The tree as a graph: it pans and zooms, the cursor is the loom's, and a minimap in its corner shows the whole.
 *
 * A screen reader has the tree beside it. The drawing itself is hidden from it; the box around it takes the focus, is
 * described by the words of the current node's row, and says them when a key moves.
 */
import { freshId, make } from "../dom";
import type { Row } from "../loomoutline";
import { Camera } from "./camera";
import { brushOf, inkOf, tint, watchTheme, type Ink } from "./ink";
import { Minimap, type Mark } from "./minimap";
import { boxOf, inView, paint, type Face } from "./paint";
import { beside, placesOf, type Places } from "./places";

/** What the graph needs of its loom. */
export interface Graphed {
  faceOf(id: string): Face;
  /** The colour of a node that stands out, `null` of another. */
  stress(id: string, ink: Ink): string | null;
  /** A node in words, as its row is told. */
  wordsOf(id: string): string;
  go(id: string): void;
  /** Fold a node, or unfold it. */
  twist(id: string): void;
}

const STEP = 1.3;
/** A pointer that moved less has clicked. */
const STILL_PX = 4;

export class GraphView {
  readonly element = make("div", "acs-graph");
  readonly camera = new Camera();
  readonly #canvas = make("canvas", "acs-graph-sheet");
  readonly #words = make("span", "acs-hidden");
  readonly #said = make("span", "acs-hidden");
  readonly #minimap: Minimap;
  #places: Places = placesOf([]);
  #current: string | null = null;
  #ink: Ink | null = null;
  #frame = 0;
  #fresh = true;

  constructor(
    readonly loom: Graphed,
    readonly signal: AbortSignal,
  ) {
    this.element.hidden = true;
    this.element.tabIndex = 0;
    this.element.setAttribute("role", "application");
    this.element.setAttribute("aria-roledescription", "graph");
    this.element.setAttribute("aria-label", "Graph of the tree: arrows move along it, plus and minus zoom, 0 shows all of it");
    this.#words.id = freshId("node");
    this.element.setAttribute("aria-describedby", this.#words.id);
    this.#said.setAttribute("role", "status");
    this.#canvas.ariaHidden = "true";
    this.#minimap = new Minimap(() => this.#marks(), (right, down) => this.#centre(right, down), signal);
    this.element.append(this.#canvas, this.#minimap.element, this.#buttons(), this.#words, this.#said);
    this.#listen();
  }

  get shown(): boolean {
    return !this.element.hidden;
  }

  /** Show it, or put it away; says whether it is shown now. */
  toggle(): boolean {
    this.element.hidden = !this.element.hidden;
    if (this.shown) this.#resize();
    return this.shown;
  }

  /** Other rows. */
  put(rows: readonly Row[]): void {
    this.#places = placesOf(rows);
    this.camera.depths = this.#places.depths;
    this.camera.slots = this.#places.slots;
    if (!this.shown) return;
    this.#minimap.soon();
    this.draw();
  }

  /** The cursor is there now. */
  go(id: string | null): void {
    this.#current = id;
    if (!this.shown) return;
    const here = this.#here;
    if (here !== undefined) this.camera.show(here.depth, here.y);
    const words = id === null ? "" : this.loom.wordsOf(id);
    this.#words.textContent = words;
    if (document.activeElement === this.element && this.#said.textContent !== words) this.#said.textContent = words;
    this.#minimap.soon();
    this.draw();
  }

  /** Draw in the next frame. */
  draw(): void {
    if (this.shown) this.#frame ||= requestAnimationFrame(() => this.#paint());
  }

  /** What has come is drawn, the minimap in its time. */
  update(): void {
    if (!this.shown) return;
    this.draw();
    this.#minimap.soon();
  }

  /** Nearer (1), further away (-1), or all of it (0). */
  zoom(by: 1 | 0 | -1): void {
    if (by === 0) this.camera.fit();
    else {
      const here = this.#here;
      const inside = here !== undefined && this.camera.top(here.y) > 0 && this.camera.top(here.y) < this.camera.height;
      const [left, top] = here !== undefined && inside ? [this.camera.left(here.depth), this.camera.top(here.y)] : [undefined, undefined];
      this.camera.zoom(STEP ** by, left, top);
    }
    this.draw();
  }

  /** The node of the same depth before or after the cursor. */
  beside(by: 1 | -1): string | undefined {
    const place = this.#current === null ? undefined : this.#places.of.get(this.#current);
    return place === undefined ? undefined : beside(this.#places, place, by);
  }

  get #here() {
    const place = this.#current === null ? undefined : this.#places.of.get(this.#current);
    return place === undefined ? undefined : this.#places.all[place];
  }

  #paint(): void {
    this.#frame = 0;
    const brush = brushOf(this.#canvas);
    if (brush === null) return;
    const { camera } = this;
    if (this.#fresh) this.#begin();
    const path = new Set<number>();
    let step = this.#current === null ? -1 : (this.#places.of.get(this.#current) ?? -1);
    for (; step >= 0; step = this.#places.all[step]?.parent ?? -1) path.add(step);
    const ink = (this.#ink ??= inkOf(this.element));
    const drawn = paint(brush, { places: this.#places, camera, ink, faceOf: (id) => this.loom.faceOf(id), path });
    this.element.dataset["drawn"] = String(drawn);
    this.element.dataset["scale"] = camera.scale.toFixed(3);
    const [across, down] = [camera.width / camera.column, camera.height / camera.slot];
    this.#minimap.see(camera.x / camera.depths, (camera.x + across) / camera.depths, camera.y / camera.slots, (camera.y + down) / camera.slots);
    this.#minimap.element.hidden = camera.depths <= across && camera.slots <= down;
  }

  /** At first a small tree is seen whole, of a large one what is around the cursor. */
  #begin(): void {
    this.#fresh = false;
    const { camera } = this;
    camera.scale = Math.max(camera.farthest, Math.min(1, 0.75));
    if (camera.farthest > camera.scale) camera.fit();
    const here = this.#here;
    if (here !== undefined) camera.show(here.depth, here.y);
    this.#minimap.draw();
  }

  #resize(): void {
    const { clientWidth, clientHeight } = this.#canvas;
    if (clientWidth === 0) return;
    Object.assign(this.camera, { width: clientWidth, height: clientHeight });
    this.camera.pan(0, 0);
    this.go(this.#current);
  }

  *#marks(): Iterable<Mark> {
    const { all, depths, slots } = this.#places;
    const ink = (this.#ink ??= inkOf(this.element));
    const lines = this.#minimap.element.clientHeight || 1;
    const drawn = new Set<number>();
    for (const { id, depth, y } of all) {
      const stress = this.loom.stress(id, ink);
      const spot = Math.floor((y / slots) * lines) * depths + depth;
      if (stress === null && drawn.has(spot)) continue;
      drawn.add(spot);
      const level = stress === null ? this.loom.faceOf(id).level : null;
      const colour = stress ?? (level === null ? ink.line : tint(ink, Math.max(2, level)));
      yield { left: depth / depths, right: (depth + 0.8) / depths, top: (y - 0.4) / slots, bottom: (y + 0.4) / slots, colour, above: stress !== null };
    }
  }

  #centre(right: number, down: number): void {
    const { camera } = this;
    camera.x = right * camera.depths - camera.width / camera.column / 2;
    camera.y = down * camera.slots - camera.height / camera.slot / 2;
    camera.pan(0, 0);
    this.draw();
  }

  #buttons(): HTMLElement {
    const box = make("div", "acs-graph-tools");
    for (const [words, about, by] of [["+", "Nearer (+)", 1], ["−", "Further away (−)", -1], ["⤢", "All of it (0)", 0]] as const) {
      const button = make("button", "acs-quiet acs-act", words);
      button.tabIndex = -1; // the keys do it
      button.title = about;
      button.setAttribute("aria-label", about);
      button.addEventListener("click", () => this.zoom(by));
      box.append(button);
    }
    return box;
  }

  #listen(): void {
    const { element, signal } = this;
    const sheet = this.#canvas;
    const sized = new ResizeObserver(() => this.#resize());
    sized.observe(sheet);
    watchTheme(() => {
      this.#ink = null;
      this.update();
    }, signal);
    signal.addEventListener("abort", () => {
      sized.disconnect();
      cancelAnimationFrame(this.#frame);
    });
    let [x, y, moved] = [0, 0, 0];
    sheet.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      sheet.setPointerCapture(event.pointerId);
      [x, y, moved] = [event.clientX, event.clientY, 0];
      element.focus({ preventScroll: true });
    }, { signal });
    sheet.addEventListener("pointermove", (event) => {
      if (!sheet.hasPointerCapture(event.pointerId)) return;
      const [right, down] = [x - event.clientX, y - event.clientY];
      moved += Math.abs(right) + Math.abs(down);
      [x, y] = [event.clientX, event.clientY];
      if (moved < STILL_PX) return;
      this.camera.pan(right, down);
      this.draw();
    }, { signal });
    sheet.addEventListener("click", (event) => {
      const id = moved < STILL_PX ? this.#at(event.offsetX, event.offsetY) : undefined;
      if (id !== undefined) this.loom.go(id);
    }, { signal });
    sheet.addEventListener("dblclick", (event) => {
      const id = this.#at(event.offsetX, event.offsetY);
      if (id !== undefined) this.loom.twist(id);
    }, { signal });
    sheet.addEventListener("wheel", (event) => this.#wheel(event), { signal, passive: false });
  }

  /** A pinch or Ctrl zooms at the pointer; a wheel alone scrolls the page until the graph has the focus. */
  #wheel(event: WheelEvent): void {
    if (event.ctrlKey || event.metaKey) this.camera.zoom(Math.exp(-event.deltaY / 300), event.offsetX, event.offsetY);
    else if (this.element.contains(document.activeElement)) this.camera.pan(event.shiftKey ? event.deltaY : event.deltaX, event.shiftKey ? 0 : event.deltaY);
    else return;
    event.preventDefault();
    this.draw();
  }

  /** The node at a pixel. */
  #at(right: number, down: number): string | undefined {
    const { camera } = this;
    const { single, whole } = inView(this.#places, camera);
    const places = [...single, ...whole].flatMap((place) => this.#places.all[place] ?? []);
    const hit = places.find((place) => {
      const [left, top, width, height] = boxOf(camera, place);
      const slack = Math.max(0, (Math.min(camera.slot, 8) - height) / 2);
      return right >= left - 2 && right <= left + width + 2 && down >= top - slack && down <= top + height + slack;
    });
    return hit?.id;
  }
}
