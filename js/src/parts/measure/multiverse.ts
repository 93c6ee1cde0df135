/**
 * A multiverse map: tokens from left to right, each as high as its path is likely; what was not returned is hatched.
 *
 * It is a tree: arrows go through the cells that are high enough to be drawn, Enter makes one of them the whole height
 * (its area is then the measure of all others), Backspace goes back.
 */
import { level } from "../colour";
import { make } from "../dom";
import { share, shown, type Cell } from "./told";

/** In CSS pixels: below it a cell is not drawn, and a text not written. */
const THINNEST = 3;
const LINE = 13;
const HIGH = 340;
const COLUMN = 112;
/** How strong a cell's tint is at each level: as in a text, plain is a likely token; `acs_jupyter/widgets/measures.py` has the same. */
const TINTS = [0, 0.06, 0.11, 0.17, 0.23, 0.29, 0.36, 0.44] as const;

interface Drawn {
  cell: Cell;
  element: HTMLElement;
}

export class MultiverseView {
  readonly element = make("div", "acs-m-map");
  #cells = new Map<number, Cell>();
  #order: readonly Cell[] = [];
  #drawn: Drawn[] = [];
  #zoom = 0;
  #current = 0;
  /** Cells inside what is shown that are too thin to be drawn. */
  thin = 0;

  /** `moved`: another cell is looked at, or from elsewhere. */
  constructor(readonly moved: () => void) {
    this.element.setAttribute("role", "tree");
    this.element.setAttribute("aria-label", "Multiverse map: what may follow");
    this.element.style.height = `${HIGH}px`;
    this.element.addEventListener("keydown", (event) => this.#pressed(event));
    this.element.addEventListener("click", (event) => this.#clicked(event, false));
    this.element.addEventListener("dblclick", (event) => this.#clicked(event, true));
  }

  /** The cell that is looked at; 0 is the node itself. */
  get current(): Cell | undefined {
    return this.#cells.get(this.#current);
  }

  get zoomed(): Cell | undefined {
    return this.#cells.get(this.#zoom);
  }

  put(cells: readonly Cell[], other: boolean): void {
    this.#order = cells;
    this.#cells = new Map(cells.map((cell) => [cell.cell, cell]));
    if (other || !this.#cells.has(this.#zoom)) this.#zoom = 0;
    if (other || !this.#cells.has(this.#current)) this.#current = 0;
    this.#draw();
  }

  zoomIn(): void {
    const cell = this.current;
    if (cell === undefined || cell.cell === this.#zoom) return;
    this.#zoom = cell.cell;
    this.#draw();
    this.focus();
  }

  zoomOut(): void {
    const before = this.#zoom;
    this.#zoom = this.zoomed?.parent ?? 0;
    if (before === this.#zoom) return;
    this.#current = before;
    this.#draw();
    this.focus();
  }

  focus(): void {
    (this.#drawn.find(({ cell }) => cell.cell === this.#current) ?? this.#drawn[0])?.element.focus();
  }

  #draw(): void {
    const root = this.zoomed;
    const had = this.element.contains(document.activeElement);
    this.element.replaceChildren();
    this.#drawn = [];
    this.thin = 0;
    if (root === undefined) return;
    const from = root.cell === 0 ? 1 : root.depth;
    for (const cell of this.#order) {
      if (!this.#inside(cell, root)) continue;
      const high = (cell.area / root.area) * HIGH;
      const top = ((cell.top - root.top) / root.area) * HIGH;
      if (cell.depth >= from) {
        if (high >= THINNEST) this.#drawCell(cell, cell.depth - from, top, high);
        else this.thin += 1;
      }
      const rest = ((cell.rest ?? 0) / root.area) * HIGH;
      if (rest >= 1 && high >= THINNEST) this.#drawRest(cell, cell.depth + 1 - from, top + high - rest, rest);
    }
    if (!this.#drawn.some(({ cell }) => cell.cell === this.#current)) this.#current = this.#drawn[0]?.cell.cell ?? 0;
    this.#mark();
    if (had) this.focus();
  }

  #inside(cell: Cell, root: Cell): boolean {
    let step: Cell | undefined = cell;
    while (step !== undefined && step.depth > root.depth) step = step.parent === null ? undefined : this.#cells.get(step.parent);
    return step?.cell === root.cell;
  }

  #drawCell(cell: Cell, column: number, top: number, high: number): void {
    const element = make("div", `acs-m-cell acs-m-${cell.kind}`, high >= LINE ? shown(cell.token) : "");
    element.setAttribute("role", "treeitem");
    element.setAttribute("aria-level", String(cell.depth));
    element.setAttribute("aria-label", words(cell));
    element.title = words(cell);
    element.dataset["cell"] = String(cell.cell);
    element.style.setProperty("--acs-m-p", String(TINTS[level(Math.log(cell.p)) ?? 0]));
    place(element, column, top, high);
    this.#drawn.push({ cell, element });
    this.element.append(element);
  }

  #drawRest(cell: Cell, column: number, top: number, high: number): void {
    const element = make("div", "acs-m-rest", high >= LINE ? share(cell.rest) : "");
    element.ariaHidden = "true"; // the cell itself says it
    element.title = `not returned behind “${shown(cell.text)}”: ${share(cell.rest)}`;
    place(element, column, top, high);
    this.element.append(element);
  }

  #mark(): void {
    for (const { cell, element } of this.#drawn) {
      const here = cell.cell === this.#current;
      element.tabIndex = here ? 0 : -1;
      element.ariaSelected = String(here);
    }
    this.moved();
  }

  #go(cell: Cell | undefined): void {
    if (cell === undefined) return;
    this.#current = cell.cell;
    this.#mark();
    this.focus();
  }

  #clicked(event: Event, twice: boolean): void {
    const found = event.target instanceof Element ? event.target.closest<HTMLElement>("[data-cell]") : null;
    if (found === null) return;
    this.#go(this.#cells.get(Number(found.dataset["cell"])));
    if (twice) this.zoomIn();
  }

  #pressed(event: KeyboardEvent): void {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const { current } = this;
    const drawn = this.#drawn.map(({ cell }) => cell);
    const beside = drawn.filter(({ depth }) => depth === current?.depth);
    const at = beside.findIndex(({ cell }) => cell === current?.cell);
    const go: Record<string, () => void> = {
      ArrowDown: () => this.#go(beside[at + 1]),
      ArrowUp: () => this.#go(beside[at - 1]),
      ArrowRight: () => this.#go(drawn.find(({ parent }) => parent === current?.cell)),
      ArrowLeft: () => this.#go(drawn.find(({ cell }) => cell === current?.parent)),
      Home: () => this.#go(drawn[0]),
      End: () => this.#go(drawn.at(-1)),
      Enter: () => this.zoomIn(),
      Backspace: () => this.zoomOut(),
    };
    const act = go[event.key];
    if (act === undefined) return;
    act();
    event.preventDefault();
    event.stopPropagation();
  }
}

function place(element: HTMLElement, column: number, top: number, high: number): void {
  element.style.left = `${column * COLUMN}px`;
  element.style.width = `${COLUMN - 1}px`;
  element.style.top = `${top}px`;
  element.style.height = `${Math.max(1, high - 1)}px`;
}

/** A cell for people. */
export function words(cell: Cell): string {
  const kind = { open: "nothing was asked behind it", end: "the text is over there", piece: "a piece of a character", expanded: `${share(cell.rest)} not returned behind it` }[cell.kind];
  return `“${shown(cell.text)}”: ${share(cell.area)}; this token ${share(cell.p)}; ${kind}`;
}
