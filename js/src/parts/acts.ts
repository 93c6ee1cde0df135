/**
 * What a reader can do at a token: branch with an alternative, sample again from here, edit and continue.
 */
import { echoed, type State } from "../state";
import { freshId, make } from "./dom";
import type { Looked } from "./inspect";

/** What the buttons of a pinned tooltip do. */
export interface Acts {
  fork(token: number, text: string): void;
  resample(token: number): void;
  edit(token: number): void;
  /** The run was greedy: the same text comes again. */
  greedy: boolean;
  /** Whether branches are sent as token ids. */
  exact: boolean;
}

/** Whether a branch can leave at this piece: it is the model's own, and not the prompt's echo. */
export function canLeave(state: State, { node, piece }: Looked): boolean {
  let units = 0;
  for (let i = 0; i < piece.first; i++) units += node.tokens[i]?.length ?? 0;
  return piece.first >= 0 && units >= echoed(state, node);
}

/** Whether a token can be put in place as text: bytes of a character have none. */
export function isText(token: string): boolean {
  return token !== "" && !token.includes("\ufffd");
}

/** The buttons under the alternatives. */
export function buttons(token: number, acts: Acts): HTMLElement {
  const whole = make("div", "acs-acts");
  const button = (words: string, about: string, act: () => void) => {
    const element = make("button", "acs-quiet acs-act", words);
    element.title = about;
    element.addEventListener("click", act);
    whole.append(element);
  };
  button("resample from here", "Keeps the text before this token and samples on from there", () => acts.resample(token));
  if (acts.greedy) whole.append(make("span", "acs-tip-note", "at temperature 0 it gives the same text"));
  button("edit and continue…", "A branch that goes on from a text you change", () => acts.edit(token));
  const box = make("input", "");
  box.type = "checkbox";
  box.id = freshId("exact");
  box.checked = acts.exact;
  box.addEventListener("change", () => (acts.exact = box.checked));
  const label = make("label", "acs-exact", "exact");
  label.htmlFor = box.id;
  const note = make("span", "acs-tip-note", "by token ids; one more request, about as long");
  note.id = freshId("exact-note");
  box.setAttribute("aria-describedby", note.id);
  const row = make("span", "acs-exact-row");
  row.append(box, label, note);
  whole.append(row);
  return whole;
}
