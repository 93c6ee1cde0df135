/**
 * How the reader wants texts shown: one choice a window, remembered for the windows that come after it on
 * the page. Nothing of it goes to the kernel.
 */
import { isView, type View } from "./views";

export interface Choice {
  view: View;
  /** The measure stands beside each token. */
  numbers: boolean;
}

type Memory = Pick<Storage, "getItem" | "setItem">;

const KEY = "acs-view";
const PLAIN: Choice = { view: "probability", numbers: false };

export class Choices {
  #choice: Choice;
  readonly #listeners = new Set<() => void>();

  constructor(readonly memory: Memory | null) {
    this.#choice = recall(memory);
  }

  get current(): Choice {
    return this.#choice;
  }

  change(change: Partial<Choice>): void {
    this.#choice = { ...this.#choice, ...change };
    try {
      this.memory?.setItem(KEY, JSON.stringify(this.#choice));
    } catch {
      // Full, or forbidden: then it is not remembered.
    }
    for (const listener of this.#listeners) listener();
  }

  listen(listener: () => void): void {
    this.#listeners.add(listener);
  }
}

/** The page's memory; reading the property itself throws where storage is forbidden. */
export function pageMemory(): Memory | null {
  try {
    return sessionStorage;
  } catch {
    return null;
  }
}

function recall(memory: Memory | null): Choice {
  try {
    const kept = JSON.parse(memory?.getItem(KEY) ?? "null") as Partial<Record<keyof Choice, unknown>> | null;
    return { view: isView(kept?.view) ? kept.view : PLAIN.view, numbers: kept?.numbers === true };
  } catch {
    return PLAIN;
  }
}
