/**
 * The texts that are being edited, one a node: they stay when what is around them is drawn anew, and until the
 * branch that they asked for is there.
 */
import type { NodeState, State } from "../state";
import { Editor } from "./editor";

export class Drafts {
  readonly #editors = new Map<string, Editor>();
  /** What was there when a text was sent. */
  readonly #before = new Map<string, ReadonlySet<string>>();

  /** Edit a node's text, with what follows `place` selected; `send` gets it when it is to go on. */
  open(node: string, text: string, place: number, name: string, around: HTMLElement, state: () => State, send: (text: string) => void): void {
    let editor = this.#editors.get(node);
    if (editor === undefined) {
      const go = (changed: string) => {
        this.#before.set(node, new Set(Object.keys(state().nodes)));
        send(changed);
      };
      const made = new Editor(text, name, go, () => this.#close(node));
      this.#editors.set(node, (editor = made));
    }
    around.append(editor.element);
    editor.open(place);
  }

  /** A box whose branch has come is done with; `refused`: nothing comes of what was asked for. Gives back the runs to
   *  which readers go on whose box had the focus. */
  settle(state: State, refused: boolean): string[] {
    const left: string[] = [];
    for (const [node, editor] of [...this.#editors]) {
      if (editor.sent === null) continue;
      const branch = branchWith(state, node, editor.sent, this.#before.get(node) ?? new Set());
      if (branch !== undefined) {
        if (editor.element.contains(document.activeElement)) left.push(branch.run);
        this.#close(node);
      } else if (refused) editor.refused();
    }
    return left;
  }

  #close(node: string): void {
    this.#editors.get(node)?.element.remove();
    this.#editors.delete(node);
    this.#before.delete(node);
  }

  /** Put each box where its node is now. */
  place(sectionOf: (node: string) => HTMLElement | undefined): void {
    for (const [node, { element }] of this.#editors) {
      const section = sectionOf(node);
      if (section !== undefined && element.parentElement !== section) section.append(element);
    }
  }
}

/** The branch of a node, with a text that was asked for, that has come to those that were there before. */
export function branchWith(state: State, node: string, text: string, before: ReadonlySet<string>): NodeState | undefined {
  return Object.values(state.nodes).find((one) => one.origin?.node === node && !before.has(one.id) && one.text.startsWith(text));
}
