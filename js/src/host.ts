/**
 * The one file that touches the widget model: messages in, intents out.
 *
 * It keeps the state of the session as the kernel tells it, notices what is missing, and tells its listeners.
 * Stop: the kernel answers a Cancel at once when it is free to. A cell that blocks the kernel cannot answer;
 * then the kernel itself is interrupted, but only while a run is still coming.
 */
import type { AnyModel, InitializeProps, RenderProps } from "@anywidget/types";
import type { Event } from "./events";
import { dress } from "./shadow";
import { Delivery } from "./delivery";
import { unpack } from "./packing";
import { sourceOf } from "./parts/road";
import type { LoomWord, Tending } from "./tending";
import type { Snapshot } from "./packing";
import { emptyState, fold, goesOn, type RunState, type State } from "./state";

export type Branching =
  | { type: "Fork"; node: string; token: number; text: string; exact?: boolean }
  | { type: "Resample"; node: string; token: number; exact?: boolean }
  | { type: "Edit"; node: string; text: string }
  | { type: "Locate"; node: string };

/** A request's fields as text, the way options are written. */
export type Fields = Record<string, string>;

export type Intent =
  | { type: "Cancel"; run?: string }
  | { type: "Resync"; seen: number }
  | { type: "Confirm"; copy: string }
  | { type: "Read"; nodes: string[] }
  | { type: "Run"; prompt: string; fields: Fields }
  | { type: "Continue"; node: string; fields: Fields }
  | { type: "Keep"; prompt: string; fields: Fields }
  | { type: "Export" }
  | { type: "RunLanes"; prompt: string; lane?: number; drafts: { fields: Fields; prompt: string | null }[] }
  | Branching
  | Tending;


export const ACK_WITHIN_MS = 300;
/** After this long without an answer to what interrupts nothing, the reader is told. */
export const TELL_AFTER_MS = 1500;
const BUSY = "The kernel has not answered yet: it is busy, and does this when free, or it is gone.";
const GONE = "The kernel that made this text is gone; run the cell again to branch from it.";
/** How a line begins that says that nothing comes of a wish; others tell what goes on. */
const REFUSED = /^(No branch was begun|The kernel that made)/;

/** What the kernel says beside the log. */
export interface Word {
  /** What was asked for is not done: why, and at which field. */
  refused?: { field: string | null; message: string };
  export?: { name: string; text: string };
  ran?: true;
  loom?: LoomWord;
  /** Of a loom: contents that its outline left out. */
  contents?: string;
}

export const LOST_TEXT =
  "The kernel is gone. %acs recover puts what its cells had received into the notebook; until then this text is whole in this page only.";

export const LOST = "The kernel is gone or was restarted. What is here stays readable; run the cell again to go on.";

interface Message extends Word {
  seq?: number;
  at?: number;
  events?: Event[];
  snapshot?: string;
  ack?: string;
  ask?: string;
  told?: string;
  stops?: string;
}

interface Managing {
  kernel?: { id?: string; interrupt?: () => unknown } | null;
}

/** `fresh`: the state is another one, and what was drawn from the old one no longer holds. */
export type Listener = (fresh: boolean) => void;

export interface Host {
  readonly state: State;
  /** When the last thing happened, by the kernel's clock. */
  readonly at: number;
  /** Whether this page came to a state that was there already: it was reloaded since the cell began. */
  readonly restored: boolean;
  /** The id of its kernel, as far as it is known. */
  readonly kernel: string;
  option<T>(name: string): T | undefined;
  /** One line about what was asked for and not done, or "". */
  readonly told: string;
  /** What goes on while that line stands, and can be stopped; "" when nothing does. */
  readonly asking: string;
  /** Stop that. */
  giveUp(): void;
  /** Whether nothing will come of what was asked for last. */
  readonly refused: boolean;
  /** Runs that had ended when this page came to them. */
  readonly settled: ReadonlySet<string>;
  running(run?: string): boolean;
  /** Stop a run, or all. */
  stop(run?: string): void;
  branch(intent: Branching | Tending): void;
  /** False when there is no kernel to ask. */
  send(intent: Intent): boolean;
  listen(listener: Listener): () => void;
  /** Be told of words of the kernel that are not of the log. */
  hear(hearer: (word: Word) => void): () => void;
  /** A trait that both sides write. */
  keep(name: string, value: unknown): void;
  watch(name: string, watcher: () => void): () => void;
  close(): void;
}

export function kernelOf(model: AnyModel) {
  return (model.widget_manager as Managing | undefined)?.kernel;
}

/** How a kind of window reads what comes. */
export interface Folding {
  unpack(text: string, before: State): Snapshot | null;
  fold(state: State, event: Event, at: number): void;
  goesOn(before: State, after: State): boolean;
}

