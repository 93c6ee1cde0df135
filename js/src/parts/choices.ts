/**
 * How the reader wants texts shown: one choice a window, remembered for the windows of the same notebook that come after
 * it on the page. Nothing of it goes to the kernel.
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

  /** `key`: where it is remembered; a kernel's id in it tells notebooks apart, and outlives a reload and a restart. */
  constructor(
    readonly memory: Memory | null,
    readonly key = KEY,
  ) {
    this.#choice = recall(memory, key);
  }

  get current(): Choice {
    return this.#choice;
  }

  change(change: Partial<Choice>): void {
    this.#choice = { ...this.#choice, ...change };
    try {
      this.memory?.setItem(this.key, JSON.stringify(this.#choice));
    } catch {
      // Full, or forbidden: then it is not remembered.
    }
    for (const listener of this.#listeners) listener();
  }

  listen(listener: () => void): void {
    this.#listeners.add(listener);
  }
}

/** Choices as they are remembered for a notebook. */
export function choicesOf({ kernel }: { kernel: string }): Choices {
  return new Choices(pageMemory(), KEY + kernel);
}

/** The page's memory; reading the property itself throws where storage is forbidden. */
export function pageMemory(): Memory | null {
  try {
    return sessionStorage;
  } catch {
    return null;
  }
}

function recall(memory: Memory | null, key: string): Choice {
  try {
    const kept = JSON.parse(memory?.getItem(key) ?? "null") as Partial<Record<keyof Choice, unknown>> | null;
    return { view: isView(kept?.view) ? kept.view : PLAIN.view, numbers: kept?.numbers === true };
  } catch {
    return PLAIN;
  }
}
