/**
 * A loom on the page: its tree at the left, at the right the text to the cursor and the children of where that is.
 *
 * It joins the parts: what a command, a click or a word of the kernel changes, and who has to show it. What each of them
 * shows is theirs; what can be done is `loomhands.ts`.
 */
import type { Host } from "../host";
import type { State } from "../state";
import type { LoomWord } from "../tending";
import { make, say } from "./dom";
import { Pictures } from "./graph/pictures";
import { inspect } from "./inspect";
import { Boxes } from "./loomboxes";
import { Contents } from "./loomcontents";
import { Cursor } from "./loomcursor";
import { dragRows } from "./loomdrag";
import { Facts } from "./loomfacts";
import { Hands, type Reached } from "./loomhands";
import { listenToKeys } from "./loomkeyboard";
import { Keys, keyWords } from "./loomkeys";
import { layOut } from "./loomlayout";
import { alive, isAlive } from "./loomoutline";
import type { Looks } from "./loomrow";
import { Texts } from "./loomtexts";
import { inspection } from "./loomtokens";
import { toolbar } from "./loomtools";
import { TreeView } from "./loomtree";
import { Tooltip } from "./tooltip";

/** A node that the cursor rests on for so long has been read. */
const READ_AFTER_MS = 300;

export class LoomView implements Reached {
  readonly element = make("section", "acs acs-live acs-loom");
  readonly hands = new Hands(this);
  readonly tree: TreeView;
  readonly cursor: Cursor;
  readonly texts: Texts;
  readonly pictures: Pictures;
  readonly contents: Contents;
  readonly boxes: Boxes;
  readonly facts = new Facts();
  readonly keyOf: (command: string) => string;
  readonly #tip = new Tooltip();
  readonly #told = make("p", "acs-told");
  readonly #none = make("p", "acs-loom-none");
  readonly #keys: Keys;
  #found: ReadonlySet<string> = new Set();
  #lit: [list: readonly string[], ids: ReadonlySet<string>] = [[], new Set()];
  #look: string | null = null;
  #later: ReturnType<typeof setTimeout> | undefined;

