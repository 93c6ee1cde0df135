/**
 * The inspector: a text as tokens in the live cell's colours, and the distribution at the one that is chosen.
 *
 * The kernel tells the text in one trait; what is asked back is a whole distribution or the ranks of a token.
 */
import type { AnyModel, RenderProps } from "@anywidget/types";
import { type Delivery, deliveryOf } from "../delivery";
import { kernelOf } from "../host";
import { type Choices, choicesOf } from "../parts/choices";
import { Controls } from "../parts/controls";
import { freshId, make, say } from "../parts/dom";
import { ranksReturned, readReading, readWhole, scalesFor, table, type Beside, type Reading, type Whole } from "../parts/reading";
import { ReadText } from "../parts/readtext";
import { SpreadPanel } from "../parts/spreadpanel";
import { copyText, saveFile } from "../parts/takeaway";
import { quoted } from "../parts/text";
import { keepKeys } from "../parts/shortcuts";
import { dress } from "../shadow";

const BESIDE: [Beside, string][] = [["nothing", "text"], ["value", "text and value"], ["id", "text and ids"], ["bytes", "text and bytes"]];

interface Found {
  token: string;
  ranks?: (number | null)[];
  refused?: string;
}

/** `13 tokens, 12 scored · logprob −48.12 nats · …` */
export function statistics({ statistics: one, model }: Reading): string[] {
  const figure = (value: number | null, digits: number) => (value === null ? "not known" : value <= -9999 ? "−∞" : value.toFixed(digits).replace("-", "−"));
  const scored = one.scored === one.tokens ? "" : `, ${one.scored.toLocaleString("en-US")} scored`;
  return [
    `${one.tokens.toLocaleString("en-US")} ${one.tokens === 1 ? "token" : "tokens"}${scored}`,
    `logprob ${figure(one.logprob, 3)} nats`,
    `perplexity ${figure(one.perplexity, 2)}`,
    `${figure(one.bits_per_byte, 3)} bits per byte`,
    model || "model not known",
  ];
}

/** What a search found, in a sentence. */
export function searchWords(token: string, ranks: (number | null)[], whole: number, asked: number): string {
  const known = ranks.filter((one) => one !== null);
  const name = quoted(token);
  const from = whole > 0 ? `${whole} whole distributions, else the ${asked} returned` : `the ${asked} returned at each position`;
  if (known.length === 0) return `${name} is at no position among ${from}. A word in the middle of a text begins with a blank.`;
  const best = Math.min(...known);
  return `Rank of ${name} at ${known.length} of ${ranks.length} positions (${from}): best ${best} at token ${ranks.indexOf(best) + 1}.`;
}

class View {
  readonly element = make("section", "acs acs-live acs-inspector");
  readonly #choices: Choices;
  readonly #controls: Controls;
  readonly #text: ReadText;
  readonly #panel: SpreadPanel;
  readonly #delivery: Delivery;
  readonly #said = make("span", "acs-note");
  readonly #result = make("p", "acs-tip-note acs-search-result");
  #beside: Beside = "nothing";
  #whole: Whole;
  #search = "";
  #ranks: (number | null)[] | null = null;

