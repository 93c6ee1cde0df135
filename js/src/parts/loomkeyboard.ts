/**
 * Keys of a loom while the focus is in it: each a command, unless it belongs to a box, a button or a token.
 */
import { tokenAt } from "./inspect";
import { keyName, type Keys } from "./loomkeys";
import type { Tooltip } from "./tooltip";

export interface Keyed {
  act(command: string): void;
  /** Split before the token that has the focus. */
  splitAt(token: HTMLElement): void;
  /** Whether a token is being chosen to split at: Escape then leads back at once, as the line says. */
  choosing(): boolean;
  /** Back to the tree. */
  back(): void;
  /** Escape in the tree itself. */
  leave(): void;
}

/** What has keys of its own. */
const OWN = "input, textarea, select, form, [role=dialog]";

export function listenToKeys(root: HTMLElement, keys: Keys, tip: Tooltip, { act, splitAt, choosing, back, leave }: Keyed, signal: AbortSignal): void {
  const pressed = (event: KeyboardEvent): boolean => {
    const { target } = event;
    const key = keyName(event);
    if (!(target instanceof Element) || key === "" || tip.element.contains(target) || target.closest(OWN) !== null) return false;
    const token = tokenAt(target);
    const command = keys.command(key, target.closest(".acs-graph") !== null);
    if (token === null) {
      if (target.closest("button") !== null && (key === "Enter" || key === " ")) return false;
      if (target.closest("[role=toolbar]") !== null && /^Arrow(Left|Right)$/.test(key)) return false;
      if (key === "Escape") target.closest("[role=tree]") === null ? back() : leave();
      else if (command !== undefined) act(command);
      else return false;
      return true;
    }
    // In a text the arrows and Enter are the tokens', as in the live cell.
    if (key === "Escape" && (tip.anchor === null || choosing())) back();
    else if (command === "split") splitAt(token);
    else if (command === undefined || /^(Arrow|Home|End|Enter|Escape| )/.test(key)) return false;
    else act(command);
    return true;
  };
  root.addEventListener("keydown", (event) => {
    if (!pressed(event)) return;
    event.preventDefault();
    event.stopPropagation();
  }, { signal, capture: true });
}
