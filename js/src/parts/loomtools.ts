/**
 * A loom's commands as buttons, each with its key in its tooltip.
 */
import { make } from "./dom";
import { COMMANDS, keyWords, type Keys } from "./loomkeys";

const SHOWN: readonly (readonly [string, string])[] = [
  ["grow 1", "Grow"], ["grow 3", "Grow 3"], ["grow", "Grow with…"], ["edit", "Edit"], ["write", "Write"], ["split", "Split"], ["merge", "Merge"],
  ["delete", "Delete"], ["undo", "Undo"], ["redo", "Redo"], ["hoist", "Hoist"], ["unhoist", "Unhoist"], ["bookmark", "★"], ["tag", "Tags"],
  ["note", "Note"], ["search", "Search"], ["graph", "Graph"], ["trie", "Trie"], ["diff", "Diff"], ["map", "Map"], ["stop all", "Stop all"], ["store", "Keep"], ["help", "?"],
];

/** Shown when asked for: what a hand on the mouse needs more seldom. */
const MORE: readonly (readonly [string, string])[] = [
  ["move up", "Move up"], ["move down", "Move down"], ["take", "Take"], ["put", "Put below"], ["put root", "Put as root"], ["sibling", "Write beside"],
  ["root", "New root"], ["fold", "Fold"], ["rate up", "Rate +"], ["rate down", "Rate −"], ["mark unread", "Unread"], ["light", "Light"], ["copy", "Copy"],
];

export function toolbar(keys: Keys, act: (command: string) => void): HTMLElement {
  const bar = make("div", "acs-loom-tools");
  bar.setAttribute("role", "toolbar");
  bar.setAttribute("aria-label", "Commands");
  const buttons = [...SHOWN, ...MORE].map(([name, words], place) => {
    const about = COMMANDS.find((command) => command.name === name)?.about ?? name;
    const key = keys.of(name).map(keyWords).join(", ");
    const button = make("button", "acs-quiet acs-act", words);
    button.tabIndex = place === 0 ? 0 : -1;
    button.title = key === "" ? about : `${about} (${key})`;
    if (!/^\w/.test(words)) button.setAttribute("aria-label", about);
    button.addEventListener("click", () => act(name));
    button.hidden = place >= SHOWN.length;
    return button;
  });
  const more = make("button", "acs-quiet acs-act", "More");
  more.tabIndex = -1;
  more.ariaExpanded = "false";
  more.title = "More commands as buttons";
  more.addEventListener("click", () => {
    const open = more.ariaExpanded !== "true";
    more.ariaExpanded = String(open);
    for (const button of buttons.slice(SHOWN.length + 1)) button.hidden = !open;
  });
  buttons.splice(SHOWN.length, 0, more);
  // One tab stop, and arrows within, as toolbars have it.
  bar.addEventListener("keydown", (event) => {
    const shown = buttons.filter((button) => !button.hidden);
    const at = shown.findIndex((button) => button === document.activeElement);
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const next = step === undefined ? undefined : shown[at + step];
    if (next === undefined) return;
    buttons.forEach((button) => (button.tabIndex = button === next ? 0 : -1));
    next.focus();
    event.preventDefault();
    event.stopPropagation();
  });
  bar.append(...buttons);
  return bar;
}