  constructor(
    readonly model: AnyModel,
    readonly reading: Reading,
    signal: AbortSignal,
  ) {
    this.#whole = readWhole(model.get("whole"));
    this.#delivery = deliveryOf(model, signal);
    this.#choices = choicesOf({ kernel: kernelOf(model)?.id ?? "" });
    this.#controls = new Controls(this.#choices, scalesFor(reading));
    this.#controls.element.hidden = false;
    this.#controls.element.querySelector("button")?.remove(); // numbers are one of the things that stand beside
    this.#choices.listen(() => this.#repaint());
    this.#text = new ReadText(reading, (place) => this.#chose(place), signal);
    this.#panel = new SpreadPanel((position) => this.#ask({ type: "Weigh", position }));
    this.element.setAttribute("aria-label", "Inspector");
    this.#said.setAttribute("role", "status");
    this.#result.setAttribute("role", "status");
    say(this.#result, "");
    this.element.append(this.#line(), this.#bar(), this.#result, this.#text.element, this.#panel.element);
    keepKeys(this.element, signal);
    this.#repaint();
  }

  learned(): void {
    this.#whole = readWhole(this.model.get("whole"));
    this.#repaint();
    this.#show();
    if (this.#search !== "") this.#find(this.#search);
  }

  told(): void {
    const { position, line } = parsed<{ position?: number; line?: string }>(this.model.get("told"));
    if (position !== undefined) this.#panel.tell(position, line ?? "");
  }

  found(): void {
    const { token, ranks, refused } = parsed<Partial<Found>>(this.model.get("found"));
    if (token === undefined || token !== this.#search) return;
    if (refused !== undefined) return say(this.#result, refused);
    const here = ranksReturned(this.reading, token);
    this.#ranked(token, here.map((one, place) => ranks?.[place] ?? one), this.#wholes());
  }

  #chose(place: number): void {
    const stretch = this.#text.stretches[place];
    this.#show();
    const known = stretch !== undefined && typeof this.#whole.entropy[stretch.last] === "number";
    if (known && this.#whole.rows[stretch.last] === undefined) this.#ask({ type: "Weigh", position: stretch.last });
  }

  #show(): void {
    const stretch = this.#text.stretches[this.#text.chosen];
    if (stretch !== undefined) this.#panel.show(this.reading, stretch, this.#whole);
  }

  #repaint(): void {
    this.#controls.show();
    this.#controls.element.hidden = this.#ranks !== null; // the colours are those of the searched token then
    this.#text.paint({ view: this.#choices.current.view, beside: this.#beside, whole: this.#whole, scales: scalesFor(this.reading), searched: this.#ranks });
  }

  #line(): HTMLElement {
    const line = make("div", "acs-status");
    line.append(...statistics(this.reading).map((one) => make("span", "", one)));
    const copy = make("button", "acs-quiet acs-act", "Copy as table");
    copy.title = "One row a token, tab-separated: pandas.read_clipboard(sep='\\t')";
    copy.addEventListener("click", () => void this.#copy());
    const side = make("span", "acs-side");
    side.append(this.#said, copy);
    line.append(side);
    say(this.#said, "");
    return line;
  }

  async #copy(): Promise<void> {
    const text = table(this.reading);
    const copied = await copyText(text);
    if (!copied) saveFile("score.tsv", text);
    say(this.#said, copied ? "copied" : "saved as score.tsv");
  }

  #bar(): HTMLElement {
    const row = make("div", "acs-inspector-bar");
    const select = make("select", "acs-quiet");
    select.setAttribute("aria-label", "Show beside the tokens");
    for (const [value, name] of BESIDE) {
      const option = make("option", "", name);
      option.value = value;
      select.append(option);
    }
    select.addEventListener("change", () => {
      this.#beside = BESIDE.find(([value]) => value === select.value)?.[0] ?? "nothing";
      this.#repaint();
    });
    row.append(this.#controls.element, select, this.#searchBox());
    return row;
  }

  #searchBox(): HTMLElement {
    const form = make("form", "acs-search");
    const label = make("label", "", "rank of");
    const input = make("input", "");
    Object.assign(input, { type: "text", id: freshId("search"), placeholder: "a token, its blank too", autocomplete: "off", spellcheck: false });
    label.htmlFor = input.id;
    const go = make("button", "acs-quiet acs-act", "Find");
    const clear = make("button", "acs-quiet acs-act", "Clear");
    clear.hidden = true;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (input.value === "") return clear.click();
      clear.hidden = false;
      this.#find(input.value);
    });
    input.addEventListener("keydown", (event) => {
      if (event.key !== "Enter") return;
      event.preventDefault(); // the page may keep a form from being sent by a key
      event.stopPropagation();
      form.requestSubmit();
    });
    clear.addEventListener("click", () => {
      input.value = this.#search = "";
      this.#ranks = null;
      clear.hidden = true;
      say(this.#result, "");
      this.#repaint();
      input.focus();
    });
    form.append(label, input, go, clear);
    return form;
  }

  #find(token: string): void {
    this.#search = token;
    this.#ranked(token, ranksReturned(this.reading, token), 0);
    if (this.#wholes() > 0) this.#ask({ type: "Find", token });
  }

  #ranked(token: string, ranks: (number | null)[], whole: number): void {
    this.#ranks = ranks;
    say(this.#result, searchWords(token, ranks, whole, this.reading.asked));
    this.#repaint();
  }

  #wholes(): number {
    return this.#whole.entropy.filter((one) => one !== null).length;
  }

  #ask(intent: { type: "Weigh"; position: number } | { type: "Find"; token: string }): void {
    if (this.#delivery.deliver(intent)) return;
    const line = "The kernel is gone: run the cell again to ask.";
    if (intent.type === "Weigh") this.#panel.tell(intent.position, line);
    else say(this.#result, line);
  }
}

function parsed<T>(raw: unknown): T {
  try {
    return JSON.parse(String(raw)) as T;
  } catch {
    return {} as T;
  }
}

export default () => ({
  render({ model, el }: RenderProps) {
    dress(el);
    const reading = readReading(model.get("shown"));
    if (reading === null) return;
    const ends = new AbortController();
    const view = new View(model, reading, ends.signal);
    el.append(view.element);
    const heard: [string, () => void][] = [["change:whole", () => view.learned()], ["change:told", () => view.told()], ["change:found", () => view.found()]];
    for (const [name, act] of heard) model.on(name, act);
    return () => {
      for (const [name, act] of heard) model.off(name, act);
      ends.abort();
      view.element.remove();
    };
  },
});
