/**
 * Where the reader of a loom is, and which rows there are: the cursor stays alive, in view, and inside of what is hoisted.
 *
 * It must not know texts, boxes or keys.
 */
import type { Host } from "../host";
import { shapeOf, type State } from "../state";
import { Memory } from "./loommemory";
import { alive, hoisted, isAlive, nearest, outline, pathTo } from "./loomoutline";
import type { TreeView } from "./loomtree";

export class Cursor {
  current: string | null = null;
  readonly #memory = new Memory();
  #shape = -1;
  #drawn: State | null = null;

  /** `put` is called with other rows, `unhoist` when the way leads out of what is hoisted. */
  constructor(
    readonly host: Host,
    readonly tree: TreeView,
    readonly put: () => void,
    readonly unhoist: () => void,
  ) {}

  get state(): State {
    return this.host.state;
  }

  /** The ids from the root to the cursor. */
  get path(): string[] {
    return this.current === null ? [] : pathTo(this.state, this.current);
  }

  /** Whether the tree has come and has no node that is there. */
  get none(): boolean {
    return this.current === null && this.#drawn !== null && Object.keys(this.state.runs).length > 0;
  }

  childOf(id: string): string | undefined {
    return this.#memory.childOf(this.state, id);
  }

  isFolded(id: string): boolean {
    return this.#memory.isFolded(this.state, id);
  }

  fold(id: string, folded: boolean): void {
    this.#memory.fold(id, folded);
    this.#outline();
    this.tree.go(this.current);
  }

  /** Go to a node. What is folded away or outside of what is hoisted is shown again. */
  go(id: string): void {
    this.current = id;
    this.#memory.remember(this.path);
    if (this.tree.placeOf(id) < 0) this.#reveal(id);
    this.tree.go(id);
  }

  /** Forget what was drawn: the state is another one. */
  forget(): void {
    this.#shape = -1;
  }

  /** Whether the tree has another shape than what was drawn. */
  get isOld(): boolean {
    return this.#shape !== shapeOf(this.state) || this.#drawn !== this.state;
  }

  /** Take in another shape; says whether the cursor had to leave its node. */
  reshape(): boolean {
    const { state } = this;
    this.#shape = shapeOf(state);
    this.#drawn = state;
    this.#memory.settle(state);
    this.#outline();
    const start = this.host.option<string>("start") ?? "";
    const gone = this.current === null || !isAlive(state, this.current);
    if (gone) this.current = this.current !== null ? nearest(state, this.current) : isAlive(state, start) ? start : (alive(state, null)[0] ?? null);
    const root = hoisted(state);
    if (root !== null && this.current !== null && !this.path.includes(root)) this.current = root;
    if (this.current !== null && this.tree.placeOf(this.current) < 0) this.#reveal(this.current);
    this.tree.go(this.current);
    return gone;
  }

  #outline(): void {
    this.tree.put(this.state, outline(this.state, hoisted(this.state), (id) => this.isFolded(id)));
    this.put();
  }

  #reveal(id: string): void {
    const path = pathTo(this.state, id);
    for (const step of path.slice(0, -1)) if (this.isFolded(step)) this.#memory.fold(step, false);
    const root = hoisted(this.state);
    if (root !== null && !path.includes(root)) this.unhoist();
    this.#outline();
  }
}
