/**
 * What each command of a loom does: it moves in the window, opens a box, or asks the kernel.
 */
import { markOf } from "../revise";
import { textTo, type NodeState, type State } from "../state";
import type { Tending } from "../tending";
import type { Question } from "./loomask";
import { alive, hoisted, isAlive, isBusy, samplingOf, type Row } from "./loomoutline";
import { ownText } from "./loomrow";
import { copyText } from "./takeaway";

/** The window, as its commands need it. */
export interface Tended {
  readonly state: State;
  readonly current: string | null;
  readonly rows: readonly Row[];
  readonly page: number;
  readonly lit: readonly string[];
  readonly found: readonly string[];
  /** Nothing can be changed. */
  readonly frozen: boolean;
  /** Where the loom is kept, or "". */
  readonly file: string;
  taken: string | null;
  placeOf(id: string): number;
  /** The child that was looked at last, or the first. */
  childOf(id: string): string | undefined;
  isFolded(id: string): boolean;
  fold(id: string, folded: boolean): void;
  go(id: string | undefined): void;
  wish(intent: Tending): void;
  /** A mark of a node, as it will be when what was just asked for is done. */
  mark(id: string, field: string): unknown;
  stop(run?: string): void;
  /** Stop one node; the others of its request go on. */
  stopOne(id: string): void;
  ask(question: Question): void;
  say(line: string): void;
  /** Say what the keys do in the text, for as long as the reader is there. */
  hint(line: string): void;
  /** The key of a command, for people. */
  keyOf(command: string): string;
  openGrow(node: string, sampling: Record<string, unknown>): void;
  openSearch(): void;
  openSheet(): void;
  /** Measure a node; `other`: what it is compared with. */
  measure(what: "trie" | "diff" | "map", node: string, other: string | null): void;
  /** Whether a text that leads to the node, or its own, has not come. */
  lacks(id: string): boolean;
  readonly graph: Graph;
  /** Into the text, to the first token of the current node or its middle one; false when it has none. */
  enter(middle: boolean): boolean;
}

/** The graph, as commands need it. */
export interface Graph {
  /** Says whether it is shown now. */
  toggle(): boolean;
  zoom(by: 1 | 0 | -1): void;
  /** The node of the same depth before or after the cursor. */
  beside(by: 1 | -1): string | undefined;
}

/** Commands that change nothing, for a loom that was opened to look at. */
const LOOKING = new Set([
  "up", "down", "parent", "child", "before", "after", "first", "last", "page up", "page down", "text", "unread", "fold",
  "light", "search", "next found", "previous found", "copy", "help", "trie", "diff", "map", "graph", "graph up", "graph down", "zoom in", "zoom out", "zoom fit",
]);

/** Commands that read the whole text of the current node or of what stands above it. */
const READING = new Set(["text", "edit", "split", "copy"]);

export function obey(command: string, at: Tended): void {
  if (at.frozen && !LOOKING.has(command)) return at.say("This loom was opened to look at; it cannot be changed here.");
  const id = at.current;
  const node = id === null ? undefined : at.state.nodes[id];
  if (READING.has(command) && id !== null && at.lacks(id)) return at.say("This text is still on its way.");
  const grow = /^grow (\d)$/.exec(command);
  if (command in anywhere) return anywhere[command]?.(at);
  if (node === undefined) return at.say(`There is no node yet; ${at.keyOf("root")} writes a root.`);
  if (grow !== null) at.wish({ type: "Grow", node: node.id, n: Number(grow[1]) });
  else if (command in moves) at.go(moves[command]?.(at, at.placeOf(node.id), node));
  else here[command]?.(at, node);
}

type Move = (at: Tended, place: number, node: NodeState) => string | undefined;

const rowAt = (at: Tended, place: number) => at.rows[Math.max(0, Math.min(at.rows.length - 1, place))]?.id;

const sibling = (by: number): Move => ({ state }, _, node) => {
  const siblings = alive(state, node.parent);
  return siblings[siblings.indexOf(node.id) + by];
};

const jump = (by: 1 | -1): Move => (at, _, node) => {
  const nodes = at.found.length > 0 ? at.found : at.lit;
  const known = nodes.filter((id) => at.state.nodes[id] !== undefined);
  if (known.length === 0) return void at.say("Nothing is found or lit.");
  const place = known.indexOf(node.id);
  const next = place < 0 && by < 0 ? known.length - 1 : (place + by + known.length) % known.length;
  at.say(`${next + 1} of ${known.length}`);
  return known[next];
};

