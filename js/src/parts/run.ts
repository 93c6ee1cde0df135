/**
 * One run on the page: its status line, what went wrong, its choices side by side, and the What-if panel.
 */
import { askedOf, echoed, type RunState, type State } from "../state";
import type { Choices } from "./choices";
import { Columns, type Column } from "./columns";
import { Controls } from "./controls";
import { Crumbs, type Go } from "./crumbs";
import { make, say } from "./dom";
import type { Looked } from "./inspect";
import { inView } from "./inview";
import { rootOf, sourceOf } from "./road";
import { inSlices } from "./slices";
import { StatusLine } from "./statusline";
import { clampWords, errorWords, finishWords, modelName, UNSAVED } from "./status";
import type { Brush, Tally } from "./tokens";
import { settingsOf } from "./whatif";
import { WhatIfPanel } from "./whatifpanel";

/** What a run needs from the window around it. */
export interface Around {
  choices: Choices;
  showPrompt: boolean;
  /** Offer to edit texts whose tokens are not known; those of others are edited from their tooltips. */
  edit: ((node: string) => void) | null;
  /** Ask where the server read other tokens than were written; `null` where nobody can be asked. */
  locate: ((node: string) => void) | null;
  stop(run: string): void;
  go: Go;
  /** Pieces of a text that are drawn in one frame, so that a long one shows its beginning first; else all are. */
  most?: number;
  /** `null` where runs are shown one at a time. */
  hide: ((run: string) => void) | null;
}

export class RunView {
  readonly element = make("article", "acs-run");
  readonly #columns: Columns;
  readonly #error = make("p", "acs-error");
  readonly #notice = make("p", "acs-notice");
  readonly #controls: Controls;
  readonly #status: StatusLine;
  #panel: WhatIfPanel | null = null;
  #marked: HTMLElement | null = null;
  #state: State | null = null;
  #over = "";
  #frame = 0;
  #cancel = () => {};

  readonly #crumbs: Crumbs | null;

