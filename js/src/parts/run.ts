/**
 * One run on the page: its choices side by side, what went wrong, and the status line.
 */
import { echoed, type NodeState, type RunState, type State } from "../state";
import { make, say } from "./dom";
import type { Looked } from "./inspect";
import { StatusLine } from "./statusline";
import { clampWords, errorWords, finishWords } from "./status";
import { visible } from "./text";
import { TokenText } from "./tokens";

const LABEL = 90;
const LEAD = 240;

interface Column {
  text: TokenText;
  finish: HTMLElement;
}

export class RunView {
  readonly element = make("article", "acs-run");
  readonly #columns = new Map<string, Column>();
  readonly #choices = make("div", "acs-choices");
  readonly #error = make("p", "acs-error");
  readonly #notice = make("p", "acs-notice");
  readonly #status: StatusLine;
  #state: State | null = null;
  #group: HTMLElement | null = null;
  #parent: string | null = null;

  constructor(
    readonly id: string,
    readonly showPrompt: boolean,
    stop: () => void,
  ) {
    this.#status = new StatusLine(stop);
    this.#error.hidden = this.#notice.hidden = true;
    this.#error.setAttribute("role", "alert");
    // The line stands above the text: below it, Stop would run away from the pointer.
    this.element.append(this.#status.element, this.#error, this.#notice, this.#choices);
  }

  update(state: State, at: number): void {
    const run = state.runs[this.id];
    if (run === undefined) return;
    this.#state = state;
    for (const id of run.nodes) {
      const node = state.nodes[id];
      if (node !== undefined) this.#updateNode(state, run, node);
    }
    say(this.#error, errorWords(run));
    say(this.#notice, clampWords(run));
    this.#status.update(state, run, at);
    this.element.dataset["outcome"] = run.outcome;
  }

  look(element: HTMLElement): Looked | undefined {
    for (const [id, { text }] of this.#columns) {
      const piece = text.pieceOf(element);
      const node = this.#state?.nodes[id];
      if (piece !== undefined && node !== undefined) return { node, piece, tokens: text.tokens };
    }
    return undefined;
  }

  #updateNode(state: State, run: RunState, node: NodeState): void {
    const column = this.#columns.get(node.id) ?? this.#openColumn(state, run, node);
    const complete = node.finish_reason !== null || run.outcome !== "open";
    column.text.update(node, complete, echoed(state, node));
    if (run.nodes.length > 1) say(column.finish, finishWords(node, run));
  }

  #openColumn(state: State, run: RunState, node: NodeState): Column {
    const prompt = node.parent === null ? undefined : state.nodes[node.parent];
    const text = new TokenText(this.showPrompt && !node.echo && prompt ? tail(prompt.text) : "");
    const finish = make("div", "acs-finish");
    const section = make("section", "acs-choice");
    const siblings = run.nodes.filter((id) => state.nodes[id]?.parent === node.parent);
    const place = `${siblings.indexOf(node.id) + 1} of ${siblings.length}`;
    section.setAttribute("aria-label", siblings.length > 1 ? `Continuation ${place}` : "Continuation");
    if (siblings.length > 1) section.append(make("div", "acs-choice-name", place));
    section.append(text.element, finish);
    this.#groupOf(state, run, node, prompt).append(section);
    const column = { text, finish };
    this.#columns.set(node.id, column);
    return column;
  }

  /** Choices of one prompt stand together; with several prompts, each is named. */
  #groupOf(state: State, run: RunState, node: NodeState, prompt: NodeState | undefined): HTMLElement {
    const group = this.#group;
    if (group !== null && this.#parent === node.parent) return group;
    this.#parent = node.parent;
    const prompts = new Set(run.nodes.map((id) => state.nodes[id]?.parent));
    if (prompts.size > 1) this.#choices.append(make("div", "acs-prompt", prompt ? label(prompt) : "prompt"));
    const made = make("div", run.nodes.length > 1 ? "acs-group acs-many" : "acs-group");
    this.#choices.append(made);
    this.#group = made;
    return made;
  }
}

function label(prompt: NodeState): string {
  if (prompt.text === "" && prompt.ids !== null) return `${prompt.ids.length} token ids`;
  const characters = Array.from(prompt.text);
  const shown = characters.slice(-LABEL).map((c) => (c === " " ? c : visible(c))).join("");
  return characters.length > LABEL ? `…${shown}` : shown;
}

function tail(text: string): string {
  const characters = Array.from(text);
  return characters.length > LEAD ? `…${characters.slice(-LEAD).join("")}` : text;
}
