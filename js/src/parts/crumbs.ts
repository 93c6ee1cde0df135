/**
 * The road to a branch: from the original by every branch on the way, each a button that goes there.
 */
import type { State } from "../state";
import { make, say } from "./dom";
import { branchName, leavingWords, originOf, retokenised, road, seamWords, sourceName } from "./road";

/** Go to a run, at a token of one of its nodes. */
export type Go = (run: string, node: string, token: number) => void;

export class Crumbs {
  readonly element = make("nav", "acs-road");
  readonly #list = make("ol", "");
  readonly #note = make("p", "acs-seam-note");
  readonly #seam = make("span", "");
  readonly #where = make("button", "acs-quiet acs-where");
  #state: State | null = null;

  /** `locate` asks the server where it read other tokens; `tools` stand at the end of the road. */
  constructor(
    readonly run: string,
    readonly go: Go,
    readonly locate: ((node: string) => void) | null,
    ...tools: HTMLElement[]
  ) {
    this.#where.addEventListener("click", () => this.#showWhere());
    const line = make("div", "acs-road-line");
    line.append(this.#list, ...tools);
    this.#note.append(this.#seam, " ", this.#where);
    this.element.append(line, this.#note);
  }

  update(state: State): void {
    if (this.#list.children.length === 0) this.#draw(state);
    this.#state = state;
    const origin = originOf(state, this.run);
    const differs = retokenised(state, this.run);
    const found = origin !== null && origin.seam !== null;
    say(this.#seam, seamWords(state, this.run));
    this.#note.toggleAttribute("data-retokenised", differs);
    this.#where.hidden = !found && !(differs && origin?.cost === 0 && this.locate !== null);
    this.#where.textContent = found ? "go there" : "show where";
    this.#where.title = found ? "" : "Asks the server how it reads the text: one more request, about as long";
  }

  #showWhere(): void {
    const node = this.#state?.runs[this.run]?.nodes[0];
    const seam = this.#state && originOf(this.#state, this.run)?.seam;
    if (node === undefined) return;
    if (typeof seam === "number") this.go(this.run, node, seam);
    else this.locate?.(node);
  }

  #draw(state: State): void {
    const runs = road(state, this.run);
    this.element.setAttribute("aria-label", `The road to ${branchName(state, this.run)}`);
    runs.forEach((run, step) => {
      const next = runs[step + 1];
      const leaves = next === undefined ? null : originOf(state, next);
      const own = originOf(state, run);
      const words = step === 0 ? sourceName(state, next ?? run) : `${branchName(state, run)}: ${leavingWords(state, run)}`;
      const button = make("button", "acs-quiet acs-crumb", words);
      if (next === undefined) button.setAttribute("aria-current", "location");
      const node = leaves?.node ?? state.runs[run]?.nodes[0] ?? "";
      const token = leaves?.tokens ?? own?.tokens ?? 0;
      button.addEventListener("click", () => this.go(run, node, token));
      const item = make("li", "");
      item.append(button);
      this.#list.append(item);
    });
  }
}
