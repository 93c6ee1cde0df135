/**
 * The children of the current node side by side, each in full, while they come and after.
 */
import { isSampled, markOf } from "../revise";
import { gistOf, isHollow } from "../outline";
import { echoed, type NodeState, type State } from "../state";
import { make, say } from "./dom";
import { Follower } from "./follower";
import type { Looked } from "./inspect";
import { alive, isBusy } from "./loomoutline";
import { emptyWords } from "./loomrow";
import { cutWords, errorWords, finishWords, tokenCount } from "./status";
import { TokenText, type Brush } from "./tokens";

/** Above this many they are shown a part at a time. */
const AT_ONCE = 24;
const STOP_ONE = "Stop this one: what came is kept, the others go on. A server cannot stop one of several: it makes its tokens to the end, and they are billed.";

interface Card {
  id: string;
  section: HTMLElement;
  head: HTMLButtonElement;
  text: TokenText;
  foot: HTMLElement;
  stop: HTMLButtonElement;
  follower: Follower;
  settled: boolean;
}

export class ChildrenView {
  readonly element = make("div", "acs-loom-children acs-group acs-many");
  readonly #cards = new Map<string, Card>();
  readonly #more = make("button", "acs-quiet acs-loom-more");
  #state: State | null = null;
  #parent: string | null = null;
  #most = AT_ONCE;

  constructor(
    readonly brushOf: (node: NodeState) => Brush,
    readonly go: (id: string) => void,
    readonly stop: (id: string) => void,
    readonly signal: AbortSignal,
  ) {
    this.element.setAttribute("role", "group");
    this.element.setAttribute("aria-label", "Children of the current node");
    this.#more.addEventListener("click", () => {
      this.#most += AT_ONCE;
      this.update();
    });
  }

  show(state: State, parent: string | null): void {
    if (this.#state !== state || this.#parent !== parent) {
      this.#cards.clear();
      this.element.replaceChildren();
      this.#most = AT_ONCE;
    }
    this.#state = state;
    this.#parent = parent;
    this.update();
  }

  update(): void {
    const state = this.#state;
    if (state === null) return;
    const all = this.#parent === null ? [] : alive(state, this.#parent);
    const ids = all.slice(0, this.#most);
    this.element.classList.toggle("acs-many", all.length > 1);
    for (const [id, { section }] of this.#cards) {
      if (ids.includes(id)) continue;
      section.remove();
      this.#cards.delete(id);
    }
    const grown: (() => void)[] = [];
    ids.forEach((id, place) => {
      const node = state.nodes[id];
      if (node === undefined) return;
      const card = this.#cards.get(id) ?? this.#open(node);
      if (this.element.children[place] !== card.section) this.element.insertBefore(card.section, this.element.children[place] ?? null);
      grown.push(this.#draw(state, card, node, place + 1, all.length));
    });
    // After all have been written: to look at a box's height makes the browser lay out what was written before.
    for (const follow of grown) follow();
    this.element.hidden = ids.length === 0;
    const rest = all.length - ids.length;
    if (rest > 0) this.element.append(this.#more);
    else this.#more.remove();
    this.#more.textContent = `${rest} more`;
  }

  look(element: HTMLElement): Looked | undefined {
    for (const { id, text } of this.#cards.values()) {
      const piece = text.pieceAt(text.placeOf(element));
      const node = this.#state?.nodes[id];
      if (piece !== undefined && node !== undefined) return { node, piece, parts: false, tokens: text.tokens };
    }
    return undefined;
  }

  /** A token was looked at: its text stays where it is. */
  hold(id: string): void {
    this.#cards.get(id)?.follower.hold();
  }

  repaint(): void {
    for (const { id, text } of this.#cards.values()) {
      const node = this.#state?.nodes[id];
      if (node === undefined) continue;
      const brush = this.brushOf(node);
      text.tokens.forEach((_, place) => text.paint(place, node, brush));
    }
  }

  #draw(state: State, card: Card, node: NodeState, place: number, size: number): () => void {
    const run = state.runs[node.run];
    const busy = isBusy(state, node.id);
    const unread = markOf(state, node.id, "unread") === true;
    const name = size > 1 ? `${place} of ${size}` : "only child";
    if (card.head.textContent !== name) {
      card.head.textContent = name;
      card.section.setAttribute("aria-label", `Child ${name}`);
    }
    card.section.classList.toggle("acs-loom-unread", unread);
    card.stop.hidden = !busy;
    if (card.settled && !busy) return () => {};
    if (isHollow(node)) {
      say(card.foot, `${gistOf(state, node).begins} …`);
      return () => {};
    }
    const before = card.text.tokens.length;
    const whole = before === 0 && !busy; // what had come before anybody looked is read from its beginning
    card.text.update(node, !busy, echoed(state, node), this.brushOf(node));
    const more = card.text.tokens.length > before;
    card.settled = !busy;
    const words = run === undefined || !isSampled(state, node) ? ["written by hand"] : [...(node.choice === null ? cutWords(node, run) : [finishWords(node, run)]), ...figures(node)];
    if (!busy && node.text === "") words.unshift(emptyWords(state, node));
    if (run !== undefined && run.error !== null && node.choice !== null) words.push(errorWords(run));
    if (busy && run !== undefined && run.note !== null) words.push(run.note);
    say(card.foot, words.filter((word) => word !== "").join(" · "));
    return () => more && !whole && card.follower.came(busy);
  }

  #open(node: NodeState): Card {
    const section = make("section", "acs-choice");
    section.dataset["node"] = node.id;
    const top = make("div", "acs-loom-card-top");
    const head = make("button", "acs-quiet acs-loom-head");
    head.title = "Go to this node";
    head.addEventListener("click", () => this.go(node.id));
    const stop = make("button", "acs-quiet acs-loom-stop", "stop");
    stop.title = STOP_ONE;
    stop.addEventListener("click", () => this.stop(node.id));
    top.append(head, stop);
    const text = new TokenText();
    text.element.classList.add("acs-boxed");
    const foot = make("div", "acs-finish");
    section.append(top, text.element, foot);
    const follower = new Follower(text.element, (place) => (text.element.scrollTop = place), this.signal);
    const card = { id: node.id, section, head, text, foot, stop, follower, settled: false };
    this.#cards.set(node.id, card);
    return card;
  }
}

function figures({ tokens, logprobs }: NodeState): string[] {
  if (tokens.length === 0) return [];
  const known = logprobs.filter((logprob) => logprob !== null);
  const sum = known.reduce((all, logprob) => all + logprob, 0);
  const total = known.length === 0 ? [] : [`logprob ${sum.toFixed(2).replace("-", "−")}`, `${(sum / known.length).toFixed(2).replace("-", "−")} a token`];
  return [tokenCount(tokens.length), ...total];
}