  constructor(
    readonly id: string,
    state: State,
    readonly around: Around,
    readonly signal: AbortSignal,
  ) {
    const branch = sourceOf(state, id) !== null;
    this.#columns = new Columns(around.showPrompt, signal);
    this.#controls = new Controls(around.choices);
    this.#crumbs = branch ? new Crumbs(id, around.go, around.locate, ...this.#putAway()) : null;
    // One legend and one choice of colours serve the original and its branches.
    const tools = branch ? [this.#columns.tools] : [this.#columns.tools, this.#controls.element];
    this.#status = new StatusLine(() => around.stop(id), ...tools);
    this.#error.hidden = this.#notice.hidden = true;
    this.#showNumbers(around.choices.current.numbers);
    this.#error.setAttribute("role", "alert");
    if (this.#crumbs !== null) this.element.append(this.#crumbs.element);
    this.element.classList.toggle("acs-branch", branch);
    // The line stands above the text: below it, Stop would run away from the pointer.
    this.element.append(this.#status.element, this.#error, this.#notice, this.#columns.element);
    signal.addEventListener("abort", () => (this.#cancel(), cancelAnimationFrame(this.#frame)));
  }

  /** Other runs stand beside this one. */
  beside(): void {
    this.#columns.beside();
  }

  /** The place of a node's text, for what belongs to it. */
  sectionOf(node: string): HTMLElement | undefined {
    return this.#columns.all.find(({ id }) => id === node)?.section;
  }

  /** Go to a token of a node, or where the node's text is. */
  goTo(node: string, token: number): void {
    const column = this.#columns.all.find(({ id }) => id === node);
    const element = column?.text.elementOf(token) ?? column?.text.tokens.at(-1);
    if (element !== undefined) element.focus();
    else this.sectionOf(node)?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  /** `unsaved`: the notebook holds no copy of this run. */
  update(state: State, at: number, unsaved: boolean): void {
    const run = state.runs[this.id];
    if (run === undefined) return;
    this.#state = state;
    this.#crumbs?.update(state);
    // A run that is over and drawn changes no more: many stand beside one that is coming.
    const seams = run.nodes.map((id) => state.nodes[id]?.origin?.seam ?? "");
    const over = run.outcome === "open" ? "" : `${run.outcome} ${unsaved} ${seams.join()}`;
    if (over !== "" && over === this.#over) return;
    cancelAnimationFrame(this.#frame);
    const brush = this.#brush();
    let more = false;
    this.#columns.update(state, run, (column, node) => {
      const complete = node.finish_reason !== null || run.outcome !== "open";
      if (column.text.update(node, complete, echoed(state, node), brush, this.around.most)) more = true;
      column.text.markSeam(node, brush);
      if (run.nodes.length > 1) say(column.finish, finishWords(node, run));
      if (node.tokens.length === 0 && node.text !== "") this.#offerEdit(column);
      return more;
    });
    this.#columns.part(state, run, brush);
    say(this.#error, errorWords(run));
    say(this.#notice, [clampWords(run), unsaved ? UNSAVED : ""].join(" ").trim());
    const first = state.runs[rootOf(state, this.id)];
    const known = this.#crumbs !== null && first !== undefined && modelName(first) === modelName(run);
    this.#status.update(state, run, at, known);
    this.element.dataset["outcome"] = more ? "open" : run.outcome;
    const measured = run.nodes.some((id) => (state.nodes[id]?.logprobs.length ?? 0) > 0);
    this.#controls.element.hidden = !measured;
    if (measured) this.#openPanel(run);
    this.#tell();
    this.#over = more ? "" : over;
    if (more) this.#frame = requestAnimationFrame(() => (this.update(state, at, unsaved), this.settle()));
  }

  /** When all runs are drawn. */
  settle(): void {
    this.#columns.settle();
  }

  /** What is shown has been chosen anew: paint every token again, those in view first. */
  repaint(): void {
    this.#cancel();
    this.#controls.show();
    const brush = this.#brush();
    const columns = this.#columns.all;
    const firsts = columns.map(({ text }) => inView(text)?.first ?? 0);
    const counts = columns.map(({ text }) => text.tokens.length);
    const most = Math.max(0, ...counts);
    // A step paints one token of each column, so that columns side by side change side by side.
    const step = (i: number) => columns.forEach(({ text, id }, column) => {
      const [node, count = 0, first = 0] = [this.#state?.nodes[id], counts[column], firsts[column]];
      if (node !== undefined && i < count) text.paint((i + first) % count, node, brush);
    });
    const done = () => {
      this.#showNumbers(brush.numbers);
      this.#tell();
    };
    // Numbers make room for themselves. Shown one by one they would lay out a long line anew in each slice.
    this.#showNumbers(false);
    this.#cancel = inSlices(most, step, done, columns.length);
  }

  #showNumbers(shown: boolean): void {
    this.element.classList.toggle("acs-numbered", shown);
  }

  /** Mark where this run's texts go on otherwise than another's, `place` UTF-16 units into them. */
  partAfter(place: number): void {
    const brush = this.#brush();
    for (const { id, text } of this.#columns.all) {
      const node = this.#state?.nodes[id];
      if (node !== undefined) text.partAfter(place, node, brush);
    }
  }

  look(element: HTMLElement): Looked | undefined {
    for (const { id, text } of this.#columns.all) {
      const place = text.placeOf(element);
      const piece = text.pieceAt(place);
      const node = this.#state?.nodes[id];
      if (piece !== undefined && node !== undefined) return { node, piece, parts: text.partsAt(place), tokens: text.tokens };
    }
    return undefined;
  }

  /** A token of this run was focused or pinned: the panel is about it. */
  choose(element: HTMLElement, { node, piece }: Looked): void {
    this.#panel?.look(node, piece, askedOf(this.#state?.runs[this.id]));
    this.#columns.all.find(({ id }) => id === node.id)?.follower.hold();
    this.#marked?.removeAttribute("data-looked");
    this.#marked = element;
    element.dataset["looked"] = "";
  }

  #brush(): Brush {
    return { ...this.around.choices.current, asked: askedOf(this.#state?.runs[this.id]), whatif: this.#panel?.settings ?? null };
  }

  #putAway(): HTMLElement[] {
    const { hide } = this.around;
    if (hide === null) return [];
    const button = make("button", "acs-quiet", "put away");
    button.title = "Hide this branch; its button brings it back";
    button.addEventListener("click", () => hide(this.id));
    return [button];
  }

  #offerEdit({ section, id }: Column): void {
    const { edit } = this.around;
    if (edit === null || section.querySelector(".acs-offer") !== null) return;
    const button = make("button", "acs-quiet acs-offer", "edit and continue…");
    button.addEventListener("click", () => edit(id));
    section.append(button);
  }

  #openPanel(run: RunState): void {
    if (this.#panel !== null) return;
    this.#panel = new WhatIfPanel(settingsOf(run.request), () => this.repaint());
    this.element.append(this.#panel.element);
  }

  #tell(): void {
    const sum: Tally = { judged: 0, cut: 0, unknown: 0 };
    for (const { text } of this.#columns.all) {
      sum.judged += text.tally.judged;
      sum.cut += text.tally.cut;
      sum.unknown += text.tally.unknown;
    }
    this.#panel?.tell(sum);
  }
}

