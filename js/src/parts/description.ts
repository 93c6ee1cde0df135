/**
 * What there is to say about a token: its probability, what the model almost said, and where it stands.
 */
import type { NodeState } from "../state";
import { buttons, isText, type Acts } from "./acts";
import { percent } from "./colour";
import { make } from "./dom";
import { askedAt, fewer, placeOf, rank, type Alternative, type Ranking } from "./ranking";
import { count } from "./status";
import { codePoints, needsCodePoints, quoted, type Piece } from "./text";
import { bits, entropyOf } from "./views";

const LONGEST = 12;

/**
 * Everything known about the tokens of a piece. `asked`: alternatives the request asked for. With `acts` its
 * alternatives are buttons.
 */
export function describe(node: NodeState, piece: Piece, asked: number | null, parts = false, acts: Acts | null = null): Node {
  const content = document.createDocumentFragment();
  const several = piece.last > piece.first;
  if (parts) content.append(make("p", "acs-tip-note acs-tip-parts", "The continuations part here"));
  if (isPut(node, piece.last)) content.append(make("p", "acs-tip-note acs-tip-parts", "The branch leaves here: this was put in by its reader"));
  else if (piece.last < node.kept) content.append(make("p", "acs-tip-note", "Kept from the text that this branch left"));
  if (several) content.append(make("p", "acs-tip-note", `${piece.last - piece.first + 1} tokens make this text`));
  for (let i = piece.first; i <= piece.last; i++) {
    // What stands within a character cannot be replaced as text.
    content.append(section(node, i, i === piece.last ? piece.text : "", askedAt(node, i, asked), several ? 4 : LONGEST, i === piece.first ? acts : null));
  }
  content.append(make("p", "acs-tip-note acs-tip-foot", whereabouts(node, piece)));
  if (acts !== null) content.append(buttons(piece.first, acts));
  return content;
}

/** What a screen reader says for a token. */
export function spoken(node: NodeState, piece: Piece): string {
  const logprob = node.logprobs[piece.last];
  const words = piece.text.trim() === "" || needsCodePoints(piece.text) ? names(piece.text) : piece.text.trim();
  return logprob === null || logprob === undefined ? words : `${words}, ${percent(logprob)}`;
}

/** `token 12 of 90 · character 48`: both from 1, characters as code points. */
export function whereabouts(node: NodeState, piece: Piece): string {
  let units = 0;
  for (let i = 0; i < piece.first; i++) units += node.tokens[i]?.length ?? 0;
  const character = Array.from(node.text.slice(0, units)).length + 1;
  const tokens = piece.last > piece.first ? `tokens ${count(piece.first + 1)} to ${count(piece.last + 1)}` : `token ${count(piece.first + 1)}`;
  return `${tokens} of ${count(node.tokens.length)} · character ${count(character)}`;
}

/** `3.42 bits · rank 3 · entropy 1.90 bits of what was returned`. */
export function measures(node: NodeState, index: number, asked: number | null): string {
  const logprob = node.logprobs[index];
  const top = node.top[index];
  if (logprob === null || logprob === undefined) return "";
  const said = [`surprisal ${bits(logprob).toFixed(2)} bits`];
  const place = top ? placeOf(node.tokens[index] ?? "", logprob, top, asked) : undefined;
  if (place === null) said.push(asked ? `not among the ${asked} likeliest` : "rank not known");
  else if (place !== undefined) said.push(`rank ${place}`);
  const entropy = entropyOf(node, index);
  if (entropy !== null) said.push(`entropy ${entropy.toFixed(2)} bits of what was returned`);
  return said.join(" · ");
}

/** Fewer alternatives than asked for: why. */
export function shortfall(node: NodeState, index: number, asked: number | null): string {
  const came = fewer(node.top[index], asked);
  return came === null ? "" : `${came} of ${asked} returned: some share one spelling`;
}

