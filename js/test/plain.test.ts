import { beforeEach, describe, expect, it, vi } from "vitest";
import type { NodeState } from "../src/state";

/** As much of a page as a text needs. */
class Part {
  children: Part[] = [];
  dataset: Record<string, string> = {};
  className = "";
  style: Record<string, string> = {};
  #text = "";
  constructor(readonly tag: string) {}
  readonly classList = { add: (name: string) => (this.className += ` ${name}`) };
  set textContent(text: string) {
    this.children = [];
    this.append(leaf(text));
  }
  get textContent(): string {
    return this.#text + this.children.map((child) => child.textContent).join("");
  }
  get firstChild(): Part | null {
    return this.children[0] ?? null;
  }
  appendData(text: string) {
    this.#text += text;
  }
  append(...parts: Part[]) {
    for (const part of parts) this.children.push(...(part.tag === "fragment" ? part.children.splice(0) : [part]));
  }
  all(): Part[] {
    return [this, ...this.children.flatMap((child) => child.all())];
  }
}
function leaf(text: string): Part {
  const made = new Part("text");
  made.appendData(text);
  return made;
}

describe("a text without tokens", () => {
  beforeEach(() => {
    vi.stubGlobal("document", {
      createElement: (tag: string) => new Part(tag),
      createTextNode: leaf,
      createDocumentFragment: () => new Part("fragment"),
    });
    return () => vi.unstubAllGlobals();
  });

  it("is itself to the byte, with marks for what cannot be seen, and what steers shut in", async () => {
    const { TokenText } = await import("../src/parts/tokens");
    const text = new TokenText();
    const brush = { view: "probability", numbers: false, asked: null, whatif: null } as const;
    const node = { text: "", tokens: [] as string[], kept: 0, origin: null };
    for (const piece of ["ab", "שלום", " admin\u202etxt", "\u200b\x00", "c", "d\ne"]) {
      node.text += piece;
      text.update(node as unknown as NodeState, false, 0, brush);
    }
    const all = (text.element as unknown as Part).all();
    expect((text.element as unknown as Part).textContent).toBe(node.text);
    expect(all.filter(({ className }) => className.startsWith("acs-mark")).map(({ dataset }) => dataset["mark"])).toEqual(["U+202E", "U+200B", "U+0000", "↵"]);
    const spans = all.filter(({ className }) => className.startsWith("acs-plain"));
    expect(spans.map(({ textContent }) => textContent)).toEqual(["abשלום", " admin\u202etxt", "\u200b\x00", "c", "d\n", "e"]);
    const shut = all.filter(({ className }) => className === "acs-ghost");
    expect(shut.map(({ textContent }) => textContent)).toEqual(["\u202e", "\u200b", "\x00"]);
  });
});