const moves: Record<string, Move> = {
  up: (at, place) => rowAt(at, place - 1),
  down: (at, place) => rowAt(at, place + 1),
  first: (at) => rowAt(at, 0),
  last: (at) => rowAt(at, Infinity),
  "page up": (at, place) => rowAt(at, place - at.page),
  "page down": (at, place) => rowAt(at, place + at.page),
  before: sibling(-1),
  after: sibling(1),
  "next found": jump(1),
  "previous found": jump(-1),
  "graph up": ({ graph }) => graph.beside(-1),
  "graph down": ({ graph }) => graph.beside(1),
  parent: ({ state }, _, node) => (node.parent === null || hoisted(state) === node.id ? undefined : node.parent),
  child(at, _, node) {
    if (at.isFolded(node.id) && alive(at.state, node.id).length > 0) return void at.fold(node.id, false);
    return at.childOf(node.id);
  },
  unread(at, place) {
    const unread = (row: Row) => markOf(at.state, row.id, "unread") === true;
    const next = at.rows.slice(place + 1).find(unread) ?? at.rows.slice(0, place).find(unread);
    if (next === undefined) at.say("Everything that is shown has been read.");
    return next?.id;
  },
};

const anywhere: Record<string, (at: Tended) => void> = {
  undo: (at) => at.wish({ type: "Undo" }),
  redo: (at) => at.wish({ type: "Redo" }),
  unhoist: (at) => at.wish({ type: "Hoist", node: null }),
  "stop all": (at) => at.stop(),
  graph: (at) => at.say(at.graph.toggle() ? "The graph is shown." : "The graph is put away."),
  "zoom in": ({ graph }) => graph.zoom(1),
  "zoom out": ({ graph }) => graph.zoom(-1),
  "zoom fit": ({ graph }) => graph.zoom(0),
  search: (at) => at.openSearch(),
  help: (at) => at.openSheet(),
  root: (at) => at.ask({ label: "Text of a new root", text: "", act: "Add root", done: (text) => void at.wish({ type: "Write", text }) }),
  store(at) {
    if (at.file !== "") return at.say(`Kept in ${at.file}, every change as it happens.`);
    const note = "on the kernel’s machine, beside the notebook unless a folder is named; every change is appended";
    at.ask({ label: "Keep in a new file", text: "tree.loom", act: "Keep", line: true, note, done: (path) => void at.wish({ type: "Store", path: path.trim() }) });
  },
};

type Here = (at: Tended, node: NodeState) => void;

/** Ask for a text of a node; when the node is gone by the time it is sent, the box keeps it. */
function askOf(at: Tended, node: NodeState, question: Question): void {
  at.ask({ ...question, done: (text, place) => (isAlive(at.state, node.id) ? question.done(text, place) : GONE) });
}

const GONE = "The node was deleted meanwhile: copy the text, or press Undo, which brings the node back, and send it again.";

