/**
 * Everything that was run, and every prompt that was put aside: a list to go back to. Nothing in it ever changes.
 */
import { textTo, type RunState, type State } from "../state";
import type { Fields } from "../host";
import { make } from "./dom";
import { fieldsOf } from "./requestfields";
import { branchName, sourceOf } from "./road";
import { completionTokens, outcomeWords, tokenCount } from "./status";
import { excerpt } from "./text";

/** A prompt that was not sent. */
export interface Draft {
  prompt: string;
  fields: Fields;
}

const EXCERPT = 56;

export class History {
  readonly element = make("details", "acs-past");
  readonly #summary = make("summary", "");
  readonly #list = make("ol", "acs-past-list");
  readonly #items = new Map<string, HTMLButtonElement>();

  constructor(
    readonly restoreRun: (id: string) => void,
    readonly restoreDraft: (draft: Draft) => void,
  ) {
    this.element.open = true;
    this.element.append(this.#summary, this.#list);
    this.element.hidden = true;
  }

  update(state: State, drafts: readonly Draft[], shown: string | null): void {
    const runs = Object.values(state.runs);
    runs.forEach((run, place) => {
      const item = this.#item(`run ${run.id}`, () => this.restoreRun(run.id));
      const words = [`${place + 1}`, clock(run.opened_at), outcomeWords(run), `${tokenCount(completionTokens(state, run))}`];
      if (sourceOf(state, run.id) !== null) words.splice(1, 0, branchName(state, run.id));
      // One that has ended stays as it is: a long history costs nothing while another run comes.
      if (item.dataset["outcome"] !== run.outcome || run.outcome === "open") {
        fill(item, words.join(" · "), promptOf(state, run) ?? "token ids", resultOf(state, run));
        item.dataset["outcome"] = run.outcome;
      }
      if (run.id === shown) item.setAttribute("aria-current", "true");
      else item.removeAttribute("aria-current");
    });
    drafts.forEach((draft, place) => {
      const item = this.#item(`draft ${place}`, () => this.restoreDraft(draft));
      fill(item, "not sent", draft.prompt, "");
    });
    const total = runs.length + drafts.length;
    this.element.hidden = total === 0;
    const words = `History (${total}): go back to a prompt, its parameters and its result`;
    if (this.#summary.textContent !== words) this.#summary.textContent = words;
  }

  clear(): void {
    this.#items.clear();
    this.#list.replaceChildren();
  }

  #item(key: string, act: () => void): HTMLButtonElement {
    const there = this.#items.get(key);
    if (there !== undefined) return there;
    const button = make("button", "acs-past-item");
    button.append(make("span", "acs-past-head"), make("span", "acs-past-prompt"), make("span", "acs-past-text"));
    button.addEventListener("click", act);
    const line = make("li", "");
    line.append(button);
    this.#list.prepend(line);
    this.#items.set(key, button);
    return button;
  }
}

/** The prompt of a run's first choice; `null` when it was token ids. */
export function promptOf(state: State, run: RunState): string | null {
  const parent = state.nodes[run.nodes[0] ?? ""]?.parent ?? null;
  if (parent === null) return "";
  return state.nodes[parent]?.ids != null ? null : textTo(state, parent);
}

/** Whether the same prompt with the same parameters is running. */
export function runsAlready(state: State, prompt: string, fields: Fields): boolean {
  return Object.values(state.runs).some((run) => {
    if (run.outcome !== "open" || promptOf(state, run) !== prompt) return false;
    const sent = fieldsOf(run.request);
    return Object.entries(fields).every(([name, value]) => value === "" || sent[name] === value);
  });
}

function resultOf(state: State, run: RunState): string {
  return state.nodes[run.nodes[0] ?? ""]?.text ?? "";
}

function fill(button: HTMLButtonElement, head: string, prompt: string, text: string): void {
  const shown = [head, excerpt(prompt, EXCERPT, true), excerpt(text, EXCERPT)];
  shown.forEach((words, place) => {
    const part = button.children[place];
    if (part !== undefined && part.textContent !== words) part.textContent = words;
  });
}

export function clock(seconds: number): string {
  return new Date(seconds * 1000).toTimeString().slice(0, 8);
}