export function connect(model: AnyModel, { unpack: read, fold: take, goesOn: isMore }: Folding = { unpack, fold, goesOn }): Host {
  let state = emptyState();
  let seq = 0;
  let at = 0;
  let asked = false;
  let told = "";
  let asking = "";
  let lost = false;
  let unanswered = false;
  let waiting: ReturnType<typeof setTimeout> | undefined;
  let patience: ReturnType<typeof setTimeout> | undefined;
  const listeners = new Set<Listener>();
  const hearers = new Set<(word: Word) => void>();

  const tell = (fresh: boolean) => {
    for (const listener of listeners) listener(fresh);
  };

  const delivery = new Delivery((message) => model.send(message));
  /** False when there is no kernel. */
  const send = (intent: Intent): boolean => delivery.deliver(intent);

  const say = (line: string, stops = "") => {
    told = line;
    asking = stops;
    tell(false);
  };

  /** Ask for what may wait: when the kernel does not take it, that is said, and nothing is interrupted. */
  const ask = (intent: Intent) => {
    clearTimeout(patience);
    patience = setTimeout(() => say(BUSY), TELL_AFTER_MS);
    unanswered = true;
    if (!send(intent)) lose();
  };

  const adopt = (packed: string) => {
    const snapshot = read(packed, state);
    if (snapshot === null || snapshot.seq < seq || (snapshot.seq === seq && !asked && seq > 0)) return;
    const before = state;
    ({ state, seq, at } = snapshot);
    asked = false;
    // What was drawn stays where it still holds: its reader may be in the middle of something.
    tell(!isMore(before, state));
  };

  const resync = () => {
    if (asked) return;
    asked = true;
    delivery.deliver({ type: "Resync", seen: seq });
  };

  const receive = (message: Message) => {
    if (message.ack !== undefined) {
      if (message.ask !== undefined) delivery.answered(message.ask);
      clearTimeout(waiting);
      clearTimeout(patience);
      unanswered = false;
      if (told === BUSY) say("");
    } else if (message.told !== undefined) say(message.told, message.stops);
    else if (message.snapshot !== undefined) adopt(message.snapshot);
    else if (message.events !== undefined && message.seq !== undefined) {
      if (asked || message.seq <= seq) return;
      if (message.seq > seq + 1) return resync();
      at = message.at ?? at;
      try {
        for (const event of message.events) take(state, event, at);
        seq = message.seq;
      } catch {
        return resync();
      }
      tell(false);
    } else for (const hearer of hearers) hearer(message);
  };

  const stopClocks = () => {
    for (const clock of [waiting, patience]) clearTimeout(clock);
    delivery.end();
  };

  const isOpen = (run: RunState) => run.outcome === "open";
  const running = (run?: string) => Object.values(state.runs).some((one) => isOpen(one) && (run ?? one.id) === one.id);

  const stop = (run?: string) => {
    if (!running(run)) return;
    const intent: Intent = run === undefined ? { type: "Cancel" } : { type: "Cancel", run };
    // A branch or a run in the background does not keep the kernel busy: an interrupt would hit somebody else's cell.
    if (model.get("interrupts") === false || (run !== undefined && sourceOf(state, run) !== null)) return ask(intent);
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      if (running(run)) kernelOf(model)?.interrupt?.();
    }, ACK_WITHIN_MS);
    send(intent);
  };

  /** What was asked for reaches nobody. */
  const lose = () => {
    clearTimeout(patience);
    unanswered = false;
    say(GONE);
  };

  const branch = (intent: Branching | Tending) => {
    if (lost) return lose();
    say("");
    ask(intent);
  };

  // The kernel was restarted: it knows nothing of these runs, and must not be interrupted for their sake.
  const onLost = () => {
    lost = true;
    stopClocks();
    const open = Object.values(state.runs).filter(isOpen);
    for (const run of open) fold(state, { type: "RunClosed", run: run.id, outcome: "interrupted" }, at);
    if (open.length > 0) say(LOST_TEXT);
    else if (unanswered) lose();
    else tell(false);
    for (const hearer of hearers) hearer({ refused: { field: null, message: LOST } });
  };

  const onSnapshot = () => adopt(String(model.get("snapshot")));
  model.on("msg:custom", receive);
  model.on("change:snapshot", onSnapshot);
  model.on("comm_live_update", onLost);
  onSnapshot();
  const restored = seq > 0;
  const settled = new Set(Object.values(state.runs).filter((run) => !isOpen(run)).map(({ id }) => id));

  return {
    get state() {
      return state;
    },
    get at() {
      return at;
    },
    get told() {
      return told;
    },
    get asking() {
      return asking;
    },
    giveUp() {
      if (asking !== "") ask({ type: "Cancel", run: asking });
    },
    get refused() {
      return lost || REFUSED.test(told);
    },
    restored,
    settled,
    kernel: kernelOf(model)?.id ?? "",
    option: (name) => model.get(name),
    running,
    stop,
    branch,
    send,
    hear(hearer) {
      hearers.add(hearer);
      return () => hearers.delete(hearer);
    },
    keep(name, value) {
      model.set(name, value);
      try {
        model.save_changes();
      } catch {
        // No kernel: it is kept in this page alone.
      }
    },
    watch(name, watcher) {
      model.on(`change:${name}`, watcher);
      return () => model.off(`change:${name}`, watcher);
    },
    listen(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    close() {
      stopClocks();
      model.off("msg:custom", receive);
      model.off("change:snapshot", onSnapshot);
      model.off("comm_live_update", onLost);
      listeners.clear();
    },
  };
}

/** What a window's module gives: one host a model, made before its first message; any number of views. */
export function widget(draw: (host: Host, element: HTMLElement, signal: AbortSignal) => void, folding?: Folding) {
  let host: Host | undefined;
  const hostOf = (model: AnyModel) => (host ??= connect(model, folding));
  return {
    initialize({ model }: InitializeProps) {
      const made = hostOf(model);
      return () => made.close();
    },
    render({ model, el }: RenderProps) {
      const ended = new AbortController();
      dress(el);
      draw(hostOf(model), el, ended.signal);
      return () => ended.abort();
    },
  };
}
