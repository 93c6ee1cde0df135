/**
 * The line under a loom: where the cursor is, what is known of that node, what was done last.
 */
import { isSampled, markOf } from "../revise";
import type { NodeState, RunState, State } from "../state";
import { make, say } from "./dom";
import { livingCount } from "./loomoutline";
import { emptyWords } from "./loomrow";
import { clampWords, count, cutWords, errorWords, figures, finishWords, modelName, tokenCount } from "./status";

const SAID_FOR_MS = 8000;

export class Facts {
  readonly element = make("footer", "acs-loom-facts");
  readonly #items = make("span", "acs-items");
  readonly #note = make("p", "acs-loom-note");
  readonly #problem = make("p", "acs-error");
  readonly #said = make("span", "acs-loom-said");
  readonly #file = make("span", "acs-loom-file");
  #quiet: ReturnType<typeof setTimeout> | undefined;

  constructor() {
    this.#note.hidden = this.#problem.hidden = true;
    this.#said.ariaHidden = "true"; // the live region says it
    const line = make("div", "acs-loom-line");
    line.append(this.#items, this.#said, this.#file);
    this.element.append(this.#problem, this.#note, line);
  }

  say(line: string): void {
    clearTimeout(this.#quiet);
    say(this.#said, line);
    this.#quiet = setTimeout(() => say(this.#said, ""), SAID_FOR_MS);
  }

  /** Take a line back, if it is the one that stands there. */
  unsay(line: string): void {
    if (line === "" || this.#said.textContent !== line) return;
    clearTimeout(this.#quiet);
    say(this.#said, "");
  }

  update(state: State, at: number, current: string | null, file: string): void {
    const node = current === null ? undefined : state.nodes[current];
    const run = node && state.runs[node.run];
    const items = node === undefined || run === undefined ? ["empty"] : !isSampled(state, node) ? writtenItems(state, node) : runItems(state, node, run, at);
    items.push(`${count(livingCount(state))} nodes in all`);
    while (this.#items.children.length > items.length) this.#items.lastChild?.remove();
    items.forEach((item, place) => {
      const element = this.#items.children[place] ?? this.#items.appendChild(make("span", "acs-item"));
      if (element.textContent !== item) element.textContent = item;
    });
    const note = current === null ? undefined : markOf(state, current, "note");
    const tags = (current === null ? [] : (markOf(state, current, "tags") ?? [])) as string[];
    say(this.#note, [...tags.map((tag) => `#${tag}`), typeof note === "string" ? note : ""].filter((part) => part !== "").join(" "));
    say(this.#problem, run !== undefined && node?.choice !== null ? [errorWords(run), clampWords(run)].filter((part) => part !== "").join(" ") : "");
    say(this.#file, file);
  }
}

function writtenItems(state: State, node: NodeState): string[] {
  const made = (markOf(state, node.id, "made_of") ?? []) as string[];
  const kind = node.parent === null ? "root" : made.length > 1 ? "merged" : made.length === 1 ? "edited or split" : "written";
  return [kind, node.tokens.length > 0 ? tokenCount(node.tokens.length) : `${count(Array.from(node.text).length)} characters`];
}

function runItems(state: State, node: NodeState, run: RunState, at: number): string[] {
  const request = node.choice === null ? [] : figures(state, run, at).map((figure) => (/tokens?$/.test(figure) ? `whole request: ${figure}` : figure));
  const own = node.tokens.length > 0 && (node.choice === null || run.nodes.length > 1) ? [tokenCount(node.tokens.length)] : [];
  const sampling = ["temperature", "top_p", "top_k", "min_p", "seed"].filter((name) => run.request[name] !== undefined).map((name) => `${name} ${String(run.request[name])}`);
  const end = node.choice === null ? cutWords(node, run) : [node.text === "" && run.outcome !== "open" ? emptyWords(state, node) : finishWords(node, run) || "coming"];
  return [...end, modelName(run), ...own, ...request, ...sampling];
}