function names(text: string): string {
  const name: Record<string, string> = { " ": "space", "\n": "newline", "\t": "tab" };
  const parts = Array.from(text, (c) => name[c] ?? codePoints(c));
  return parts.length > 3 && new Set(parts).size === 1 ? `${parts.length} × ${parts[0]}` : parts.join(" ");
}

/** Whether the reader of a branch put this token in its place. */
export function isPut(node: NodeState, index: number): boolean {
  return node.origin !== null && node.origin.text !== "" && index === node.kept - 1;
}

function section(node: NodeState, index: number, text: string, asked: number | null, most: number, acts: Acts | null): HTMLElement {
  const token = node.tokens[index] ?? "";
  const logprob = node.logprobs[index] ?? null;
  const whole = make("div", "acs-tip-token");
  const head = make("div", "acs-tip-head");
  head.append(make("span", "acs-tip-quote", quoted(token)));
  head.append(make("span", "acs-tip-figure", logprob === null ? "no probability" : percent(logprob)));
  whole.append(head);
  const note = (words: string) => words !== "" && whole.append(make("div", "acs-tip-note", words));
  note(measures(node, index, asked));
  if (needsCodePoints(token)) note(codePoints(token));
  if (text !== "" && text !== token) note(`cut to ${quoted(text)}`);
  if (logprob !== null || node.top[index]) whole.append(table(rank(token, logprob, node.top[index] ?? null, asked), most, isPut(node, index) ? "put in" : "sampled", acts && ((with_: string) => acts.fork(index, with_))));
  note(shortfall(node, index, asked));
  return whole;
}

type Fork = ((text: string) => void) | null;

function table({ alternatives, other }: Ranking, most: number, taken: string, fork: Fork): HTMLElement {
  const grid = make("table", "acs-tip-table");
  grid.append(make("caption", "acs-hidden", "Rank, alternative, probability, logprob"));
  const shown = alternatives.filter((one, place) => place < most || one.sampled);
  for (const one of shown) grid.append(row(one, taken, fork));
  const hidden = alternatives.filter((one) => !shown.includes(one));
  if (hidden.length > 0) {
    const mass = hidden.reduce((sum, one) => sum + Math.exp(one.logprob), 0);
    grid.append(line("acs-tip-rest", "", `${hidden.length} more`, Math.log(mass), ""));
  }
  if (other >= 0.00005) grid.append(line("acs-tip-rest", "", "other", Math.log(other), ""));
  return grid;
}

function row(one: Alternative, taken: string, fork: Fork): HTMLElement {
  const place = one.rank === null ? "…" : String(one.rank);
  const element = line(one.sampled ? "acs-tip-sampled" : "", place, quoted(one.token), one.logprob, one.logprob.toFixed(2));
  if (one.sampled) element.append(make("td", "acs-tip-mark", taken));
  else if (fork !== null && isText(one.token)) element.cells[1]?.replaceChildren(branchButton(one, fork));
  return element;
}

function branchButton(one: Alternative, fork: (text: string) => void): HTMLElement {
  const button = make("button", "acs-alternative", quoted(one.token));
  button.title = "A new branch with this token";
  button.setAttribute("aria-label", `Branch with ${quoted(one.token)}, ${percent(one.logprob)}`);
  button.addEventListener("click", () => fork(one.token));
  return button;
}

function line(name: string, place: string, text: string, logprob: number, shown: string): HTMLTableRowElement {
  const element = make("tr", name);
  element.append(
    make("td", "acs-tip-rank", place),
    make("td", "acs-tip-text", text),
    bar(Math.exp(logprob)),
    make("td", "acs-tip-figure", percent(logprob)),
    make("td", "acs-tip-figure acs-tip-log", shown.replace("-", "−")),
  );
  return element;
}

/** A share of 1 as a bar in a table cell. */
export function bar(share: number): HTMLElement {
  const cell = make("td", "acs-tip-bar");
  cell.style.setProperty("--acs-share", String(Math.min(1, share)));
  return cell;
}
