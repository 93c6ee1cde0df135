/**
 * A scored text on the page: a token an element, one tab stop, arrows from token to token.
 *
 * Owns the elements and which of them is chosen. What is said of the chosen one is its listener's business.
 */
import { percent } from "./colour";
import { make } from "./dom";
import { steps, tokenAt } from "./inspect";
import { fill } from "./invisible";
import { beside, measureStretch, stretches, type Beside, type Reading, type Stretch, type Whole } from "./reading";
import { quoted } from "./text";
import { levelOn, type Scales, type View } from "./views";

export interface Look {
  view: View;
  beside: Beside;
  whole: Whole;
  scales: Scales;
  /** Ranks of a token that was searched, one a position; `null` while none is. */
  searched: (number | null)[] | null;
}

export class ReadText {
  readonly element = make("div", "acs-text acs-boxed acs-numbered");
  readonly stretches: Stretch[];
  readonly #spans: HTMLElement[] = [];
  readonly #base: string[] = [];
  #stop = 0;
  #chosen = -1;

  constructor(
    readonly reading: Reading,
    readonly chose: (place: number) => void,
    signal: AbortSignal,
  ) {
    this.stretches = stretches(reading.tokens);
    this.element.setAttribute("role", "group");
    this.element.setAttribute("aria-label", "The text, token by token; arrow keys move, Enter chooses");
    let paragraph: HTMLElement | null = null;
    for (const { text } of this.stretches) {
      paragraph ??= this.element.appendChild(make("div", "acs-par"));
      paragraph.append(this.#token(text));
      if (text.endsWith("\n")) paragraph = null;
    }
    const on = <K extends keyof HTMLElementEventMap>(type: K, act: (event: HTMLElementEventMap[K]) => void) =>
      this.element.addEventListener(type, act, { signal });
    on("click", ({ target }) => {
      if (getSelection()?.isCollapsed === false) return;
      const place = this.#placeOf(target);
      if (place >= 0) this.choose(place);
    });
    on("focusin", ({ target }) => {
      const place = this.#placeOf(target);
      if (place < 0) return;
      this.#stopAt(place);
      if (target instanceof Element && target.matches(":focus-visible")) this.choose(place);
    });
    on("keydown", (event) => this.#key(event));
  }

  get chosen(): number {
    return this.#chosen;
  }

  choose(place: number): void {
    if (place === this.#chosen) return;
    this.#spans[this.#chosen]?.removeAttribute("data-looked");
    this.#press(this.#chosen, null);
    this.#chosen = place;
    this.#spans[place]?.setAttribute("data-looked", "");
    this.#stopAt(place);
    this.chose(place);
  }

  paint(look: Look): void {
    this.stretches.forEach((stretch, place) => {
      const span = this.#spans[place];
      if (span === undefined) return;
      const value = look.searched === null ? measureStretch(look.view, this.reading, stretch, look.whole) : (look.searched[stretch.last] ?? null);
      const view = look.searched === null ? look.view : "rank";
      let name = this.#base[place] ?? "acs-t";
      if (value !== null) name += ` acs-p${levelOn(view, value, look.scales)}`;
      if (view !== "probability") name += ` acs-by-${view}`;
      if (span.className !== name) span.className = name;
      const said = look.searched === null ? beside(look.beside, view, this.reading, stretch, look.whole) : value === null ? "" : String(value);
      const last = (stretch.text.endsWith("\n") && span.querySelector<HTMLElement>(".acs-mark")) || span;
      if (said === "") delete last.dataset["n"];
      else last.dataset["n"] = said;
      if (look.searched === null) delete span.dataset["rank"];
      else span.dataset["rank"] = value === null ? "not known" : String(value);
    });
    this.#stopAt(this.#stop);
  }

  #token(text: string): HTMLElement {
    const span = make("span", "");
    span.tabIndex = this.#spans.length === 0 ? 0 : -1;
    if (text === "") {
      const mark = make("i", "acs-mark");
      mark.dataset["mark"] = "∅";
      span.append(mark);
    } else fill(span, text);
    this.#base.push(`acs-t${/^ +$/.test(text) ? " acs-space" : ""}`);
    this.#spans.push(span);
    return span;
  }

  #placeOf(target: EventTarget | null): number {
    const element = tokenAt(target);
    return element === null ? -1 : this.#spans.indexOf(element);
  }

  /** The one tab stop of the text; to a reader it is a button with everything on its face in its name. */
  #stopAt(place: number): void {
    const before = this.#spans[this.#stop];
    const span = this.#spans[place];
    if (span === undefined) return;
    if (before !== undefined && before !== span) {
      before.tabIndex = -1;
      for (const name of ["role", "aria-label", "aria-pressed"]) before.removeAttribute(name);
    }
    this.#stop = place;
    span.tabIndex = 0;
    span.setAttribute("role", "button");
    span.setAttribute("aria-label", this.#spoken(place, span.dataset["rank"]));
    this.#press(place, place === this.#chosen);
  }

  #press(place: number, on: boolean | null): void {
    if (on === null) this.#spans[place]?.removeAttribute("aria-pressed");
    else this.#spans[place]?.setAttribute("aria-pressed", String(on));
  }

  #spoken(place: number, rank: string | undefined): string {
    const stretch = this.stretches[place];
    const token = stretch && this.reading.tokens[stretch.last];
    if (token === undefined) return "";
    const words = [token.text.trim() === "" ? quoted(token.text) : token.text.trim()];
    words.push(token.logprob === null ? "not scored" : percent(token.logprob));
    if (rank !== undefined) words.push(`rank of the searched token ${rank}`);
    return words.join(", ");
  }

  #key(event: KeyboardEvent): void {
    const place = this.#placeOf(event.target);
    if (place < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Enter" || event.key === " ") this.choose(place);
    else if (event.key in steps) steps[event.key]?.(this.#spans, place)?.focus();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}
