/**
 * The texts that are being edited, one a node: they stay when what is around them is drawn anew.
 */
import { Editor } from "./editor";

export class Drafts {
  readonly #editors = new Map<string, Editor>();

  /** Edit a node's text, with what follows `place` selected; `send` gets it when it is to go on. */
  open(node: string, text: string, place: number, name: string, around: HTMLElement, send: (text: string) => void): void {
    let editor = this.#editors.get(node);
    if (editor === undefined) {
      const made = new Editor(text, name, send, () => {
        this.#editors.delete(node);
        made.element.remove();
      });
      this.#editors.set(node, (editor = made));
    }
    around.append(editor.element);
    editor.open(place);
  }

  /** Put each box where its node is now. */
  place(sectionOf: (node: string) => HTMLElement | undefined): void {
    for (const [node, { element }] of this.#editors) {
      const section = sectionOf(node);
      if (section !== undefined && element.parentElement !== section) section.append(element);
    }
  }
}
