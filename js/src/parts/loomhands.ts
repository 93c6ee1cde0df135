/**
 * What commands, tokens and clicks can do to a loom's window: what they see of it, and whom they reach.
 *
 * It must not know the page, nor who has to show what was changed: that is `loomview.ts`.
 */
import type { Branching, Host } from "../host";
import { markOf } from "../revise";
import type { State } from "../state";
import type { Tending } from "../tending";
import type { Pictures } from "./graph/pictures";
import type { Looked } from "./inspect";
import { obey, type Graph, type Tended } from "./loomacts";
import type { Question } from "./loomask";
import type { Boxes } from "./loomboxes";
import type { Contents } from "./loomcontents";
import type { Cursor } from "./loomcursor";
import type { Facts } from "./loomfacts";
import { growsBelow } from "./loomdrag";
import type { Row } from "./loomoutline";
import type { Texts } from "./loomtexts";
import type { TokenDesk } from "./loomtokens";
import type { TreeView } from "./loomtree";
import { Wishes } from "./loomwishes";
import type { What } from "./measure/panel";

/** What leads to no other place. */
const QUIET = new Set(["Visit", "Fold", "Light", "Mark", "Search", "Grow", "Cancel", "Measure"]);

/** The window and its parts, as hands reach them. */
export interface Reached {
  readonly host: Host;
  readonly tree: TreeView;
  readonly cursor: Cursor;
  readonly texts: Texts;
  readonly pictures: Pictures;
  readonly contents: Contents;
  readonly boxes: Boxes;
  readonly facts: Facts;
  /** The key of a command, for people. */
  keyOf(command: string): string;
  /** Go to a node and show it. */
  show(id: string | undefined): void;
  fold(id: string, folded: boolean): void;
}

export class Hands implements Tended, TokenDesk {
  taken: string | null = null;
  /** Whether the reader went somewhere since they last asked for something that leads elsewhere. */
  moved = false;
  readonly #wishes = new Wishes();
  #hint = "";

  constructor(readonly window: Reached) {}

  get state(): State {
    return this.window.host.state;
  }

  get current(): string | null {
    return this.window.cursor.current;
  }

  get rows(): readonly Row[] {
    return this.window.tree.rows;
  }

  get page(): number {
    return this.window.tree.page;
  }

  get graph(): Graph {
    return this.window.pictures.graph;
  }

  get lit(): readonly string[] {
    return this.#wishes.of("", "lit", this.window.host.option<string[]>("lit") ?? []) as string[];
  }

  get found(): readonly string[] {
    return this.window.boxes.search.found;
  }

  get frozen(): boolean {
    return this.window.host.option<boolean>("frozen") === true;
  }

  get file(): string {
    return this.window.host.option<string>("file") ?? "";
  }

  act(command: string): void {
    obey(command, this);
  }

  placeOf(id: string): number {
    return this.window.tree.placeOf(id);
  }

  childOf(id: string): string | undefined {
    return this.window.cursor.childOf(id);
  }

  isFolded(id: string): boolean {
    return this.window.cursor.isFolded(id);
  }

  fold(id: string, folded: boolean): void {
    this.window.fold(id, folded);
    if (!this.frozen) this.wish({ type: "Fold", node: id, folded });
  }

  /** Where the reader goes is where they stay, whatever comes of earlier wishes. */
  go(id: string | undefined): void {
    this.moved = true;
    this.window.show(id);
  }

  wish(intent: Tending): void {
    this.#wishes.note(intent);
    if (!QUIET.has(intent.type)) this.moved = false;
    this.window.host.branch(intent);
  }

  branch(intent: Branching): void {
    this.moved = false;
    this.window.host.branch(intent);
  }

  edit(node: string): void {
    this.go(node);
    this.act("edit");
  }

  /** Whether a node may be moved; if not, it is said why. */
  canMove(node: string): boolean {
    const why = this.frozen ? "This loom was opened to look at; it cannot be changed here." : growsBelow(this.state, node) ? "Something is still being generated here: stop it, or wait." : "";
    if (why !== "") this.say(why);
    return why === "";
  }

  look(element: HTMLElement): Looked | undefined {
    return this.window.texts.look(element);
  }

  hold(node: string): void {
    this.window.texts.children.hold(node);
  }

  mark(id: string, field: string): unknown {
    return this.#wishes.of(id, field, markOf(this.state, id, field));
  }

  lacks(id: string): boolean {
    for (let step: string | null = id; step !== null; step = this.state.nodes[step]?.parent ?? null) if (this.window.contents.lacks(step)) return true;
    return false;
  }

  stop(run?: string): void {
    if (this.window.host.running(run)) this.window.host.stop(run);
    else this.say("Nothing is coming.");
  }

  stopOne(id: string): void {
    const node = this.state.nodes[id];
    if (node !== undefined) this.wish({ type: "Cancel", run: node.run, node: id });
  }

  splitAt(token: HTMLElement): void {
    const looked = this.look(token);
    if (looked === undefined || looked.piece.first < 0) return;
    if (looked.piece.first === 0) return this.say("A node cannot be split before its first token.");
    this.wish({ type: "Split", node: looked.node.id, token: looked.piece.first });
    this.window.tree.focus();
  }

  ask(question: Question): void {
    this.window.boxes.ask.put(question);
  }

  say(line: string): void {
    this.window.boxes.announce(line);
    this.window.facts.say(line);
  }

  /** Say what the keys do in the text; it goes when the text is left. */
  hint(line: string): void {
    this.say(line);
    this.#hint = line;
  }

  get hinting(): boolean {
    return this.#hint !== "";
  }

  endHint(): void {
    this.window.facts.unsay(this.#hint);
    this.#hint = "";
  }

  keyOf(command: string): string {
    return this.window.keyOf(command);
  }

  openGrow(node: string, sampling: Record<string, unknown>): void {
    this.window.boxes.form.open(node, sampling);
  }

  openSearch(): void {
    this.window.boxes.search.open();
  }

  measure(what: What, node: string, other: string | null): void {
    this.window.boxes.measure.open(what, node, other, this.frozen);
  }

  openSheet(): void {
    this.window.boxes.sheet.open();
  }

  enter(middle: boolean): boolean {
    this.window.texts.show();
    return this.window.texts.path.focus(middle);
  }
}
