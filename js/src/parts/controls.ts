/**
 * How to colour a text: the choice, whether numbers stand beside the tokens, and the legend that goes with it.
 */
import type { Choices } from "./choices";
import { make } from "./dom";
import { isView, range, SCALES, VIEWS, type Scales } from "./views";

export class Controls {
  readonly element = make("span", "acs-controls");
  readonly #select = make("select", "acs-quiet");
  readonly #numbers = toggle("123", "Numbers beside the tokens");
  readonly #legend = make("span", "acs-legend");
  readonly #low = make("span", "");
  readonly #high = make("span", "");
  readonly #cells = Array.from({ length: 8 }, (_, level) => make("i", `acs-cell acs-p${level}`));

  constructor(
    readonly choices: Choices,
    readonly scales: Scales = SCALES,
  ) {
    this.#select.setAttribute("aria-label", "Colour by");
    for (const view of VIEWS) {
      const option = make("option", "", scales[view].name);
      option.value = view;
      this.#select.append(option);
    }
    this.#select.addEventListener("change", () => {
      if (isView(this.#select.value)) choices.change({ view: this.#select.value });
    });
    this.#numbers.addEventListener("click", () => choices.change({ numbers: !choices.current.numbers }));
    this.#legend.setAttribute("role", "img");
    this.#legend.append(this.#low, ...this.#cells, this.#high);
    this.element.hidden = true;
    this.element.append(this.#legend, this.#select, this.#numbers);
    this.show();
  }

  /** Say what is chosen now. */
  show(): void {
    const { view, numbers } = this.choices.current;
    const { low, high, about } = this.scales[view];
    this.#select.value = view;
    this.#select.title = about;
    press(this.#numbers, numbers);
    this.#low.textContent = low;
    this.#high.textContent = high;
    this.#legend.setAttribute("aria-label", `${about}: from ${low}, plain, to ${high}, the strongest tint and a double line`);
    this.#legend.dataset["view"] = view;
    this.#cells.forEach((cell, level) => {
      cell.className = `acs-cell acs-p${level} acs-by-${view}`;
      cell.title = range(view, level, this.scales);
    });
  }
}

/** A small button that is on or off. */
export function toggle(words: string, about: string): HTMLButtonElement {
  const button = make("button", "acs-quiet", words);
  button.title = about;
  button.setAttribute("aria-label", about);
  press(button, false);
  return button;
}

export function press(button: HTMLButtonElement, on: boolean): void {
  button.setAttribute("aria-pressed", String(on));
}
