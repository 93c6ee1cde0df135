/**
 * A loom on the page: its tree at the left, at the right the text to the cursor and the children of where that is.
 *
 * It joins the parts: what a command, a click or a word of the kernel changes, and who has to show it. What each of them
 * shows is theirs.
 */
import type { Branching, Host } from "../host";
import type { State } from "../state";
import type { LoomWord, Tending } from "../tending";
import { markOf } from "../revise";
import { make, say } from "./dom";
import { Pictures } from "./graph/pictures";
import { inspect, type Looked } from "./inspect";
import { obey, type Graph, type Tended } from "./loomacts";
import type { Question } from "./loomask";
import { Boxes } from "./loomboxes";
import { Contents } from "./loomcontents";
import { Cursor } from "./loomcursor";
import { Facts } from "./loomfacts";
import { listenToKeys } from "./loomkeyboard";
import { Keys } from "./loomkeys";
import { layOut } from "./loomlayout";
import { alive, isAlive, type Row } from "./loomoutline";
import type { Looks } from "./loomrow";
import { Texts } from "./loomtexts";
import { inspection, type TokenDesk } from "./loomtokens";
import { toolbar } from "./loomtools";
import { TreeView } from "./loomtree";
import { Wishes } from "./loomwishes";
import type { What } from "./measure/panel";
import { Tooltip } from "./tooltip";

/** A node that the cursor rests on for so long has been read. */
const READ_AFTER_MS = 300;

/** What leads to no other place. */
const QUIET = new Set(["Visit", "Fold", "Light", "Mark", "Search", "Grow", "Cancel", "Measure"]);

export class LoomView implements Tended, TokenDesk {
  readonly element = make("section", "acs acs-live acs-loom");
  taken: string | null = null;
  readonly #tree: TreeView;
  readonly #cursor: Cursor;
  readonly #texts: Texts;
  readonly #pictures: Pictures;
  readonly #contents: Contents;
  readonly #facts = new Facts();
  readonly #tip = new Tooltip();
  readonly #boxes: Boxes;
  readonly #told = make("p", "acs-told");
  readonly #keys: Keys;
  readonly #wishes = new Wishes();
  #found: ReadonlySet<string> = new Set();
  #lit: [list: readonly string[], ids: ReadonlySet<string>] = [[], new Set()];
  #look: string | null = null;
  #moved = false;
  #later: ReturnType<typeof setTimeout> | undefined;

