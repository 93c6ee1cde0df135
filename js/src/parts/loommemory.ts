/**
 * What a window knows before the kernel says so: what is folded, and which child was looked at last. It must not know
 * the page.
 */
import { markOf } from "../revise";
import type { State } from "../state";
import { alive } from "./loomoutline";

export class Memory {
  readonly #folds = new Map<string, boolean>();
  readonly #visited = new Map<string, string>();

  isFolded(state: State, id: string): boolean {
    return this.#folds.get(id) ?? markOf(state, id, "folded") === true;
  }

  fold(id: string, folded: boolean): void {
    this.#folds.set(id, folded);
  }

  /** The state has caught up with some of it. */
  settle(state: State): void {
    for (const [id, folded] of this.#folds) if ((markOf(state, id, "folded") === true) === folded) this.#folds.delete(id);
  }

  /** The way to a node that was looked at. */
  remember(path: readonly string[]): void {
    for (let i = 1; i < path.length; i++) this.#visited.set(path[i - 1] ?? "", path[i] ?? "");
  }

  /** The child that was looked at last, or the first. */
  childOf(state: State, id: string): string | undefined {
    const children = alive(state, id);
    const last = this.#visited.get(id) ?? markOf(state, id, "visited");
    return children.find((child) => child === last) ?? children[0];
  }
}
