/**
 * The board of a comparison: one prompt over lanes that stream side by side, each with its own Run, Stop and error; how
 * all are coloured; which lane the others are compared with; and the rounds that were run before.
 */
import { LOST, widget, type Fields, type Host, type Word } from "../host";
import { type Choices, choicesOf } from "../parts/choices";
import { Controls } from "../parts/controls";
import { describe } from "../parts/description";
import { freshId, make, say } from "../parts/dom";
import { mount } from "../parts/mounting";
import { inspect, type Looked } from "../parts/inspect";
import { Lane, type LaneSpec } from "../parts/lane";
import type { Field } from "../parts/fields";
import { LaneForm, type LaneDraft } from "../parts/laneform";
import { PromptBox } from "../parts/promptbox";
import { roundsOf, roundWords, shownAfter } from "../parts/rounds";
import type { Around } from "../parts/run";
import { Tooltip } from "../parts/tooltip";
import { askedOf } from "../state";

const KEEP_AFTER_MS = 300;
const BUSY_AFTER_MS = 1000;
const BUSY = "The kernel is busy; it runs as soon as the kernel is free.";

class Board {
  readonly element = make("section", "acs acs-live acs-compare");
  readonly #box: PromptBox | null;
  readonly #lanes: Lane[];
  readonly #choices: Choices;
  readonly #controls: Controls;
  readonly #tip = new Tooltip();
  readonly #run = button("acs-run-button", "Run all", "Send every lane");
  readonly #stop = button("", "Stop all", "End every lane and keep what came");
  readonly #round = make("select", "acs-quiet");
  readonly #reference = make("select", "acs-quiet");
  readonly #refusal = make("p", "acs-error");
  readonly #notice = make("p", "acs-notice");
  #rounds = 0;
  #keeping: ReturnType<typeof setTimeout> | undefined;
  #waiting: ReturnType<typeof setTimeout> | undefined;

