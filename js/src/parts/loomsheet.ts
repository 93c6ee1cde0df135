/**
 * The sheet of keys.
 */
import { freshId, make } from "./dom";
import { passes } from "./shortcuts";
import { COMMANDS, GRAPH_COMMANDS, keyWords, type Keys } from "./loomkeys";

export class Sheet {
  readonly element = make("div", "acs-loom-sheet");

  constructor(keys: Keys, readonly closed: () => void) {
    const title = make("h3", "", "Keys");
    title.id = freshId("keys");
    const list = make("dl", "acs-loom-keys");
    const grows = COMMANDS.filter(({ name }) => /^grow \d$/.test(name));
    for (const { name, about } of [...COMMANDS, ...GRAPH_COMMANDS]) {
      if (grows.some((one) => one.name === name) && name !== "grow 1") continue;
      const shown = name === "grow 1" ? grows.flatMap((one) => keys.of(one.name)) : keys.of(name);
      if (shown.length === 0) continue;
      const pair = make("div", "");
      const term = make("dt", "");
      const few = shown.length > 4 ? [`${keyWords(shown[0] ?? "")} … ${keyWords(shown.at(-1) ?? "")}`] : shown.map(keyWords);
      for (const key of few) term.append(make("kbd", "", key));
      pair.append(term, make("dd", "", name === "grow 1" ? "grow that many" : about));
      list.append(pair);
    }
    const close = make("button", "acs-quiet", "Close");
    close.addEventListener("click", () => this.close());
    this.element.append(title, list, ...keys.problems.map((line) => make("p", "acs-error", line)), close);
    this.element.setAttribute("role", "dialog");
    this.element.setAttribute("aria-labelledby", title.id);
    this.element.tabIndex = -1;
    this.element.hidden = true;
    this.element.addEventListener("keydown", (event) => {
      if (!passes(event)) event.stopPropagation();
      if (event.key !== "Escape" && event.key !== "?") return;
      event.preventDefault();
      this.close();
    });
  }

  open(): void {
    this.element.hidden = false;
    this.element.focus();
  }

  close(): void {
    if (this.element.hidden) return;
    this.element.hidden = true;
    this.closed();
  }
}
