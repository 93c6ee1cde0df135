/**
 * An original and its branches side by side, and the bar that finds one among many.
 *
 * The columns stand in one row that scrolls; the original stays at its left edge, so that any branch can be read
 * beside it. A branch stands behind the text it left: among the columns of a run that has several. What is put away
 * is hidden here and nowhere else.
 */
import type { RunState, State } from "../state";
import { make, say } from "./dom";
import { branchName, leavingWords, sourceName } from "./road";
import type { RunView } from "./run";
import { outcomeWords } from "./status";
import { excerpt } from "./text";

/** Pixels between columns (as in the stylesheet), and the least that a column should have. */
const GAP = 10;
const READABLE = 360;
/** Pixels of a column's height that should be seen, behind toolbars too. */
const SEEN = 150;
/** Characters of a branch's own text in its button's title, and on its button where another says the same. */
const FIRST_WORDS = 120;
const TWIN = 18;

export class Family {
  readonly element = make("section", "acs-family");
  readonly #bar = make("nav", "acs-bar");
  readonly #row = make("div", "acs-row");
  readonly #views = new Map<string, RunView>();
  readonly #chips = new Map<string, HTMLButtonElement>();

  constructor(signal: AbortSignal) {
    const sized = new ResizeObserver(() => this.#fit());
    sized.observe(this.#row);
    signal.addEventListener("abort", () => sized.disconnect());
    this.#bar.setAttribute("aria-label", "Branches");
    this.#bar.hidden = true;
    this.element.append(this.#bar, this.#row);
  }

  /** Put a run in its place; `fresh`: it has just been opened, and its reader wants to see it. */
  add(state: State, view: RunView, fresh: boolean): void {
    const { id } = view;
    const line = this.#line;
    const from = state.nodes[state.runs[id]?.nodes[0] ?? ""]?.origin?.node;
    const before = [...line.children].filter((one) => comesFrom(state, one as HTMLElement, from)).at(-1);
    if (before === undefined) line.append(view.element);
    else before.after(view.element);
    view.element.dataset["run"] = id;
    this.#views.set(id, view);
    const chip = make("button", "acs-quiet acs-chip");
    chip.addEventListener("click", () => this.show(id));
    this.#chips.set(id, chip);
    this.#bar.append(chip);
    const branched = this.#views.size > 1;
    this.#bar.hidden = !branched;
    this.element.classList.toggle("acs-branched", branched);
    if (branched) for (const one of this.#views.values()) one.beside();
    // Whoever writes in a box here is not taken elsewhere.
    if (fresh && branched && this.element.querySelector(".acs-edit :focus") === null) this.#see(id);
  }

  /** Go to a run's button in the bar. */
  focus(id: string): void {
    this.show(id);
    this.#chips.get(id)?.focus({ preventScroll: true });
  }

  /** Say how each stands. */
  update(state: State): void {
    const ways = new Map([...this.#chips.keys()].map((id) => [id, leavingWords(state, id)]));
    const all = [...ways.values()];
    for (const [id, chip] of this.#chips) {
      const run = state.runs[id];
      const words = ways.get(id) ?? "";
      if (run === undefined) continue;
      const own = ownText(state, run);
      const hidden = this.#views.get(id)?.element.hidden === true;
      const said = `${run.outcome} ${hidden} ${own.length} ${all.length}`;
      if (chip.dataset["said"] === said) continue;
      chip.dataset["said"] = said;
      chip.toggleAttribute("data-away", hidden);
      // Branches that left alike are told apart by what the model wrote then.
      const twin = own !== "" && all.indexOf(words) !== all.lastIndexOf(words);
      const way = twin ? `${words}: ${excerpt(own.trimStart(), TWIN)}` : words;
      const name = words === "" ? branchName(state, id) : `${branchName(state, id)} from ${sourceName(state, id)}`;
      say(chip, words === "" ? name : `${branchName(state, id).replace("branch ", "")} · ${way}`);
      chip.dataset["outcome"] = run.outcome;
      chip.title = `${name}, ${outcomeWords(run)}${hidden ? ", put away: click to show it" : ""}\n${shortened(own)}`;
      chip.setAttribute("aria-label", `${name}${words === "" ? "" : `, ${way}`}, ${outcomeWords(run)}${hidden ? ", put away" : ""}`);
    }
  }

  /** Bring a run into view and make it the current one. */
  show(id: string): void {
    const view = this.#views.get(id);
    if (view === undefined) return;
    view.element.hidden = false;
    this.#chips.get(id)?.removeAttribute("data-away");
    this.#see(id);
  }

  /** Put a branch away; its button in the bar brings it back. */
  hide(id: string): void {
    const chip = this.#chips.get(id);
    const view = this.#views.get(id);
    if (view === undefined || chip === undefined) return;
    view.element.hidden = true;
    chip.toggleAttribute("data-away", true);
    chip.focus();
  }

  #see(id: string): void {
    for (const [run, chip] of this.#chips) {
      if (run === id) chip.setAttribute("aria-current", "true");
      else chip.removeAttribute("aria-current");
    }
    // Sideways by hand: the column that stays in place covers what the browser takes for visible.
    requestAnimationFrame(() => {
      const element = this.#views.get(id)?.element;
      const line = this.#line;
      const first = line.firstElementChild;
      if (element === undefined || first === null || element === first || element.contains(line)) return;
      const covered = getComputedStyle(first).position === "sticky" ? first.getBoundingClientRect().width + GAP : 0;
      const [row, box] = [line.getBoundingClientRect(), element.getBoundingClientRect()];
      if (box.left < row.left + covered - 1) line.scrollLeft -= row.left + covered - box.left;
      else if (box.right > row.right + 1) line.scrollLeft += box.right - row.right;
      // Up or down too: it stands at its row's top, and the place it left may be screens below. The column is as high
      // as its row; what is in it tells whether there is anything to see.
      const ends = [...element.children].map((child) => child.getBoundingClientRect().bottom);
      if (!inSight(box.top, Math.max(box.top, ...ends), innerHeight)) element.scrollIntoView({ block: "start", inline: "nearest" });
    });
  }

  /** Whole columns side by side, as many as can be read: none is cut at the row's end. */
  #fit(): void {
    const count = Math.max(1, Math.floor((this.#row.clientWidth + GAP) / (READABLE + GAP)));
    this.#row.style.setProperty("--acs-columns", String(count));
  }

  /** What the columns stand in: the row, or the choices of a run with several of one prompt. */
  get #line(): Element {
    return this.#row.querySelector(":scope > .acs-run > .acs-choices > .acs-many:only-child") ?? this.#row;
  }
}

/** Whether a column is the text `from`, or a branch that goes back to it. */
function comesFrom(state: State, { dataset: { node, run } }: HTMLElement, from: string | undefined): boolean {
  if (from === undefined) return false;
  const nodes = [node, ...(state.runs[run ?? ""]?.nodes ?? [])];
  for (let one = state.nodes[nodes.at(-1) ?? ""]?.origin; one; one = state.nodes[one.node]?.origin) nodes.push(one.node);
  return nodes.includes(from);
}

/** The beginning of what the model wrote itself. */
function ownText(state: State, run: RunState): string {
  const node = state.nodes[run.nodes[0] ?? ""];
  if (node === undefined) return "";
  let kept = 0;
  for (let i = 0; i < node.kept; i++) kept += node.tokens[i]?.length ?? 0;
  if (node.tokens.length === 0) kept = node.origin?.text.length ?? 0;
  return node.text.slice(kept, kept + FIRST_WORDS + 1);
}

function shortened(text: string): string {
  return text.length > FIRST_WORDS ? `${text.slice(0, FIRST_WORDS)}…` : text;
}

/** Whether enough of what lies between two heights is seen already in a window of this height. */
export function inSight(top: number, bottom: number, height: number): boolean {
  return (top >= 0 || bottom > SEEN) && top < height - SEEN;
}
