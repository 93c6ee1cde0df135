/**
 * The choices of a run, each in its column: how they are grouped, follow what comes, and scroll together.
 */
import type { NodeState, RunState, State } from "../state";
import { press, toggle } from "./controls";
import { make } from "./dom";
import { Follower } from "./follower";
import { Parting } from "./parting";
import { branchName } from "./road";
import { Strip } from "./strip";
import { visible } from "./text";
import { Together } from "./together";
import { TokenText, type Brush } from "./tokens";

const LABEL = 90;
const LEAD = 240;
export interface Column {
  id: string;
  section: HTMLElement;
  text: TokenText;
  strip: Strip;
  follower: Follower;
  finish: HTMLElement;
}

/** The columns of one prompt. */
interface Group {
  element: HTMLElement;
  columns: Column[];
  parting: Parting;
}

export class Columns {
  readonly element = make("div", "acs-choices");
  /** Buttons for the status line; hidden while there is nothing to scroll. */
  readonly tools = make("span", "acs-tools");
  readonly #columns = new Map<string, Column>();
  readonly #groups = new Map<string | null, Group>();
  readonly #together: Together;
  readonly #sync = toggle("together", "Scroll the continuations together");
  readonly #whole = toggle("full length", "Show texts in their full length, not in a box that scrolls");
  readonly #sized: ResizeObserver;
  /** What waits until everything is drawn. */
  readonly #after: (() => void)[] = [];
  #overflows = false;
  /** Whether the run was still coming when last looked at; a text that is shown complete starts at its beginning. */
  #coming = false;
  #beside = false;

  constructor(
    readonly showPrompt: boolean,
    readonly signal: AbortSignal,
  ) {
    this.#together = new Together(signal);
    // Paragraphs get their height only when the browser lays them out, after an update.
    this.#sized = new ResizeObserver(() => this.#notice());
    signal.addEventListener("abort", () => this.#sized.disconnect());
    press(this.#sync, true);
    this.#sync.addEventListener("click", () => press(this.#sync, (this.#together.on = !this.#together.on)));
    this.#whole.addEventListener("click", () => press(this.#whole, this.element.classList.toggle("acs-whole")));
    this.tools.append(this.#sync, this.#whole);
    this.tools.hidden = true;
  }

  get all(): Column[] {
    return [...this.#columns.values()];
  }

  /** Other runs stand beside this one: its texts keep to boxes. */
  beside(): void {
    this.#beside = true;
    for (const { text } of this.all) text.element.classList.add("acs-boxed");
  }

  /** Bring each column up to its node, by `draw`, which says whether there is more. */
  update(state: State, run: RunState, draw: (column: Column, node: NodeState) => boolean): void {
    let open = run.outcome === "open";
    this.#coming ||= open;
    for (const id of run.nodes) {
      const node = state.nodes[id];
      if (node === undefined) continue;
      const column = this.#columns.get(id) ?? this.#open(state, run, node);
      const before = column.text.tokens.length;
      if (draw(column, node)) open = true;
      const long = column.strip.update(node);
      if (long || this.#beside || run.nodes.length > 1) column.text.element.classList.add("acs-boxed");
      if (this.#coming && column.text.tokens.length > before) {
        this.#after.push(() => column.follower.came(open));
      }
    }
    this.#coming &&= open;
    this.#sync.hidden = run.nodes.length < 2;
    this.#after.push(() => this.#notice());
  }

  /**
   * When everything is drawn: a column that is at its end stays there while the run goes on. Looking how tall a text has
   * become makes the browser lay out what was changed, so that all is changed first and then all is looked at.
   */
  settle(): void {
    for (const act of this.#after.splice(0)) act();
    for (const { strip } of this.all) strip.settle();
  }

  /** Mark where the choices of each prompt part. */
  part(state: State, run: RunState, brush: Brush): void {
    for (const { columns, parting } of this.#groups.values()) {
      const nodes = columns.map(({ id }) => state.nodes[id]).filter((node) => node !== undefined);
      const complete = run.outcome !== "open" || nodes.every((node) => node.finish_reason !== null);
      const place = parting.next(nodes.map((node) => node.text), complete);
      if (place === null) continue;
      columns.forEach(({ text }, i) => {
        const node = nodes[i];
        if (node !== undefined) text.partAfter(place, node, brush);
      });
    }
  }

  /** Tools appear with the first text that is longer than its box. */
  #notice(): void {
    if (this.#overflows) return;
    this.#overflows = this.all.some(({ text: { element } }) => element.scrollHeight > element.clientHeight + 1);
    this.tools.hidden = !this.#overflows;
    if (this.#overflows) this.#sized.disconnect();
  }

  #open(state: State, run: RunState, node: NodeState): Column {
    const prompt = node.parent === null ? undefined : state.nodes[node.parent];
    const text = new TokenText(this.showPrompt && !node.echo && prompt ? tail(prompt.text) : "");
    const finish = make("div", "acs-finish");
    const section = make("section", "acs-choice");
    section.dataset["node"] = node.id;
    const siblings = run.nodes.filter((id) => state.nodes[id]?.parent === node.parent);
    const place = `${siblings.indexOf(node.id) + 1} of ${siblings.length}`;
    const several = siblings.length > 1;
    const branch = node.origin === null ? "" : `, ${branchName(state, run.id)}`;
    section.setAttribute("aria-label", `Continuation${several ? ` ${place}` : ""}${branch}`);
    if (several) section.append(make("div", "acs-choice-name", place));
    const strip = new Strip(text, several ? `, continuation ${place}` : branch, this.signal);
    section.append(strip.element, text.element, finish);
    const follower = new Follower(text.element, (top) => this.#together.put(text.element, top), this.signal);
    const column = { id: node.id, section, text, strip, follower, finish };
    const group = this.#groupOf(state, run, node, prompt);
    group.element.append(section);
    group.columns.push(column);
    this.#columns.set(node.id, column);
    this.#sized.observe(text.element);
    if (run.nodes.length > 1) this.#together.add(text.element);
    return column;
  }

  /** Choices of one prompt stand together; with several prompts, each is named. */
  #groupOf(state: State, run: RunState, node: NodeState, prompt: NodeState | undefined): Group {
    const there = this.#groups.get(node.parent);
    if (there !== undefined) return there;
    const prompts = new Set(run.nodes.map((id) => state.nodes[id]?.parent));
    if (prompts.size > 1) this.element.append(make("div", "acs-prompt", prompt ? label(prompt) : "prompt"));
    const element = make("div", run.nodes.length > 1 ? "acs-group acs-many" : "acs-group");
    this.element.append(element);
    const group = { element, columns: [], parting: new Parting() };
    this.#groups.set(node.parent, group);
    return group;
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
