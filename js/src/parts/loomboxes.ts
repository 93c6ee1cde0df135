/**
 * What opens over or between a loom's parts and takes the keys while it is open: questions, the growth form, the search,
 * the sheet of keys; and the line that a screen reader hears.
 */
import type { Host } from "../host";
import type { Tending } from "../tending";
import { make } from "./dom";
import type { Field } from "./fields";
import { Ask } from "./loomask";
import { GrowForm } from "./loomgrow";
import type { Keys } from "./loomkeys";
import { MeasurePanel } from "./measure/panel";
import { SearchBar } from "./loomsearch";
import { Sheet } from "./loomsheet";

export class Boxes {
  readonly ask: Ask;
  readonly form: GrowForm;
  readonly search: SearchBar;
  readonly sheet: Sheet;
  readonly measure: MeasurePanel;
  readonly #live = make("div", "acs-hidden");

  /** `act` does a command, `back` gives the focus to the tree. */
  constructor(host: Host, keys: Keys, wish: (intent: Tending) => void, act: (command: string) => void, back: () => void) {
    this.ask = new Ask(back);
    const grow = (node: string, n: number, fields: Record<string, string>) => wish({ type: "Grow", node, n, fields });
    this.form = new GrowForm(host.option<Field[]>("form") ?? [], host.option("usual") ?? {}, grow, back);
    this.search = new SearchBar((text, predicate) => wish({ type: "Search", text, predicate }), (by) => act(by > 0 ? "next found" : "previous found"), back);
    this.sheet = new Sheet(keys, back);
    this.measure = new MeasurePanel(wish, back);
    this.#live.setAttribute("role", "status");
  }

  get between(): HTMLElement[] {
    return [this.ask.element, this.form.element, this.measure.element];
  }

  get over(): HTMLElement[] {
    return [this.sheet.element, this.#live];
  }

  /** Say a line, once more if it is the same. */
  announce(line: string): void {
    this.#live.textContent = "";
    this.#live.textContent = line;
  }
}
