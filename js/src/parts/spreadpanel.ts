/**
 * The distribution at the chosen position: bars, the sum so far, where a temperature moves it, where a nucleus ends.
 */
import { percent } from "./colour";
import { bar } from "./description";
import { freshId, make, say } from "./dom";
import { entropyOfReturned, hex, nats, type Reading, type Stretch, type Whole } from "./reading";
import { spreadReturned, spreadWhole, STEP, type Spread, type SpreadRow } from "./spread";
import { codePoints, needsCodePoints, quoted } from "./text";
import { bits } from "./views";

const FIRST = 20;
const count = (value: number) => value.toLocaleString("en-US");

export class SpreadPanel {
  readonly element = make("section", "acs-spread");
  readonly #head = make("div", "acs-tip-head");
  readonly #facts = make("p", "acs-tip-note");
  readonly #about = make("p", "acs-tip-note acs-spread-about");
  readonly #table = make("table", "acs-tip-table acs-spread-table");
  readonly #more = make("button", "acs-quiet acs-act");
  readonly #ask = make("button", "acs-quiet acs-act");
  readonly #told = make("p", "acs-tip-note acs-spread-told");
  readonly #temperature = dial("temperature", 0.05, 2, 1);
  readonly #top_p = dial("top_p", STEP, 1, 1);
  #all = false;
  #now: { reading: Reading; stretch: Stretch; whole: Whole } | null = null;

