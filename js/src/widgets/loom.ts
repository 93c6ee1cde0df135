/**
 * The loom: its tree at the left, the text to the cursor at the right, the children of where that is below it.
 */
import { LOST, widget, type Branching, type Host } from "../host";
import { make, say } from "../parts/dom";
import type { Field } from "../parts/fields";
import { Wishes } from "../parts/loomwishes";
import { inspect, type Looked } from "../parts/inspect";
import { obey, type Tended } from "../parts/loomacts";
import { Ask, type Question } from "../parts/loomask";
import { Facts } from "../parts/loomfacts";
import { GrowForm } from "../parts/loomgrow";
import { listenToKeys } from "../parts/loomkeyboard";
import { Keys } from "../parts/loomkeys";
import { layOut } from "../parts/loomlayout";
import { Memory } from "../parts/loommemory";
import { alive, hoisted, isAlive, nearest, outline, pathTo, type Row } from "../parts/loomoutline";
import { SearchBar } from "../parts/loomsearch";
import { Sheet } from "../parts/loomsheet";
import { inspection, type TokenDesk } from "../parts/loomtokens";
import { Texts } from "../parts/loomtexts";
import { toolbar } from "../parts/loomtools";
import { TreeView } from "../parts/loomtree";
import { Tooltip } from "../parts/tooltip";
import { markOf } from "../revise";
import { shapeOf, type State } from "../state";
import type { LoomWord, Tending } from "../tending";

/** A node that the cursor rests on for so long has been read. */
const READ_AFTER_MS = 300;

/** What leads to no other place. */
const QUIET = new Set(["Visit", "Fold", "Light", "Mark", "Search", "Grow"]);

class Loom implements Tended, TokenDesk {
  readonly element = make("section", "acs acs-live acs-loom");
  current: string | null = null;
  taken: string | null = null;
  readonly #tree: TreeView;
  readonly #texts: Texts;
  readonly #facts = new Facts();
  readonly #tip = new Tooltip();
  readonly #ask: Ask;
  readonly #form: GrowForm;
  readonly #search: SearchBar;
  readonly #sheet: Sheet;
  readonly #told = make("p", "acs-told");
  readonly #live = make("div", "acs-hidden");
  readonly #keys: Keys;
  readonly #wishes = new Wishes();
  readonly #memory = new Memory();
  #found = new Set<string>();
  #look: string | null = null;
  #moved = false;
  #shape = -1;
  #drawn: State | null = null;
  #later: ReturnType<typeof setTimeout> | undefined;

