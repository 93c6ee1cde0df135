/**
 * One run on the page: its status line, what went wrong, its choices side by side, and the What-if panel.
 */
import { echoed, type RunState, type State } from "../state";
import type { Choices } from "./choices";
import { Columns } from "./columns";
import { Controls } from "./controls";
import { make, say } from "./dom";
import type { Looked } from "./inspect";
import { inView } from "./inview";
import { inSlices } from "./slices";
import { StatusLine } from "./statusline";
import { clampWords, errorWords, finishWords, UNSAVED } from "./status";
import type { Brush, Tally } from "./tokens";
import { settingsOf } from "./whatif";
import { WhatIfPanel } from "./whatifpanel";

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
  #asked: number | null = null;
  #cancel = () => {};

  constructor(
    readonly id: string,
    readonly choices: Choices,
    showPrompt: boolean,
    stop: () => void,
    readonly signal: AbortSignal,
  ) {
    this.#columns = new Columns(showPrompt, signal);
    this.#controls = new Controls(choices);
    this.#status = new StatusLine(stop, this.#columns.tools, this.#controls.element);
    this.#error.hidden = this.#notice.hidden = true;
    this.#showNumbers(choices.current.numbers);
    this.#error.setAttribute("role", "alert");
    // The line stands above the text: below it, Stop would run away from the pointer.
    this.element.append(this.#status.element, this.#error, this.#notice, this.#columns.element);
    signal.addEventListener("abort", () => this.#cancel());
  }

  /** `unsaved`: the notebook holds no copy of this run. */
  update(state: State, at: number, unsaved: boolean): void {
    const run = state.runs[this.id];
    if (run === undefined) return;
    this.#state = state;
    const asked = run.request["logprobs"];
    this.#asked = typeof asked === "number" ? asked : null;
    const brush = this.#brush();
    this.#columns.update(state, run, (column, node) => {
      const complete = node.finish_reason !== null || run.outcome !== "open";
      column.text.update(node, complete, echoed(state, node), brush);
      if (run.nodes.length > 1) say(column.finish, finishWords(node, run));
    });
    this.#columns.part(state, run, brush);
    say(this.#error, errorWords(run));
    say(this.#notice, [clampWords(run), unsaved ? UNSAVED : ""].filter((words) => words !== "").join(" "));
    this.#status.update(state, run, at);
    this.element.dataset["outcome"] = run.outcome;
    const measured = run.nodes.some((id) => (state.nodes[id]?.logprobs.length ?? 0) > 0);
    this.#controls.element.hidden = !measured;
    if (measured) this.#openPanel(run);
    this.#tell();
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

  look(element: HTMLElement): Looked | undefined {
    for (const { id, text } of this.#columns.all) {
      const place = text.placeOf(element);
      const piece = place === undefined ? undefined : text.pieceAt(place);
      const node = this.#state?.nodes[id];
      if (place === undefined || piece === undefined || node === undefined) continue;
      return { node, piece, parts: text.partsAt(place), tokens: text.tokens };
    }
    return undefined;
  }

  /** A token of this run was focused or pinned: the panel is about it. */
  choose(element: HTMLElement, { node, piece }: Looked): void {
    this.#panel?.look(node, piece, this.#asked);
    this.#marked?.removeAttribute("data-looked");
    this.#marked = element;
    element.dataset["looked"] = "";
  }

  #brush(): Brush {
    return { ...this.choices.current, asked: this.#asked, whatif: this.#panel?.settings ?? null };
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

