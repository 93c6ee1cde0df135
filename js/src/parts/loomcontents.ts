/**
 * Contents that an outline left out: asked for when what is in view lacks them, put in when they come.
 */
import type { Host } from "../host";
import { fill, isHollow } from "../outline";

/** As many nodes as one question may name. */
const AT_ONCE = 200;

export class Contents {
  readonly #asked = new Set<string>();

  /** `filled`: some of what was in view has come. */
  constructor(
    readonly host: Host,
    filled: () => void,
    signal: AbortSignal,
  ) {
    const end = host.hear(({ contents }) => {
      if (contents === undefined) return;
      const seen = fill(host.state, contents).filter((id) => this.#asked.delete(id));
      if (seen.length > 0) filled();
    });
    signal.addEventListener("abort", end);
  }

  /** These are in view. */
  want(ids: readonly string[]): void {
    const nodes = ids.filter((id) => this.lacks(id) && !this.#asked.has(id)).slice(-AT_ONCE);
    for (const id of nodes) this.#asked.add(id);
    if (nodes.length > 0) this.host.send({ type: "Read", nodes });
  }

  /** Another state: nothing of what was asked for is on its way. */
  reset(): void {
    this.#asked.clear();
  }

  lacks(id: string): boolean {
    const node = this.host.state.nodes[id];
    return node !== undefined && isHollow(node);
  }
}