  constructor(
    readonly host: Host,
    signal: AbortSignal,
  ) {
    const back = () => this.#tree.focus();
    this.#keys = new Keys(host.option<Record<string, string>>("bindings") ?? {});
    this.#tree = new TreeView((id) => ({ lit: this.lit.includes(id), found: this.#found.has(id), taken: this.taken === id }), (id) => this.go(id), (id) => {
      this.go(id);
      this.fold(id, !this.isFolded(id));
    }, signal);
    this.#texts = new Texts(() => this, (id) => this.go(id), (run) => this.stop(run), signal);
    this.#ask = new Ask(back);
    const grow = (node: string, n: number, fields: Record<string, string>) => this.wish({ type: "Grow", node, n, fields });
    this.#form = new GrowForm(host.option<Field[]>("form") ?? [], host.option("usual") ?? {}, grow, back);
    this.#search = new SearchBar((text, predicate) => this.wish({ type: "Search", text, predicate }), (by) => this.#act(by > 0 ? "next found" : "previous found"), back);
    this.#sheet = new Sheet(this.#keys, back);
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

  get rows(): readonly Row[] {
    return this.#tree.rows;
  }

  get page(): number {
    return this.#tree.page;
  }

  get lit(): readonly string[] {
    return this.#wishes.of("", "lit", this.host.option<string[]>("lit") ?? []) as string[];
  }

  get found(): readonly string[] {
    return this.#search.found;
  }

  get frozen(): boolean {
    return this.host.option<boolean>("frozen") === true;
  }

  get file(): string {
    return this.host.option<string>("file") ?? "";
  }

  /** Bring everything up to the state; `fresh`: it is another one. */
  update(fresh: boolean): void {
    if (fresh) this.#shape = -1;
    const { state } = this;
    if (this.#shape !== shapeOf(state) || this.#drawn !== state) this.#reshape();
    else {
      this.#tree.draw();
      this.#texts.update();
    }
    if (this.#look !== null && isAlive(state, this.#look)) {
      const look = this.#look;
      this.#look = null;
      if (!this.#moved) this.#goTo(look);
    }
    const trouble = this.host.option<string>("trouble") ?? "";
    say(this.#told, [this.host.told, trouble].filter((line) => line !== "").join(" "));
    this.#facts.update(state, this.host.at, this.current, this.file);
  }

  placeOf(id: string): number {
    return this.#tree.placeOf(id);
  }

  childOf(id: string): string | undefined {
    return this.#memory.childOf(this.state, id);
  }

  isFolded(id: string): boolean {
    return this.#memory.isFolded(this.state, id);
  }

  fold(id: string, folded: boolean): void {
    this.#memory.fold(id, folded);
    this.#outline();
    this.#tree.go(this.current);
    if (this.element.contains(document.activeElement)) this.#tree.focus();
    if (!this.frozen) this.wish({ type: "Fold", node: id, folded });
  }

  /** Where the reader goes is where they stay, whatever comes of earlier wishes. */
  go(id: string | undefined): void {
    this.#moved = true;
    this.#goTo(id);
  }

  /** Move the cursor. What is folded away or outside of what is hoisted is shown again. */
  #goTo(id: string | undefined): void {
    if (id === undefined || this.state.nodes[id] === undefined) return;
    const inside = this.element.contains(document.activeElement) && !this.#busyElsewhere();
    this.current = id;
    this.#memory.remember(pathTo(this.state, id));
    if (this.placeOf(id) < 0) this.#reveal(id);
    this.#tree.go(id);
    if (inside) this.#tree.focus();
    this.#texts.follow();
    this.#facts.update(this.state, this.host.at, id, this.file);
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

  stop(run?: string): void {
    if (this.host.running(run)) this.host.stop(run);
    else this.say("Nothing is coming.");
  }

  ask(question: Question): void {
    this.#ask.put(question);
  }

  say(line: string): void {
    this.#live.textContent = "";
    this.#live.textContent = line;
    this.#facts.say(line);
  }

  openGrow(node: string, sampling: Record<string, unknown>): void {
    this.#form.open(node, sampling);
  }

  openSearch(): void {
    this.#search.open();
  }

  openSheet(): void {
    this.#sheet.open();
  }

  enter(middle: boolean): boolean {
    this.#texts.show();
    return this.#texts.path.focus(middle);
  }

  #build(): void {
    const { path, children, controls } = this.#texts;
    this.#live.setAttribute("role", "status");
    layOut(this.element, this.host.option<number>("height") ?? 620, {
      tools: toolbar(this.#keys, (command) => this.#act(command)),
      controls: controls.element,
      told: this.#told,
      search: this.#search.element,
      tree: this.#tree.element,
      path: path.element,
      boxes: [this.#ask.element, this.#form.element],
      children: children.element,
      below: [this.#facts.element, this.#sheet.element, this.#live, this.#tip.element],
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

  #heard({ look, said, found }: LoomWord): void {
    if (said !== undefined) this.say(said);
    if (found !== undefined && this.#search.answer(found)) {
      this.#found = new Set(found.nodes);
      this.#tree.draw();
    }
    if (look !== undefined) this.#look = look;
    this.update(false);
  }

  #showLit(): void {
    this.#tree.draw();
    const { lit } = this;
    this.say(lit.length === 0 ? "Nothing is lit." : lit.length === 1 ? "1 node is lit." : `${lit.length} nodes are lit.`);
  }

  /** The tree has another shape. */
  #reshape(): void {
    const { state } = this;
    this.#shape = shapeOf(state);
    this.#drawn = state;
    this.#memory.settle(state);
    this.#outline();
    const start = this.host.option<string>("start") ?? "";
    const gone = this.current === null || !isAlive(state, this.current);
    if (gone) this.current = this.current !== null ? nearest(state, this.current) : isAlive(state, start) ? start : (alive(state, null)[0] ?? null);
    const root = hoisted(state);
    if (root !== null && this.current !== null && !pathTo(state, this.current).includes(root)) this.current = root;
    const had = this.element.contains(document.activeElement) && document.activeElement?.closest(".acs-loom-rows") != null;
    if (this.current !== null && this.placeOf(this.current) < 0) this.#reveal(this.current);
    this.#tree.go(this.current);
    if (had || (gone && document.activeElement === document.body && this.element.matches(":hover"))) this.#tree.focus();
    this.#texts.show();
  }

  #outline(): void {
    this.#tree.put(this.state, outline(this.state, hoisted(this.state), (id) => this.isFolded(id)));
  }

  #reveal(id: string): void {
    const path = pathTo(this.state, id);
    for (const step of path.slice(0, -1)) if (this.isFolded(step)) this.#memory.fold(step, false);
    const root = hoisted(this.state);
    if (root !== null && !path.includes(root)) this.wish({ type: "Hoist", node: null });
    this.#outline();
  }

  /** Whether somebody writes in a box of the window. */
  #busyElsewhere(): boolean {
    return document.activeElement?.closest("input, textarea, select, form, [role=dialog]") != null && this.element.contains(document.activeElement);
  }
}

function draw(host: Host, el: HTMLElement, signal: AbortSignal): void {
  const loom = new Loom(host, signal);
  el.append(loom.element);
  let frame = 0;
  let fresh = true; // drawn once more when it has a size
  const soon = (other: boolean) => {
    fresh ||= other;
    frame ||= requestAnimationFrame(() => {
      frame = 0;
      loom.update(fresh);
      fresh = false;
    });
  };
  const deaf = host.listen(soon);
  const off = host.hear((word) => word.refused?.message === LOST && loom.say(LOST));
  soon(true);
  signal.addEventListener("abort", () => {
    deaf();
    off();
    cancelAnimationFrame(frame);
    loom.element.remove();
  });
}

export default () => widget(draw);
