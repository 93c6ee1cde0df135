/**
 * One run of a session at a time, with its tooltip: what a window shows that has more than one to show.
 */
import type { Host } from "../host";
import { type Choices, choicesOf } from "./choices";
import { describe } from "./description";
import { make } from "./dom";
import { inspect, type Looked } from "./inspect";
import { type Around, RunView } from "./run";
import { Tooltip } from "./tooltip";
import { askedOf } from "../state";

export class Stage {
  readonly element = make("div", "acs-stage");
  readonly #choices: Choices;
  readonly #tip = new Tooltip();
  #view: RunView | null = null;

  /** `root` holds the stage and everything whose keys must not leave the widget; `call` puts another run on it. */
  constructor(
    readonly host: Host,
    root: HTMLElement,
    readonly signal: AbortSignal,
    readonly call: (run: string) => void,
  ) {
    this.#choices = choicesOf(host);
    this.#choices.listen(() => this.#view?.repaint());
    root.append(this.#tip.element);
    const describeIt = ({ node, piece, parts }: Looked) => describe(node, piece, askedOf(host.state.runs[node.run]), parts);
    const inspection = {
      look: (element: HTMLElement) => this.#view?.look(element),
      describe: describeIt,
      chosen: (element: HTMLElement, looked: Looked) => this.#view?.choose(element, looked),
    };
    inspect(root, this.#tip, inspection, signal);
    signal.addEventListener("abort", () => this.#tip.hide());
  }

  /** Show a run as it stands now; `fresh`: the state is another one. */
  show(run: string | null, fresh = false): void {
    if (this.#view !== null && (fresh || this.#view.id !== run)) {
      this.#tip.hide();
      this.#view.element.remove();
      this.#view = null;
    }
    if (run === null) return;
    if (this.#view === null) {
      const around: Around = {
        choices: this.#choices,
        showPrompt: false,
        edit: null,
        locate: null,
        stop: (one) => this.host.stop(one),
        go: (other, node, token) => {
          if (other !== this.#view?.id) this.call(other);
          this.#view?.goTo(node, token);
        },
        hide: null,
      };
      this.#view = new RunView(run, this.host.state, around, this.signal);
      this.element.append(this.#view.element);
    }
    this.#view.update(this.host.state, this.host.at, false);
    this.#view.settle();
  }
}
