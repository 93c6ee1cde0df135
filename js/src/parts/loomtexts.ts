/**
 * The texts beside a loom's tree: the path to the cursor and the children of where it is, in colours of one choice.
 */
import { askedOf, type NodeState, type State } from "../state";
import { type Choices, choicesOf } from "./choices";
import { Controls } from "./controls";
import type { Looked } from "./inspect";
import { ChildrenView } from "./loomchildren";
import { pathTo } from "./loomoutline";
import { Pace } from "./loompace";
import { PathView } from "./loompath";
import type { Brush } from "./tokens";

export class Texts {
  readonly path: PathView;
  readonly children: ChildrenView;
  readonly controls: Controls;
  readonly #choices: Choices;
  readonly #pace = new Pace(() => this.#showPath(), () => this.#showChildren());

  /** `now` gives the state and the cursor; `go`: a child was chosen; `stop`: it is to end. */
  constructor(
    readonly now: () => { state: State; current: string | null; host: { kernel: string } },
    go: (id: string) => void,
    stop: (id: string) => void,
    signal: AbortSignal,
  ) {
    this.#choices = choicesOf(now().host);
    const brushOf = (node: NodeState): Brush => ({ ...this.#choices.current, asked: askedOf(this.now().state.runs[node.run]), whatif: null });
    this.path = new PathView(brushOf, signal);
    this.children = new ChildrenView(brushOf, go, stop, signal);
    this.controls = new Controls(this.#choices);
    this.controls.element.hidden = false;
    this.#choices.listen(() => {
      this.controls.show();
      this.path.repaint();
      this.children.repaint();
    });
    signal.addEventListener("abort", () => this.#pace.stop());
  }

  /** The cursor moved; the texts follow. */
  follow(): void {
    this.#pace.moved();
  }

  /** Show those of the cursor, at once. */
  show(): void {
    this.#pace.stop();
    this.#showPath();
    this.#showChildren();
  }

  /** Bring what is shown up to what has come. */
  update(): void {
    this.path.update();
    this.children.update();
  }

  /** Contents came that were lacking. */
  filled(): void {
    this.path.filled();
    this.children.update();
  }

  look(element: HTMLElement): Looked | undefined {
    return this.path.look(element) ?? this.children.look(element);
  }

  #showPath(): void {
    const { state, current } = this.now();
    this.path.show(state, current === null ? [] : pathTo(state, current));
  }

  #showChildren(): void {
    const { state, current } = this.now();
    this.children.show(state, current);
  }
}