const here: Record<string, Here> = {
  trie(at, node) {
    const none = alive(at.state, node.id).length === 0;
    if (none) return at.say(`No children here: ${at.keyOf("parent")} goes to the parent, ${at.keyOf("grow 3")} grows three.`);
    at.measure("trie", node.id, null);
  },
  diff: (at, node) => at.measure("diff", ...compared(at, node.id)),
  map: (at, node) => at.measure("map", node.id, null),
  text: (at) => at.enter(false) || at.say("This node has no tokens."),
  grow: (at, node) => at.openGrow(node.id, samplingOf(at.state, node.id)),
  stop: (at, node) => stopHere(at, node),
  merge: (at, node) => at.wish({ type: "Merge", node: node.id }),
  delete: (at, node) => at.wish({ type: "Delete", nodes: [node.id] }),
  "move up": (at, node) => at.wish({ type: "Shift", node: node.id, by: -1 }),
  "move down": (at, node) => at.wish({ type: "Shift", node: node.id, by: 1 }),
  fold: (at, node) => (alive(at.state, node.id).length > 0 ? at.fold(node.id, !at.isFolded(node.id)) : at.say("There is nothing to fold.")),
  hoist: (at, node) => at.wish({ type: "Hoist", node: node.id }),
  bookmark: (at, node) => at.wish({ type: "Mark", node: node.id, bookmark: at.mark(node.id, "bookmark") !== true }),
  "mark unread": (at, node) => at.wish({ type: "Mark", node: node.id, unread: at.mark(node.id, "unread") !== true }),
  light: (at, node) => at.wish({ type: "Light", nodes: at.lit.includes(node.id) ? at.lit.filter((id) => id !== node.id) : [...at.lit, node.id] }),
  "rate up": (at, node) => rate(at, node, 1),
  "rate down": (at, node) => rate(at, node, -1),
  copy: (at, node) => void copyText(textTo(at.state, node.id)).then((done) => at.say(done ? "Copied." : "This page may not write to the clipboard.")),
  take(at, node) {
    at.taken = node.id;
    at.say(`Taken; ${at.keyOf("put")} puts it below another node, ${at.keyOf("put root")} as a root.`);
  },
  put: (at, node) => put(at, node.id),
  "put root": (at) => put(at, null),
  edit(at, node) {
    if (isBusy(at.state, node.id)) return at.say("This node is still being generated: stop it, or wait.");
    const text = ownText(at.state, node);
    askOf(at, node, { label: "Another text beside this one; it stays as it is", text, act: "Add as sibling", done: (other) => (other === text ? "The text is as it was." : void at.wish({ type: "Rewrite", node: node.id, text: other })) });
  },
  sibling: (at, node) => askOf(at, node, { label: "Text of a new sibling", text: "", act: "Add sibling", done: (text) => void at.wish({ type: "Write", text, beside: node.id }) }),
  write: (at, node) => askOf(at, node, { label: "Text that goes on from here", text: "", act: "Add child", done: (text) => void at.wish({ type: "Write", text, parent: node.id }) }),
  note(at, node) {
    const text = String(markOf(at.state, node.id, "note") ?? "");
    askOf(at, node, { label: "Note", text, act: "Set note", done: (note) => void at.wish({ type: "Mark", node: node.id, note: note === "" ? null : note }) });
  },
  tag(at, node) {
    const text = ((markOf(at.state, node.id, "tags") ?? []) as string[]).join(" ");
    askOf(at, node, { label: "Tags, with blanks between", text, act: "Set tags", line: true, done: (tags) => void at.wish({ type: "Mark", node: node.id, tags: tags.split(/\s+/).filter((tag) => tag !== "") }) });
  },
  split(at, node) {
    if (node.tokens.length > 1 && at.enter(true)) return at.hint(`Arrows choose a token; ${at.keyOf("split")} splits before it, Escape goes back.`);
    const text = ownText(at.state, node);
    if (Array.from(text).length < 2) return at.say("There is nothing to split.");
    askOf(at, node, {
      label: "Put the cursor where the text is to be split", text, act: "Split here", note: "The text itself stays as it is.",
      done: (other, place) => (other === text ? void at.wish({ type: "Split", node: node.id, at: place }) : "The text was changed; only the cursor counts here."),
    });
  },
};

/** Two lit nodes, or the current one and the one that is lit, else its neighbour. */
function compared(at: Tended, node: string): [string, string | null] {
  const [first, second, more] = at.lit;
  if (first !== undefined && second !== undefined && more === undefined) return [first, second];
  return [node, at.lit.find((id) => id !== node) ?? null];
}

/** What comes is stopped alone; at what is there, all that comes below it. */
function stopHere(at: Tended, node: NodeState): void {
  if (isBusy(at.state, node.id)) return at.stopOne(node.id);
  const runs = new Set(alive(at.state, node.id).filter((id) => isBusy(at.state, id)).map((id) => at.state.nodes[id]?.run));
  if (runs.size === 0) at.say("Nothing comes here.");
  for (const run of runs) at.stop(run);
}

function rate(at: Tended, node: NodeState, by: 1 | -1): void {
  const now = at.mark(node.id, "rating");
  const next = (typeof now === "number" ? now : 0) + by;
  if (next > 5 || next < 0) return;
  at.wish({ type: "Mark", node: node.id, rating: next === 0 ? null : next });
}

function put(at: Tended, parent: string | null): void {
  if (at.taken === null) return at.say(`Nothing was taken; ${at.keyOf("take")} takes a node.`);
  at.wish({ type: "Move", node: at.taken, parent });
  at.taken = null;
}
