/**
 * A loom's commands as buttons, each with its key in its tooltip.
 */
import { make } from "./dom";
import { COMMANDS, keyWords, type Keys } from "./loomkeys";

const SHOWN: readonly (readonly [string, string])[] = [
  ["grow 1", "Grow"], ["grow 3", "Grow 3"], ["grow", "Grow with…"], ["edit", "Edit"], ["write", "Write"], ["split", "Split"], ["merge", "Merge"],
  ["delete", "Delete"], ["undo", "Undo"], ["redo", "Redo"], ["hoist", "Hoist"], ["unhoist", "Unhoist"], ["bookmark", "★"], ["tag", "Tags"],
  ["note", "Note"], ["search", "Search"], ["stop all", "Stop all"], ["store", "Keep"], ["help", "?"],
];

export function toolbar(keys: Keys, act: (command: string) => void): HTMLElement {
  const bar = make("div", "acs-loom-tools");
  bar.setAttribute("role", "toolbar");
  bar.setAttribute("aria-label", "Commands");
  const buttons = SHOWN.map(([name, words], place) => {
    const about = COMMANDS.find((command) => command.name === name)?.about ?? name;
    const key = keys.of(name).map(keyWords).join(", ");
    const button = make("button", "acs-quiet acs-act", words);
    button.type = "button";
    button.tabIndex = place === 0 ? 0 : -1;
    button.title = key === "" ? about : `${about} (${key})`;
    if (!/^\w/.test(words)) button.setAttribute("aria-label", about);
    button.addEventListener("click", () => act(name));
    return button;
  });
  // One tab stop, and arrows within, as toolbars have it.
  bar.addEventListener("keydown", (event) => {
    const at = buttons.findIndex((button) => button === document.activeElement);
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const next = step === undefined ? undefined : buttons[at + step];
    if (next === undefined) return;
    buttons.forEach((button) => (button.tabIndex = button === next ? 0 : -1));
    next.focus();
    event.preventDefault();
    event.stopPropagation();
  });
  bar.append(...buttons);
  return bar;
}
