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
  readonly #seam = make("p", "acs-seam-note");

  constructor(
    readonly run: string,
    readonly go: Go,
  ) {
    this.element.append(this.#list, this.#seam);
  }

  update(state: State): void {
    if (this.#list.children.length === 0) this.#draw(state);
    say(this.#seam, seamWords(state, this.run));
    this.#seam.toggleAttribute("data-retokenised", retokenised(state, this.run));
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
      button.type = "button";
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
