/**
 * Intents that arrive: each is sent again, later each time, until the kernel says that it has it.
 *
 * Owns the numbers of what was asked and their clocks. It must not know what an intent means.
 *
 * JupyterLab takes the way of a comm down and builds another when a page opens, and what is sent in that moment is
 * lost without an error. The kernel obeys each number once, so that what is sent twice is done once.
 */

import type { AnyModel } from "@anywidget/types";

export const SEND_AGAIN_MS = 1000;
const SEND_AGAIN_AT_MOST_MS = 30_000;

export class Delivery {
  readonly #page = Math.random().toString(36).slice(2, 10);
  readonly #clocks = new Map<string, ReturnType<typeof setTimeout>>();
  #count = 0;
  #over = false;

  /** `send` throws when there is no kernel. */
  constructor(private readonly send: (message: object) => void) {}

  /** False when there is nobody to send it to. */
  deliver(intent: object): boolean {
    this.#count += 1;
    const ask = `${this.#page}.${this.#count}`;
    return this.#attempt({ ...intent, ask }, ask, SEND_AGAIN_MS);
  }

  /** It is there. */
  answered(ask: string): void {
    clearTimeout(this.#clocks.get(ask));
    this.#clocks.delete(ask);
  }

  /** Nothing is sent again. */
  end(): void {
    this.#over = true;
    for (const ask of [...this.#clocks.keys()]) this.answered(ask);
  }

  #attempt(message: object, ask: string, patience: number): boolean {
    try {
      this.send(message);
    } catch {
      this.answered(ask);
      return false;
    }
    const again = () => this.#attempt(message, ask, Math.min(2 * patience, SEND_AGAIN_AT_MOST_MS));
    if (!this.#over) this.#clocks.set(ask, setTimeout(again, patience));
    return true;
  }
}

/** A delivery over a model that hears nothing else from the kernel but that it has what was sent. */
export function deliveryOf(model: AnyModel, ended: AbortSignal): Delivery {
  const delivery = new Delivery((message) => model.send(message));
  const hear = (message: { ask?: string }) => void (message.ask !== undefined && delivery.answered(message.ask));
  model.on("msg:custom", hear);
  ended.addEventListener("abort", () => {
    model.off("msg:custom", hear);
    delivery.end();
  });
  return delivery;
}