  constructor(ask: (position: number) => void) {
    this.element.setAttribute("aria-label", "Distribution at the chosen token");
    this.#told.setAttribute("role", "status");
    const dials = make("div", "acs-spread-dials");
    dials.append(this.#temperature.row, this.#top_p.row);
    for (const one of [this.#temperature, this.#top_p]) one.input.addEventListener("input", () => this.#draw());
    this.#more.addEventListener("click", () => {
      this.#all = !this.#all;
      this.#draw();
    });
    this.#ask.addEventListener("click", () => this.#now && ask(this.#now.stretch.last));
    const acts = make("div", "acs-acts");
    acts.append(this.#more, this.#ask);
    this.element.append(this.#head, this.#facts, this.#about, dials, this.#table, acts, this.#told);
    this.element.hidden = true;
  }

  show(reading: Reading, stretch: Stretch, whole: Whole): void {
    if (this.#now?.stretch !== stretch) this.#all = false;
    this.#now = { reading, stretch, whole };
    this.element.hidden = false;
    this.#draw();
  }

  /** What became of a request for a position. */
  tell(position: number, line: string): void {
    if (this.#now !== null && this.#now.stretch.last !== position && line === "") return;
    say(this.#told, line);
  }

  #draw(): void {
    if (this.#now === null) return;
    const { reading, stretch, whole } = this.#now;
    const token = reading.tokens[stretch.last];
    if (token === undefined) return;
    const row = whole.rows[stretch.last];
    const [temperature, top_p] = [this.#temperature.value(), this.#top_p.value()];
    const spread = row === undefined ? spreadReturned(token, temperature, top_p) : spreadWhole(row, temperature, top_p);
    this.#head.replaceChildren(
      make("span", "acs-tip-quote", quoted(stretch.text)),
      make("span", "acs-tip-figure", token.logprob === null ? "not scored" : percent(token.logprob)),
    );
    say(this.#facts, facts(reading, stretch, row?.entropy ?? null));
    say(this.#about, token.logprob === null ? "Nothing stands in front of the first token: it has no distribution." : about(spread, temperature, top_p, row?.vocabulary ?? null, reading));
    const shown = spread.rows.filter((one, place) => this.#all || place < FIRST || one.own);
    this.#fill(shown, spread, temperature);
    say(this.#more, spread.rows.length > FIRST + 1 ? (this.#all ? `Show ${FIRST}` : `Show all ${spread.rows.length}`) : "");
    say(this.#ask, row !== undefined || token.logprob === null ? "" : askWords(reading, stretch, whole));
  }

  #fill(rows: SpreadRow[], spread: Spread, temperature: number): void {
    const body = make("tbody", "");
    const lined = { done: spread.nucleus === null };
    for (const row of rows) {
      body.append(rowOf(row, temperature));
      if (!lined.done && row.rank === spread.nucleus) {
        lined.done = true;
        const line = make("tr", "acs-nucleus");
        const cell = make("th", "", `nucleus of top_p ${this.#top_p.value()}: ${spread.nucleus} ${spread.nucleus === 1 ? "token" : "tokens"}`);
        cell.colSpan = 6;
        cell.scope = "colgroup";
        line.append(cell);
        body.append(line);
      }
    }
    this.#table.hidden = rows.length === 0;
    this.#table.replaceChildren(make("caption", "acs-hidden", "Tokens of this position, likeliest first"), heads(temperature), body);
  }
}

/** What the button says: what it asks for, and the most it can cost. */
export function askWords(reading: Reading, stretch: Stretch, whole: Whole): string {
  if (typeof whole.entropy[stretch.last] === "number") return "Whole distribution (known, costs nothing)";
  return `Whole distribution: one request, about ${count(reading.front + stretch.last + 2)} tokens`;
}

/** What is said over the table: how much of the whole it is, and where the nucleus ends. */
export function about(spread: Spread, temperature: number, top_p: number, vocabulary: number | null, reading: Reading): string {
  const said: string[] = [];
  const share = `${(spread.covered * 100).toFixed(spread.covered > 0.999 ? 3 : 1)} %`;
  if (vocabulary !== null) said.push(`Whole distribution over ${count(vocabulary)} tokens; these ${spread.rows.length} hold ${share}.`);
  else if (spread.rows.length === 0) said.push("No alternatives were returned.");
  else said.push(`What was returned (${reading.asked} asked for) holds ${share}; ${((1 - spread.covered) * 100).toFixed(1)} % is not covered.`);
  if (!spread.exact && spread.rows.length > 0) said.push(`Temperature ${temperature} over these alone: a part that was not returned is left out.`);
  if (top_p < 1 && spread.nucleus === null && spread.rows.length > 0) said.push(`The nucleus of top_p ${top_p} reaches beyond what is listed.`);
  return said.join(" ");
}

function facts(reading: Reading, { text, first, last }: Stretch, entropy: number | null): string {
  const said = [first === last ? `token ${count(last + 1)} of ${count(reading.tokens.length)}` : `tokens ${count(first + 1)} to ${count(last + 1)} make this text; the last is shown`];
  const token = reading.tokens[last];
  if (token === undefined) return "";
  said.push(`id ${reading.tokens.slice(first, last + 1).map(({ id }) => id ?? "not told").join(" + ")}`);
  said.push(`bytes ${hex(text) || "not told"}`);
  if (needsCodePoints(text)) said.push(codePoints(text));
  if (token.logprob !== null) said.push(`logprob ${nats(token.logprob)} nats`, `surprisal ${bits(token.logprob).toFixed(2)} bits`);
  if (token.rank !== null) said.push(reading.ranks === "server" ? `rank ${count(token.rank)}` : `place ${token.rank} of what was returned`);
  const part = entropyOfReturned(token);
  if (entropy !== null) said.push(`entropy ${entropy.toFixed(2)} bits`);
  else if (part !== null) said.push(`entropy ${part.toFixed(2)} bits of what was returned`);
  return said.join(" · ");
}

function heads(temperature: number): HTMLElement {
  const head = make("thead", "");
  const row = make("tr", "");
  const names = ["rank", "token", "", "probability", "sum", temperature === 1 ? "logprob" : `at T ${temperature}`];
  row.append(...names.map((name) => {
    const cell = make(name === "" ? "td" : "th", "", name);
    if (cell instanceof HTMLTableCellElement && name !== "") cell.scope = "col";
    return cell;
  }));
  head.append(row);
  return head;
}

function rowOf(row: SpreadRow, temperature: number): HTMLElement {
  const element = make("tr", `${row.own ? "acs-tip-sampled" : ""}${row.inside === false ? " acs-outside" : ""}`);
  const text = make("td", "acs-tip-text", quoted(row.text));
  if (row.id !== null) text.title = `id ${row.id}`;
  if (row.own) text.append(make("span", "acs-tip-note acs-spread-own", " the text’s"));
  const share = bar(row.probability);
  if (temperature !== 1) share.style.setProperty("--acs-moved", String(Math.min(1, row.moved)));
  element.append(
    make("td", "acs-tip-rank", row.rank === null ? "…" : count(row.rank)),
    text,
    share,
    make("td", "acs-tip-figure", percent(row.logprob)),
    make("td", "acs-tip-figure", row.cumulative === null ? "" : `${(row.cumulative * 100).toFixed(1)} %`),
    make("td", "acs-tip-figure acs-tip-log", temperature === 1 ? nats(row.logprob) : percent(Math.log(row.moved))),
  );
  if (temperature !== 1) share.classList.add("acs-moved");
  return element;
}

function dial(name: string, min: number, max: number, value: number) {
  const row = make("div", "acs-dial");
  const id = freshId(name);
  const label = make("label", "", name);
  label.htmlFor = id;
  const input = make("input", "");
  Object.assign(input, { id, type: "range", min: String(min), max: String(max), step: String(STEP), value: String(value) });
  const output = make("output", "acs-dial-hint", String(value));
  const read = () => Math.round(Number(input.value) * 100) / 100;
  input.addEventListener("input", () => (output.textContent = String(read())));
  row.append(label, input, output);
  return { row, input, value: read };
}
