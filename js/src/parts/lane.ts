/**
 * One lane of a comparison: its name and settings, the run it shows, and where it leaves the lane it is compared with.
 */
import type { Fields } from "../host";
import type { NodeState, State } from "../state";
import { make, say } from "./dom";
import type { Looked } from "./inspect";
import { put } from "./invisible";
import { LaneDiff } from "./lanediff";
import type { LaneForm } from "./laneform";
import { nameOf } from "./rounds";
import { RunView, type Around } from "./run";

/** As the kernel tells it. */
export interface LaneSpec {
  letter: string;
  name: string;
  settings: string;
  /** Its own, as text. */
  fields: Fields;
  prompt: string | null;
}

const LEAD = 400;

export class Lane {
  readonly element = make("section", "acs-lane");
  readonly again = make("button", "acs-lane-run", "Run");
  readonly #body = make("div", "acs-lane-body");
  readonly #empty = make("p", "acs-lane-empty", "Not run yet.");
  readonly #diff = make("p", "acs-lane-diff");
  readonly #name = make("span", "acs-lane-name");
  readonly #settings = make("p", "acs-lane-settings");
  readonly #prompt = make("p", "acs-lane-prompt");
  readonly #was = make("p", "acs-lane-settings");
  #view: RunView | null = null;
  #against: { node: string; diff: LaneDiff } | null = null;

  constructor(
    public spec: LaneSpec,
    readonly form: LaneForm,
    readonly around: Around,
    readonly signal: AbortSignal,
    again: () => void,
  ) {
    const { letter } = spec;
    const head = make("div", "acs-lane-head");
    this.again.setAttribute("aria-label", `Run lane ${letter}`);
    this.again.addEventListener("click", again);
    head.append(make("b", "acs-lane-letter", letter), this.#name, this.again);
    this.#diff.hidden = this.#was.hidden = true;
    this.#body.append(this.#empty);
    this.element.append(head, this.#settings, this.#prompt, form.element, this.#was, this.#diff, this.#body);
    this.tell(spec);
  }

  /** Its name, settings and prompt, as they are now. */
  tell(spec: LaneSpec): void {
    this.spec = spec;
    const { letter, name, settings, fields, prompt } = spec;
    this.form.tell({ fields, prompt });
    this.element.setAttribute("aria-label", `Lane ${letter}: ${name}`);
    this.#name.textContent = name;
    this.#name.title = settings;
    const said = settings.split(" · ").every((part) => name.includes(part));
    say(this.#settings, said ? "" : settings);
    put(this.#prompt, prompt === null ? "" : tail(prompt));
    this.#prompt.hidden = prompt === null || prompt === "";
  }

  get view(): RunView | null {
    return this.#view;
  }

  /** Show a run as it stands; `fresh`: what was drawn no longer holds. */
  update(state: State, at: number, run: string | null, fresh: boolean): void {
    if (this.#view !== null && (fresh || this.#view.id !== run)) {
      this.#view.element.remove();
      this.#view = null;
      this.#against = null;
      say(this.#diff, "");
    }
    this.#empty.hidden = run !== null;
    const was = run === null ? undefined : nameOf(state, run);
    say(this.#was, was === undefined || was === this.spec.name ? "" : `This text: ${was}`);
    if (run === null || state.runs[run] === undefined) return;
    if (this.#view === null) {
      this.#view = new RunView(run, state, this.around, this.signal);
      this.#view.beside();
      this.#body.append(this.#view.element);
    }
    this.#view.update(state, at, false);
    this.#nameSections(state.runs[run].nodes);
  }

  /** A reader that goes from region to region hears which lane each is in. */
  #nameSections(nodes: readonly string[]): void {
    nodes.forEach((id, place) => {
      const of = nodes.length > 1 ? ` ${place + 1} of ${nodes.length}` : "";
      const name = `Lane ${this.spec.letter}, continuation${of}`;
      const section = this.#view?.sectionOf(id);
      if (section?.getAttribute("aria-label") !== name) section?.setAttribute("aria-label", name);
    });
  }

  /** Say and mark where it leaves another lane's text; `null`: it is compared with none. */
  compare(state: State, other: Lane | null): void {
    const [here, reference] = [this.first(state), other?.first(state)];
    if (other === null || here === undefined || reference === undefined) return say(this.#diff, "");
    if (this.#against?.node !== reference.id) {
      const unmark = this.#against !== null;
      this.#against = { node: reference.id, diff: new LaneDiff() };
      if (unmark) this.#redraw(state);
    }
    const { diff } = this.#against;
    diff.update(reference, here, other.spec.letter, ended(state, here) && ended(state, reference));
    say(this.#diff, diff.words);
    // Several choices of a lane are marked where they part among themselves.
    const single = [here, reference].every(({ run }) => state.runs[run]?.nodes.length === 1);
    if (diff.place !== null && single) this.#view?.partAfter(diff.place);
  }

  /** The first continuation of the run that is shown. */
  first(state: State): NodeState | undefined {
    const run = this.#view === null ? undefined : state.runs[this.#view.id];
    return state.nodes[run?.nodes[0] ?? ""];
  }

  look(element: HTMLElement): Looked | undefined {
    return this.#view?.look(element);
  }

  /** A mark of another comparison goes with the elements that have it. */
  #redraw(state: State): void {
    const run = this.#view?.id ?? null;
    const against = this.#against;
    this.update(state, 0, run, true);
    this.#against = against;
  }
}

function ended(state: State, node: NodeState): boolean {
  return node.finish_reason !== null || state.runs[node.run]?.outcome !== "open";
}

function tail(text: string): string {
  const characters = Array.from(text);
  return characters.length > LEAD ? `…${characters.slice(-LEAD).join("")}` : text;
}
