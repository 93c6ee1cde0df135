/**
 * The line over a run: how it stands, figures, the request id, and Stop.
 */
import type { RunState, State } from "../state";
import { make, say } from "./dom";
import { completionTokens, figures, finishWords, modelName, outcomeWords, tokenCount } from "./status";

/** Figures of a run that is coming change no more often than this; nobody reads faster. */
const FIGURES_EVERY_MS = 150;
/** A reader is told of progress no more often than this. */
const TELL_EVERY_MS = 5000;
/** Stop can be pressed again when nothing has come of it. */
const STOP_AGAIN_MS = 2500;

export class StatusLine {
  readonly element = make("footer", "acs-status");
  readonly #state = make("span", "acs-state");
  readonly #items = make("span", "acs-items");
  readonly #note = make("span", "acs-note");
  readonly #id = make("button", "acs-id");
  readonly #stop = make("button", "acs-stop", "Stop");
  readonly #live = make("span", "acs-hidden");
  #told = -Infinity;
  #counted = -Infinity;
  #later: ReturnType<typeof setTimeout> | undefined;
  #copied: ReturnType<typeof setTimeout> | undefined;

  constructor(
    stop: () => void,
    /** What stands to the right of the figures. */
    ...tools: HTMLElement[]
  ) {
    this.#live.setAttribute("role", "status");
    this.#id.hidden = this.#stop.hidden = true;
    this.#stop.addEventListener("click", () => {
      if (this.#stop.getAttribute("aria-disabled") === "true") return;
      this.#stopping(true);
      setTimeout(() => this.#stopping(false), STOP_AGAIN_MS);
      stop();
    });
    this.#id.addEventListener("click", () => void this.#copy());
    const side = make("span", "acs-side");
    side.append(...tools, this.#id);
    this.element.append(this.#stop, this.#state, this.#items, this.#note, side, this.#live);
  }

  /** `known`: which model it is stands elsewhere. */
  update(state: State, run: RunState, at: number, known = false): void {
    const open = run.outcome === "open";
    this.element.dataset["outcome"] = run.outcome;
    const [only] = run.nodes;
    const node = run.nodes.length === 1 && only !== undefined ? state.nodes[only] : undefined;
    const finish = node === undefined || run.outcome === "failed" ? "" : finishWords(node, run);
    say(this.#state, run.outcome === "done" && finish !== "" ? finish : outcomeWords(run));
    clearTimeout(this.#later);
    const count = () => {
      this.#counted = performance.now();
      this.#sayItems([...(known ? [] : [modelName(run)]), ...figures(state, run, at)]);
    };
    const wait = open ? this.#counted + FIGURES_EVERY_MS - performance.now() : 0;
    if (wait <= 0) count();
    else this.#later = setTimeout(count, wait + FIGURES_EVERY_MS); // the next message is sooner, and needs no frame of its own
    say(this.#note, open && run.first_token_at === null ? waiting(run) : "");
    this.#sayId(run.request_id ?? run.completion_id);
    if (!open && this.#stop.contains(document.activeElement)) {
      this.element.tabIndex = -1;
      this.element.focus(); // where Stop was
    }
    this.#stop.hidden = !open;
    this.#tell(state, run);
  }

  #sayItems(items: string[]): void {
    while (this.#items.children.length > items.length) this.#items.lastChild?.remove();
    items.forEach((item, place) => {
      const element = this.#items.children[place] ?? this.#items.appendChild(make("span", "acs-item"));
      if (element.textContent !== item) element.textContent = item;
    });
  }

  #sayId(id: string | null): void {
    this.#id.hidden = id === null;
    if (id === null || this.#copied !== undefined) return;
    this.#id.dataset["id"] = id;
    this.#id.title = `Copy the request id ${id}`;
    if (this.#id.textContent !== id) this.#id.textContent = id;
  }

  async #copy(): Promise<void> {
    const id = this.#id.dataset["id"] ?? "";
    try {
      await navigator.clipboard.writeText(id);
    } catch {
      getSelection()?.selectAllChildren(this.#id); // no clipboard here: leave it selected
      return;
    }
    clearTimeout(this.#copied);
    this.#id.textContent = "copied";
    this.#copied = setTimeout(() => {
      this.#copied = undefined;
      this.#id.textContent = id;
    }, 1200);
  }

  #stopping(yes: boolean): void {
    this.#stop.textContent = yes ? "Stopping…" : "Stop";
    this.#stop.setAttribute("aria-disabled", String(yes));
  }

  #tell(state: State, run: RunState): void {
    const now = performance.now();
    if (run.outcome === "open" && now - this.#told < TELL_EVERY_MS) return;
    this.#told = now;
    const words = `${outcomeWords(run)}, ${tokenCount(completionTokens(state, run))}`;
    if (this.#live.textContent !== words) this.#live.textContent = words;
  }
}

function waiting(run: RunState): string {
  return run.note === null ? "" : run.note.replace(/\s+/g, " ").trim();
}