  constructor(
    readonly host: Host,
    signal: AbortSignal,
  ) {
    const { hands } = this;
    const go = (id: string) => hands.go(id);
    const act = (command: string) => hands.act(command);
    const back = () => this.tree.focus();
    this.#keys = new Keys(host.option<Record<string, string>>("bindings") ?? {});
    this.tree = new TreeView((id) => this.looksOf(id), go, (id) => {
      go(id);
      hands.fold(id, !hands.isFolded(id));
    }, signal);
    this.cursor = new Cursor(host, this.tree, () => this.pictures.put(), () => hands.wish({ type: "Hoist", node: null }));
    this.pictures = new Pictures(this, this.tree, signal);
    this.texts = new Texts(() => this, go, (id) => hands.stopOne(id), signal);
    this.contents = new Contents(host, () => this.texts.filled(), signal);
    this.keyOf = (command) => this.#keys.word(command);
    this.boxes = new Boxes(host, this.#keys, (intent) => hands.wish(intent), act, back);
    this.#build(act);
    listenToKeys(this.element, this.#keys, this.#tip, { act, back, splitAt: (token) => hands.splitAt(token), choosing: () => hands.hinting, leave: () => this.#leave() }, signal);
    dragRows(this.tree.inner, () => this.state, (node) => hands.canMove(node), (drop) => hands.wish({ type: "Move", ...drop }), signal);
    inspect(this.element, this.#tip, inspection(hands), signal);
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
    return this.cursor.current;
  }

  /** Bring everything up to the state; `fresh`: it is another one. */
  update(fresh: boolean): void {
    if (fresh) {
      this.cursor.forget();
      this.contents.reset();
    }
    if (this.cursor.isOld) this.#reshape();
    else {
      this.#drawTree();
      this.texts.update();
    }
    if (this.#look !== null && isAlive(this.state, this.#look)) {
      const look = this.#look;
      this.#look = null;
      if (!this.hands.moved) this.show(look);
    }
    const trouble = this.host.option<string>("trouble") ?? "";
    say(this.#told, [this.host.told, trouble].filter((line) => line !== "").join(" "));
    this.#showFacts();
  }

  /** How a node looks beside what it is. */
  looksOf(id: string): Omit<Looks, "current"> {
    const { lit, taken } = this.hands;
    if (this.#lit[0] !== lit) this.#lit = [lit, new Set(lit)];
    return { lit: this.#lit[1].has(id), found: this.#found.has(id), taken: taken === id };
  }

  go(id: string): void {
    this.hands.go(id);
  }

  isFolded(id: string): boolean {
    return this.cursor.isFolded(id);
  }

  fold(id: string, folded: boolean): void {
    const mine = this.#hasFocus; // a row that goes out of view takes the focus with it
    this.cursor.fold(id, folded);
    this.pictures.go(this.current);
    if (mine) this.tree.focus();
  }

  show(id: string | undefined): void {
    if (id === undefined || this.state.nodes[id] === undefined) return;
    const mine = this.#hasFocus;
    this.cursor.go(id);
    this.pictures.go(id);
    if (mine) this.tree.focus();
    this.texts.follow();
    this.#wantTexts();
    this.#showFacts();
    clearTimeout(this.#later);
    this.#later = setTimeout(() => isAlive(this.state, id) && this.host.send({ type: "Visit", node: id }), READ_AFTER_MS);
  }

  say(line: string): void {
    this.hands.say(line);
  }

  #build(act: (command: string) => void): void {
    const { path, children, controls } = this.texts;
    path.element.addEventListener("focusout", ({ relatedTarget }) => {
      if (!(relatedTarget instanceof Node && path.element.contains(relatedTarget))) this.hands.endHint();
    });
    this.tree.element.append(this.#none);
    layOut(this.element, this.host.option<number>("height") ?? 620, {
      tools: toolbar(this.#keys, act),
      controls: controls.element,
      told: this.#told,
      search: this.boxes.search.element,
      tree: this.tree.element,
      minimap: this.pictures.strip.element,
      graph: this.pictures.graph.element,
      path: path.element,
      boxes: this.boxes.between,
      children: children.element,
      below: [this.facts.element, ...this.boxes.over, this.#tip.element],
    });
  }

  #heard({ look, said, found, measured, refused }: LoomWord): void {
    if (refused !== undefined) this.boxes.ask.refused(refused.text, refused.line);
    if (said !== undefined) this.say(said);
    if (found !== undefined && this.boxes.search.answer(found)) this.#mark(found.nodes);
    if (measured !== undefined) this.boxes.measure.answer(measured);
    if (look !== undefined) this.#look = look;
    this.update(false);
  }

  /** Escape in the tree: what was found is no longer marked. */
  #leave(): void {
    if (!this.boxes.search.forget()) return;
    this.#mark([]);
    this.say("What was found is no longer marked.");
  }

  #mark(found: readonly string[]): void {
    this.#found = new Set(found);
    this.#drawTree();
  }

  #showLit(): void {
    this.#drawTree();
    const lit = this.hands.lit.filter((id) => isAlive(this.state, id));
    this.say(lit.length === 0 ? "Nothing is lit." : lit.length === 1 ? "1 node is lit." : `${lit.length} nodes are lit.`);
  }

  #drawTree(): void {
    this.tree.draw();
    this.pictures.update();
  }

  /** The tree has another shape. */
  #reshape(): void {
    const had = this.element.contains(document.activeElement) && document.activeElement?.closest(".acs-loom-rows") != null;
    const gone = this.cursor.reshape();
    this.pictures.go(this.current);
    if (had || (gone && document.activeElement === document.body && this.element.matches(":hover"))) this.tree.focus();
    this.texts.show();
    this.#wantTexts();
    this.#hint();
  }

  /** What to press where there is no node. */
  #hint(): void {
    const { none } = this.cursor;
    const [undo, root] = ["undo", "root"].map((name) => this.#keys.of(name).map(keyWords)[0]);
    const steps = this.hands.frozen ? [] : [(this.state.loom?.done.length ?? 0) > 0 && undo && `${undo} undoes the last step`, root && `${root} writes a root`];
    const words = none ? ["No nodes.", steps.filter(Boolean).join(", ")].join(" ").trim() : "";
    say(this.#none, words);
  }

  /** The texts beside the tree are to be there. */
  #wantTexts(): void {
    const { current } = this;
    if (current !== null) this.contents.want([...alive(this.state, current), ...this.cursor.path]);
  }

  #showFacts(): void {
    this.facts.update(this.state, this.host.at, this.current, this.hands.file);
  }

  /** Whether the focus goes with the cursor: nobody writes in a box of the window, or looks at the graph. */
  get #hasFocus(): boolean {
    const focus = document.activeElement;
    return this.element.contains(focus) && focus?.closest("input, textarea, select, form, [role=dialog], .acs-graph") == null;
  }
}