  constructor(
    readonly host: Host,
    signal: AbortSignal,
  ) {
    const back = () => this.#tree.focus();
    this.#keys = new Keys(host.option<Record<string, string>>("bindings") ?? {});
    this.#tree = new TreeView((id) => this.looksOf(id), (id) => this.go(id), (id) => {
      this.go(id);
      this.fold(id, !this.isFolded(id));
    }, signal);
    this.#cursor = new Cursor(host, this.#tree, () => this.#pictures.put(), () => this.wish({ type: "Hoist", node: null }));
    this.#pictures = new Pictures(this, this.#tree, signal);
    this.#texts = new Texts(() => this, (id) => this.go(id), (id) => this.stopOne(id), signal);
    this.#contents = new Contents(host, () => this.#texts.filled(), signal);
    this.#boxes = new Boxes(host, this.#keys, (intent) => this.wish(intent), (command) => this.#act(command), back);
    this.#build();
    listenToKeys(this.element, this.#keys, this.#tip, { act: (command) => this.#act(command), splitAt: (token) => this.#splitAt(token), back }, signal);
    inspect(this.element, this.#tip, inspection(this), signal);
    const ends = [
      host.hear((word) => word.loom && this.#heard(word.loom)), host.watch("lit", () => this.#showLit()),
      host.watch("trouble", () => this.update(false)), host.watch("file", () => this.update(false)),
    ];
    signal.addEventListener("abort", () => {
      for (const end of ends) end();
      clearTimeout(this.#later);
    });
    this.update(true);
  }

  get state(): State {
    return this.host.state;
  }

  get current(): string | null {
    return this.#cursor.current;
  }

  get rows(): readonly Row[] {
    return this.#tree.rows;
  }

  get page(): number {
    return this.#tree.page;
  }

  get graph(): Graph {
    return this.#pictures.graph;
  }

  get lit(): readonly string[] {
    return this.#wishes.of("", "lit", this.host.option<string[]>("lit") ?? []) as string[];
  }

  get found(): readonly string[] {
    return this.#boxes.search.found;
  }

  get frozen(): boolean {
    return this.host.option<boolean>("frozen") === true;
  }

  get file(): string {
    return this.host.option<string>("file") ?? "";
  }

  /** Bring everything up to the state; `fresh`: it is another one. */
  update(fresh: boolean): void {
    if (fresh) {
      this.#cursor.forget();
      this.#contents.reset();
    }
    if (this.#cursor.isOld) this.#reshape();
    else {
      this.#tree.draw();
      this.#texts.update();
      this.#pictures.update();
    }
    if (this.#look !== null && isAlive(this.state, this.#look)) {
      const look = this.#look;
      this.#look = null;
      if (!this.#moved) this.#goTo(look);
    }
    const trouble = this.host.option<string>("trouble") ?? "";
    say(this.#told, [this.host.told, trouble].filter((line) => line !== "").join(" "));
    this.#showFacts();
  }

  /** How a node looks beside what it is. */
  looksOf(id: string): Omit<Looks, "current"> {
    const { lit } = this;
    if (this.#lit[0] !== lit) this.#lit = [lit, new Set(lit)];
    return { lit: this.#lit[1].has(id), found: this.#found.has(id), taken: this.taken === id };
  }

  placeOf(id: string): number {
    return this.#tree.placeOf(id);
  }

  childOf(id: string): string | undefined {
    return this.#cursor.childOf(id);
  }

  isFolded(id: string): boolean {
    return this.#cursor.isFolded(id);
  }

  fold(id: string, folded: boolean): void {
    const mine = this.#hasFocus; // a row that goes out of view takes the focus with it
    this.#cursor.fold(id, folded);
    this.#pictures.go(this.current);
    if (mine) this.#tree.focus();
    if (!this.frozen) this.wish({ type: "Fold", node: id, folded });
  }

  /** Where the reader goes is where they stay, whatever comes of earlier wishes. */
  go(id: string | undefined): void {
    this.#moved = true;
    this.#goTo(id);
  }

  #goTo(id: string | undefined): void {
    if (id === undefined || this.state.nodes[id] === undefined) return;
    const mine = this.#hasFocus;
    this.#cursor.go(id);
    this.#pictures.go(id);
    if (mine) this.#tree.focus();
    this.#texts.follow();
    this.#wantTexts();
    this.#showFacts();
    clearTimeout(this.#later);
    this.#later = setTimeout(() => this.host.send({ type: "Visit", node: id }), READ_AFTER_MS);
  }

  wish(intent: Tending): void {
    this.#wishes.note(intent);
    if (!QUIET.has(intent.type)) this.#moved = false;
    this.host.branch(intent);
  }

  branch(intent: Branching): void {
    this.#moved = false;
    this.host.branch(intent);
  }

  edit(node: string): void {
    this.go(node);
    this.#act("edit");
  }

  look(element: HTMLElement): Looked | undefined {
    return this.#texts.look(element);
  }

  hold(node: string): void {
    this.#texts.children.hold(node);
  }

  mark(id: string, field: string): unknown {
    return this.#wishes.of(id, field, markOf(this.state, id, field));
  }

  lacks(id: string): boolean {
    for (let step: string | null = id; step !== null; step = this.state.nodes[step]?.parent ?? null) if (this.#contents.lacks(step)) return true;
    return false;
  }

  stop(run?: string): void {
    if (this.host.running(run)) this.host.stop(run);
    else this.say("Nothing is coming.");
  }

  stopOne(id: string): void {
    const node = this.state.nodes[id];
    if (node !== undefined) this.wish({ type: "Cancel", run: node.run, node: id });
  }

  ask(question: Question): void {
    this.#boxes.ask.put(question);
  }

  say(line: string): void {
    this.#boxes.announce(line);
    this.#facts.say(line);
  }

  openGrow(node: string, sampling: Record<string, unknown>): void {
    this.#boxes.form.open(node, sampling);
  }

  openSearch(): void {
    this.#boxes.search.open();
  }

  measure(what: What, node: string, other: string | null): void {
    this.#boxes.measure.open(what, node, other, this.frozen);
  }

  openSheet(): void {
    this.#boxes.sheet.open();
  }

  enter(middle: boolean): boolean {
    this.#texts.show();
    return this.#texts.path.focus(middle);
  }

  #build(): void {
    const { path, children, controls } = this.#texts;
    layOut(this.element, this.host.option<number>("height") ?? 620, {
      tools: toolbar(this.#keys, (command) => this.#act(command)),
      controls: controls.element,
      told: this.#told,
      search: this.#boxes.search.element,
      tree: this.#tree.element,
      minimap: this.#pictures.strip.element,
      graph: this.#pictures.graph.element,
      path: path.element,
      boxes: this.#boxes.between,
      children: children.element,
      below: [this.#facts.element, ...this.#boxes.over, this.#tip.element],
    });
  }

  #act(command: string): void {
    obey(command, this);
  }

  #splitAt(token: HTMLElement): void {
    const looked = this.look(token);
    if (looked === undefined || looked.piece.first < 0) return;
    if (looked.piece.first === 0) return this.say("A node cannot be split before its first token.");
    this.wish({ type: "Split", node: looked.node.id, token: looked.piece.first });
    this.#tree.focus();
  }

  #heard({ look, said, found, measured }: LoomWord): void {
    if (said !== undefined) this.say(said);
    if (found !== undefined && this.#boxes.search.answer(found)) {
      this.#found = new Set(found.nodes);
      this.#tree.draw();
      this.#pictures.update();
    }
    if (measured !== undefined) this.#boxes.measure.answer(measured);
    if (look !== undefined) this.#look = look;
    this.update(false);
  }

  #showLit(): void {
    this.#tree.draw();
    this.#pictures.update();
    const { lit } = this;
    this.say(lit.length === 0 ? "Nothing is lit." : lit.length === 1 ? "1 node is lit." : `${lit.length} nodes are lit.`);
  }

  /** The tree has another shape. */
  #reshape(): void {
    const had = this.element.contains(document.activeElement) && document.activeElement?.closest(".acs-loom-rows") != null;
    const gone = this.#cursor.reshape();
    this.#pictures.go(this.current);
    if (had || (gone && document.activeElement === document.body && this.element.matches(":hover"))) this.#tree.focus();
    this.#texts.show();
    this.#wantTexts();
  }

  /** The texts beside the tree are to be there. */
  #wantTexts(): void {
    const { current } = this;
    if (current !== null) this.#contents.want([...alive(this.state, current), ...this.#cursor.path]);
  }

  #showFacts(): void {
    this.#facts.update(this.state, this.host.at, this.current, this.file);
  }

  /** Whether the focus goes with the cursor: nobody writes in a box of the window, or looks at the graph. */
  get #hasFocus(): boolean {
    const focus = document.activeElement;
    return this.element.contains(focus) && focus?.closest("input, textarea, select, form, [role=dialog], .acs-graph") == null;
  }
}
