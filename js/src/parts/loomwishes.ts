/**
 * Marks that were asked for and are on their way: whoever presses a key twice means what the first press will make.
 */
import type { Tending } from "../tending";

/** After so long the kernel's word counts, whatever it is. */
const ON_ITS_WAY_MS = 2000;

interface Wish {
  value: unknown;
  at: number;
}

export class Wishes {
  readonly #wishes = new Map<string, Wish>();

  constructor(readonly now: () => number = () => performance.now()) {}

  note(intent: Tending): void {
    if (intent.type === "Light") this.#put("", "lit", intent.nodes);
    if (intent.type !== "Mark") return;
    for (const [field, value] of Object.entries(intent)) if (field !== "type" && field !== "node") this.#put(intent.node, field, value);
  }

  /** What a mark will be: what was asked for last, else what is `known`. */
  of(node: string, field: string, known: unknown): unknown {
    const key = `${node} ${field}`;
    const wish = this.#wishes.get(key);
    if (wish === undefined) return known;
    if (this.now() - wish.at < ON_ITS_WAY_MS && JSON.stringify(wish.value) !== JSON.stringify(known)) return wish.value;
    this.#wishes.delete(key);
    return known;
  }

  #put(node: string, field: string, value: unknown): void {
    this.#wishes.set(`${node} ${field}`, { value, at: this.now() });
  }
}
