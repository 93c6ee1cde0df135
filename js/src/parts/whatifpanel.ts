/**
 * The What-if panel: other sampling settings, and what they would have left of what the model had in mind.
 */
import type { NodeState } from "../state";
import { bar } from "./description";
import { freshId, make, say } from "./dom";
import { count } from "./status";
import { quoted, type Piece } from "./text";
import type { Tally } from "./tokens";
import { NEUTRAL, outlook, type Cut, type Reshaped, type Settings } from "./whatif";

interface Dial {
  key: keyof Settings;
  name: string;
  max: number;
  step: number;
  /** What the box takes beyond the slider. */
  most: number;
  hint: string;
}

const DIALS: readonly Dial[] = [
  { key: "temperature", name: "temperature", max: 3, step: 0.05, most: 100, hint: "0 is greedy" },
  { key: "min_p", name: "min_p", max: 1, step: 0.01, most: 1, hint: "0 is off" },
  { key: "top_k", name: "top_k", max: 20, step: 1, most: 1_000_000, hint: "0 is off here; a request takes -1" },
  { key: "top_p", name: "top_p", max: 1, step: 0.01, most: 1, hint: "1 is off" },
];

const BY: Record<Cut, string> = { temperature: "not the likeliest", min_p: "cut by min_p", top_k: "cut by top_k", top_p: "cut by top_p" };

export class WhatIfPanel {
  readonly element = make("details", "acs-whatif");
  readonly #token = make("div", "acs-whatif-token");
  readonly #whole = make("p", "acs-whatif-whole");
  readonly #inputs = new Map<keyof Settings, HTMLInputElement[]>();
  readonly #own: Settings;
  #settings: Settings;
  #looked: { node: NodeState; piece: Piece; asked: number | null } | null = null;

  /** `own`: what the run was sampled with. `changed`: called when the marks in the text no longer hold. */
  constructor(own: Settings, changed: () => void) {
    this.#own = own;
    this.#settings = { ...own };
    const summary = make("summary", "", "What if it had been sampled differently?");
    const dials = make("div", "acs-dials");
    for (const dial of DIALS) dials.append(this.#dial(dial, changed));
    dials.append(this.#buttons(changed));
    const note = make(
      "p",
      "acs-whatif-note",
      "Worked out from the alternatives returned, taken for the whole: temperature, then min_p, top_k, top_p. The rest is not covered, so the server’s top_p may cut less.",
    );
    this.#whole.setAttribute("role", "status");
    const sight = make("div", "acs-whatif-sight");
    sight.append(this.#whole, this.#token);
    const body = make("div", "acs-whatif-body");
    body.append(dials, sight);
    this.element.append(summary, body, note);
    this.element.addEventListener("toggle", () => {
      this.#draw();
      changed();
    });
    this.#draw();
  }

  /** The settings to mark by, or `null` while the panel is closed. */
  get settings(): Settings | null {
    return this.element.open ? this.#settings : null;
  }

  /** Show this token from now on. */
  look(node: NodeState, piece: Piece, asked: number | null): void {
    this.#looked = { node, piece, asked };
    this.#draw();
  }

  /** What came of the whole text. */
  tell({ judged, cut, unknown }: Tally): void {
    if (!this.element.open) return;
    const share = judged === 0 ? "" : ` (${((cut / judged) * 100).toFixed(1)} %)`;
    const open = unknown === 0 ? "" : ` Of ${count(unknown)} more it cannot be said: their rank is not known.`;
    say(this.#whole, judged === 0 ? "No alternatives were returned." : `${count(cut)} of ${count(judged)} sampled tokens would have been cut${share}; they are struck through.${open}`);
  }

  #dial({ key, name, max, step, most, hint }: Dial, changed: () => void): HTMLElement {
    const row = make("div", "acs-dial");
    const label = make("label", "", name);
    const [slider, box] = [make("input", ""), make("input", "")];
    slider.type = "range";
    box.type = "number";
    label.htmlFor = box.id = freshId(key);
    slider.setAttribute("aria-label", `${name}, slider`);
    for (const input of [slider, box]) {
      Object.assign(input, { min: "0", max: String(input === slider ? max : most), step: input === slider ? String(step) : key === "top_k" ? "1" : "any" });
      input.value = String(this.#settings[key]);
      input.addEventListener("input", () => {
        if (input.value === "" || !input.checkValidity()) return;
        this.#set({ ...this.#settings, [key]: Number(input.value) }, input, changed);
      });
    }
    this.#inputs.set(key, [slider, box]);
    row.append(label, slider, box, make("span", "acs-dial-hint", hint));
    return row;
  }

  #buttons(changed: () => void): HTMLElement {
    const row = make("div", "acs-dial-buttons");
    for (const [words, settings] of [["as sampled", this.#own], ["nothing cut", NEUTRAL]] as const) {
      const button = make("button", "acs-quiet", words);
      button.addEventListener("click", () => this.#set({ ...settings }, null, changed));
      row.append(button);
    }
    return row;
  }

  #set(settings: Settings, from: HTMLInputElement | null, changed: () => void): void {
    this.#settings = settings;
    for (const [key, inputs] of this.#inputs) {
      for (const input of inputs) if (input !== from) input.value = String(settings[key]);
    }
    this.#draw();
    changed();
  }

  #draw(): void {
    if (!this.element.open) return;
    this.#token.replaceChildren();
    if (this.#looked === null) {
      this.#token.append(make("p", "acs-whatif-note", "Click a token, or go to it with the keys, to see its alternatives here."));
      return;
    }
    const { node, piece, asked } = this.#looked;
    const { rows, covered } = outlook(node, piece.last, asked, this.#settings);
    if (rows.length === 0) {
      this.#token.append(make("p", "acs-whatif-note", `No alternatives were returned for ${quoted(piece.text)}.`));
      return;
    }
    const share = covered > 0.9995 ? "all" : `${(covered * 100).toFixed(1)} %`;
    this.#token.append(make("p", "acs-whatif-name", `${quoted(node.tokens[piece.last] ?? "")}: ${rows.length} alternatives held ${share} of the probability; shares of that`));
    const table = make("table", "acs-tip-table");
    table.append(make("caption", "acs-hidden", "Alternative, its share as returned, and under these settings"), heads());
    for (const one of rows) table.append(line(one, covered));
    this.#token.append(table);
  }
}

function heads(): HTMLElement {
  const [head, row] = [make("thead", ""), make("tr", "")];
  for (const [name, style] of [["", ""], ["returned", "acs-tip-figure"], ["", ""], ["set here", "acs-tip-figure"]] as const) {
    row.append(make(name === "" ? "td" : "th", style, name));
  }
  head.append(row);
  return head;
}

function line({ alternative, probability, cut }: Reshaped, covered: number): HTMLElement {
  const name = `${alternative.sampled ? "acs-tip-sampled" : ""} ${cut === null ? "" : "acs-gone"}`.trim();
  const row = make("tr", name);
  const before = Math.exp(alternative.logprob) / covered;
  row.append(
    make("td", "acs-tip-text", quoted(alternative.token)),
    make("td", "acs-tip-figure acs-tip-log", share(before)),
    make("td", "acs-whatif-arrow", "→"),
    make("td", "acs-tip-figure", cut === null ? share(probability) : "–"),
    bar(probability),
    make("td", "acs-tip-mark", [cut === null ? "" : BY[cut], alternative.sampled ? "sampled" : ""].filter(Boolean).join(", ")),
  );
  return row;
}

function share(value: number): string {
  return value > 0 && value < 0.0005 ? "<0.1 %" : `${(value * 100).toFixed(1)} %`;
}