  constructor(
    readonly host: Host,
    signal: AbortSignal,
  ) {
    this.#choices = choicesOf(host);
    this.#controls = new Controls(this.#choices);
    this.element.setAttribute("aria-label", "Comparison");
    this.#box = host.option<boolean>("shared") === false ? null : new PromptBox(() => this.#edited());
    const around: Around = {
      choices: this.#choices,
      showPrompt: false,
      edit: null,
      locate: null,
      stop: (run) => this.#end(run),
      go: () => undefined,
      hide: () => undefined,
    };
    const specs = host.option<LaneSpec[]>("lanes") ?? [];
    const [fields, common] = [host.option<Field[]>("form") ?? [], host.option<Fields>("common") ?? {}];
    this.#lanes = specs.map((spec, place) => {
      const form = new LaneForm(spec.letter, fields, common, () => this.#edited());
      return new Lane(spec, form, around, signal, () => this.#send(place));
    });
    const grid = make("div", "acs-lanes");
    grid.dataset["count"] = String(specs.length);
    grid.append(...this.#lanes.map(({ element }) => element));
    this.element.append(...(this.#box === null ? [] : [this.#box.element]), this.#bar(specs), this.#refusal, this.#notice, grid, this.#tip.element);
    this.#inspect(signal);
    this.#listen(signal);
    this.#adopt();
    this.update(false);
  }

  /** Bring everything up to the state; a round that is new is shown. */
  update(fresh: boolean): void {
    const { state, at } = this.host;
    const rounds = roundsOf(state);
    const last = rounds.at(-1)?.number ?? 0;
    if (last !== this.#rounds || fresh) {
      if (fresh) this.#tip.hide();
      this.#offer(rounds.map((round) => [round.number, roundWords(round, this.#letters)]), last);
      this.#rounds = last;
    }
    const shown = Number(this.#round.value);
    this.#lanes.forEach((lane, place) => lane.update(state, at, shownAfter(state, place, shown), fresh));
    this.#compare();
    const running = this.#lanes.map((_, place) => this.#isRunning(place));
    this.#lanes.forEach(({ again, view }, place) => {
      if (again.textContent !== (view === null ? "Run" : "Run again")) again.textContent = view === null ? "Run" : "Run again";
      able(again, running[place] === false);
    });
    able(this.#run, !running.includes(true));
    able(this.#stop, running.includes(true));
    this.#controls.element.hidden = !Object.values(state.nodes).some(({ logprobs }) => logprobs.length > 0);
  }

  get #letters(): string[] {
    return this.#lanes.map(({ spec }) => spec.letter);
  }

  #bar(specs: LaneSpec[]): HTMLElement {
    const bar = make("div", "acs-compare-bar");
    for (const { letter } of specs) this.#reference.append(option(letter, `lane ${letter}`));
    this.#reference.append(option("", "nothing"));
    const side = make("span", "acs-side");
    side.append(labelled("against", this.#reference), labelled("round", this.#round), this.#controls.element);
    bar.append(this.#run, this.#stop, side);
    this.#reference.parentElement!.hidden = specs.length < 2;
    this.#round.parentElement!.hidden = true;
    this.#refusal.hidden = this.#notice.hidden = true;
    this.#refusal.setAttribute("role", "alert");
    this.#notice.setAttribute("role", "status");
    return bar;
  }

  #listen(signal: AbortSignal): void {
    this.#run.addEventListener("click", () => this.#send());
    this.#stop.addEventListener("click", () => {
      if (this.#stop.getAttribute("aria-disabled") !== "true") this.#end();
    });
    this.#round.addEventListener("change", () => {
      this.#tip.hide();
      this.update(false);
    });
    this.#reference.addEventListener("change", () => this.#compare());
    this.#choices.listen(() => {
      this.#controls.show();
      for (const { view } of this.#lanes) view?.repaint();
    });
    this.#box?.element.addEventListener("keydown", (event) => onSend(event, () => this.#send()));
    this.#lanes.forEach(({ form }, place) => form.element.addEventListener("keydown", (event) => onSend(event, () => this.#send(place))));
    // JupyterLab refuses line breaks in any box inside a cell, by a listener on the box itself: it must not hear of them.
    this.element.addEventListener("beforeinput", (event) => event.stopPropagation(), { capture: true });
    const watched = ["prompt", "drafts", "lanes"].map((name) => this.host.watch(name, () => this.#adopt()));
    const ends = [this.host.hear((word) => this.#heard(word)), ...watched];
    signal.addEventListener("abort", () => {
      for (const end of ends) end();
      this.#flush();
      this.#tip.hide();
    });
  }

  #inspect(signal: AbortSignal): void {
    const laneOf = (element: HTMLElement) => this.#lanes.find((lane) => lane.element.contains(element));
    const inspection = {
      look: (element: HTMLElement) => laneOf(element)?.look(element),
      describe: ({ node, piece, parts }: Looked) => describe(node, piece, askedOf(this.host.state.runs[node.run]), parts),
      chosen: (element: HTMLElement, looked: Looked) => laneOf(element)?.view?.choose(element, looked),
    };
    inspect(this.element, this.#tip, inspection, signal);
  }

  #compare(): void {
    const reference = this.#lanes.find(({ spec }) => spec.letter === this.#reference.value) ?? null;
    for (const lane of this.#lanes) lane.compare(this.host.state, lane === reference ? null : reference);
  }

  #offer(rounds: [number, string][], last: number): void {
    this.#round.replaceChildren(...rounds.map(([number, words]) => option(String(number), words)));
    this.#round.value = String(last);
    this.#round.parentElement!.hidden = rounds.length < 2;
  }

  /** Whether a run of the lane is coming, whichever round is shown. */
  #isRunning(place: number): boolean {
    const run = shownAfter(this.host.state, place, Infinity);
    return run !== null && this.host.running(run);
  }

  #end(run?: string): void {
    if (!this.host.send(run === undefined ? { type: "Cancel" } : { type: "Cancel", run })) say(this.#refusal, LOST);
  }

  #send(lane?: number): void {
    const asker = lane === undefined ? this.#run : this.#lanes[lane]?.again;
    if (this.#waiting !== undefined || asker?.getAttribute("aria-disabled") === "true" || (this.#box?.problem ?? "") !== "") return;
    if (!this.#lanes.every(({ form }, place) => (lane ?? place) !== place || form.check())) return;
    this.#flush();
    say(this.#refusal, "");
    say(this.#notice, "");
    const asked = { type: "RunLanes" as const, prompt: this.#box?.text ?? "", drafts: this.#drafts };
    if (!this.host.send(lane === undefined ? asked : { ...asked, lane })) return say(this.#refusal, LOST);
    this.#waiting = setTimeout(() => say(this.#notice, BUSY), BUSY_AFTER_MS);
  }

  #heard(word: Word): void {
    clearTimeout(this.#waiting);
    this.#waiting = undefined;
    if (this.#notice.textContent === BUSY) say(this.#notice, "");
    if (word.refused !== undefined) say(this.#refusal, word.refused.message);
  }

  #edited(): void {
    clearTimeout(this.#keeping);
    this.#keeping = setTimeout(() => this.#flush(), KEEP_AFTER_MS);
  }

  get #drafts(): LaneDraft[] {
    return this.#lanes.map(({ form }) => form.draft);
  }

  /** Let the kernel keep what stands in the boxes, for a reload. */
  #flush(): void {
    if (this.#keeping === undefined) return;
    clearTimeout(this.#keeping);
    this.#keeping = undefined;
    if (this.#box?.problem === "") this.host.keep("prompt", this.#box.text);
    this.host.keep("drafts", this.#drafts);
  }

  /** What the kernel or another view has changed; whoever types here goes before it. */
  #adopt(): void {
    const specs = this.host.option<LaneSpec[]>("lanes") ?? [];
    this.#lanes.forEach((lane, place) => {
      const spec = specs[place];
      if (spec !== undefined && JSON.stringify(spec) !== JSON.stringify(lane.spec)) lane.tell(spec);
    });
    if (this.#keeping !== undefined) return;
    if (!this.#box?.element.contains(document.activeElement)) this.#box?.put(this.host.option<string>("prompt") ?? "");
    const drafts = this.host.option<LaneDraft[]>("drafts") ?? [];
    this.#lanes.forEach(({ form }, place) => {
      const draft = drafts[place];
      if (draft !== undefined) form.put(draft);
    });
  }
}

function onSend(event: KeyboardEvent, send: () => void): void {
  if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
  event.preventDefault();
  event.stopPropagation();
  send();
}

function button(name: string, words: string, about: string): HTMLButtonElement {
  const made = make("button", name, words);
  made.title = about;
  return made;
}

function able(made: HTMLButtonElement, yes: boolean): void {
  made.setAttribute("aria-disabled", String(!yes));
}

function option(value: string, words: string): HTMLOptionElement {
  const made = make("option", "", words);
  made.value = value;
  return made;
}

function labelled(words: string, field: HTMLSelectElement): HTMLElement {
  const label = make("label", "acs-compare-label", `${words} `);
  field.id = freshId(words);
  label.htmlFor = field.id;
  label.append(field);
  return label;
}

export default () => widget((host, el, signal) => mount(new Board(host, signal), host, el, signal));
