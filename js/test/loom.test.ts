import { describe, expect, it } from "vitest";
import type { Event } from "../src/events";
import { COMMANDS, keyName, Keys, keyWords } from "../src/parts/loomkeys";
import { alive, hoisted, isAlive, nearest, outline, pathTo, samplingOf } from "../src/parts/loomoutline";
import { goesOn } from "../src/parts/loomrow";
import { Memory } from "../src/parts/loommemory";
import { Wishes } from "../src/parts/loomwishes";
import { dropOf, growsBelow } from "../src/parts/loomdrag";
import { placeIn } from "../src/parts/loomask";
import { unpack } from "../src/packing";
import { emptyState, fold, shapeOf, type State } from "../src/state";

/** A root with three children, the second of which has two. */
function tree(...more: Event[]): State {
  const state = emptyState();
  const written = (node: string, parent: string | null) => ({ node, run: "r", parent, pieces: [{ text: node }] });
  const events: Event[] = [
    { type: "RunOpened", run: "r", request: { n: 3, temperature: 0.5, stream: true } },
    { type: "Revised", what: "x", written: [written("a", null), written("b", "a"), written("c", "a"), written("d", "a"), written("e", "c"), written("f", "c")] },
    ...more,
  ];
  for (const event of events) fold(state, event, 1);
  return state;
}

const marked = (node: string, field: string, value: unknown): Event => ({ type: "Revised", what: field, changes: [{ node, field, value }] });
const ids = (state: State, root: string | null = null, folded: string[] = []) => outline(state, root, (id) => folded.includes(id)).map(({ id }) => id);

describe("the tree as rows", () => {
  it("tells an only child, which is not moved to the right, from a sibling", () => {
    const state = tree(marked("b", "deleted", true), marked("d", "deleted", true), marked("e", "deleted", true));
    const rows = outline(state, null, () => false);
    expect(rows.map((row) => [row.id, row.level, row.indent, goesOn(row)])).toEqual([["a", 1, 0, false], ["c", 2, 0, true], ["f", 3, 0, true]]);
    expect(outline(tree(), null, () => false).some(goesOn)).toBe(false);
    expect(outline(state, "c", () => false).map(goesOn)).toEqual([false, true]);
  });

  it("is in reading order, with levels and places", () => {
    const rows = outline(tree(), null, () => false);
    expect(rows.map(({ id, level, indent, place, size, children }) => [id, level, indent, place, size, children])).toEqual([
      ["a", 1, 0, 1, 1, 3], ["b", 2, 1, 1, 3, 0], ["c", 2, 1, 2, 3, 2], ["e", 3, 2, 1, 2, 0], ["f", 3, 2, 2, 2, 0], ["d", 2, 1, 3, 3, 0],
    ]);
  });

  it("leaves out what is folded away, deleted, or outside of what is hoisted", () => {
    expect(ids(tree(), null, ["c"])).toEqual(["a", "b", "c", "d"]);
    expect(ids(tree(marked("c", "deleted", true)))).toEqual(["a", "b", "d"]);
    expect(ids(tree(), "c")).toEqual(["c", "e", "f"]);
    expect(hoisted(tree(marked("", "hoisted", ["c", "e"]), marked("e", "deleted", true)))).toBe("c");
  });

  it("does not move a chain to the right", () => {
    const state = tree(marked("e", "deleted", true));
    expect(outline(state, "c", () => false).map(({ level, indent }) => [level, indent])).toEqual([[1, 0], [2, 0]]);
  });

  it("bears any depth", () => {
    const state = emptyState();
    fold(state, { type: "RunOpened", run: "r", request: {} }, 1);
    for (let i = 0; i < 20_000; i++) fold(state, { type: "NodeOpened", node: `${i}`, run: "r", parent: i === 0 ? null : `${i - 1}` }, 1);
    expect(outline(state, null, () => false)).toHaveLength(20_000);
    expect(pathTo(state, "19999")).toHaveLength(20_000);
  });

  it("says where to go when a node is gone", () => {
    expect(nearest(tree(marked("c", "deleted", true)), "c")).toBe("d");
    expect(nearest(tree(marked("c", "deleted", true)), "f")).toBe("d");
    expect(nearest(tree(marked("d", "deleted", true)), "d")).toBe("c");
    expect(nearest(tree(marked("e", "deleted", true), marked("f", "deleted", true)), "f")).toBe("c");
    expect(nearest(tree(marked("a", "deleted", true)), "b")).toBe(null);
    expect(isAlive(tree(marked("a", "deleted", true)), "f")).toBe(false);
  });

  it("knows what a node goes on with, without what was about the answer", () => {
    expect(samplingOf(tree(marked("b", "sampling", { temperature: 1 })), "b")).toEqual({ temperature: 1 });
    expect(samplingOf(tree(), "c")).toEqual({ temperature: 0.5 });
  });

  it("counts its shapes", () => {
    const state = tree();
    const before = shapeOf(state);
    fold(state, { type: "RunClosed", run: "r", outcome: "done" }, 2);
    expect(shapeOf(state)).toBe(before);
    fold(state, marked("b", "note", "x"), 2);
    expect(shapeOf(state)).toBe(before + 1);
  });
});

describe("keys", () => {
  const press = (key: string, more: Partial<KeyboardEvent> = {}) => keyName({ key, ctrlKey: false, metaKey: false, altKey: false, shiftKey: false, ...more });

  it("have one command each, none with Alt", () => {
    const all = COMMANDS.flatMap(({ keys }) => keys);
    expect(new Set(all).size).toBe(all.length);
    expect(all.filter((key) => key.includes("Alt"))).toEqual([]);
    for (const { name, keys } of COMMANDS) for (const key of keys) expect(new Keys().command(key)).toBe(name);
    const held = COMMANDS.flatMap(({ keys }) => keys).filter((key) => key.startsWith("Ctrl+"));
    expect(held).toEqual(["Ctrl+z", "Ctrl+Shift+z"]); // the others are Jupyter's
  });

  it("are named like this", () => {
    expect([press("j"), press("J", { shiftKey: true }), press("ArrowUp", { shiftKey: true }), press("Z", { ctrlKey: true, shiftKey: true }), press("z", { metaKey: true })])
      .toEqual(["j", "J", "Shift+ArrowUp", "Ctrl+Shift+z", "Ctrl+z"]);
    expect([press("b", { altKey: true }), press("Shift", { shiftKey: true }), press("Tab")]).toEqual(["", "", ""]);
    expect(["Ctrl+Shift+z", " ", "+"].map(keyWords)).toEqual(["Ctrl+Shift+z", "Space", "+"]);
  });

  it("can be others", () => {
    const keys = new Keys({ delete: "d Backspace", split: "e", light: "Space", undo: "" });
    expect(["delete", "split", "light", "undo", "parent"].map((name) => keys.word(name))).toEqual(["d", "e", "Space", "“undo”", "←"]);
    expect([keys.command("d"), keys.command("Delete"), keys.command("e"), keys.command(" "), keys.command("u")]).toEqual(["delete", undefined, "split", "light", undefined]);
    expect(keys.of("edit")).toEqual([]);
    expect(keys.problems).toEqual([]);
  });

  it("say what they do not know", () => {
    const keys = new Keys({ fly: "x", fold: "Alt+f" });
    expect(keys.problems).toEqual(["“fly” is no command of a loom.", "“Alt+f” is with Alt, which belongs to the system."]);
    expect(keys.command("Alt+f")).toBe(undefined);
  });
});

describe("what a window knows first", () => {
  it("is what is folded and where one was, until the kernel says so", () => {
    const memory = new Memory();
    memory.fold("c", true);
    expect(memory.isFolded(tree(), "c")).toBe(true);
    const folded = tree(marked("c", "folded", true));
    memory.settle(folded);
    expect(memory.isFolded(folded, "c")).toBe(true);
    expect(memory.isFolded(tree(), "c")).toBe(false);
    memory.remember(["a", "c", "f"]);
    expect([memory.childOf(tree(), "a"), memory.childOf(tree(), "c"), memory.childOf(tree(), "b")]).toEqual(["c", "f", undefined]);
    expect(new Memory().childOf(tree(marked("a", "visited", "d")), "a")).toBe("d");
    expect(alive(tree(), null)).toEqual(["a"]);
  });

  it("counts what was asked for as done, for a while", () => {
    let now = 0;
    const wishes = new Wishes(() => now);
    wishes.note({ type: "Mark", node: "a", rating: 2 });
    expect(wishes.of("a", "rating", 1)).toBe(2);
    expect(wishes.of("a", "note", "n")).toBe("n");
    expect(wishes.of("a", "rating", 2)).toBe(2);
    expect(wishes.of("a", "rating", 3)).toBe(3); // it was done, then changed
    wishes.note({ type: "Light", nodes: ["a"] });
    now = 2001;
    expect(wishes.of("", "lit", [])).toEqual([]);
  });
});

it("a place in a box is one in the text, in code points", () => {
  expect(placeIn("a\r\n🦊b", "a\n🦊")).toBe(4);
  expect(placeIn("abc", "")).toBe(0);
});

it("tokens of a packed state are read when they are looked at", () => {
  const packed = JSON.stringify({
    v: 1, seq: 1, at: 1, strings: ["x", "y"],
    state: { roots: ["n"], runs: {}, nodes: { n: { id: "n", children: [], text: null, count: 2, packed: btoa("\u0000\u0000\u0000\u0001\u0001\u0000") } } },
  });
  const node = unpack(packed)?.state.nodes["n"];
  expect(Object.getOwnPropertyDescriptor(node, "tokens")?.get).toBeDefined();
  expect(node?.text).toBe("xy");
  expect(node).toEqual({ id: "n", children: [], text: "xy", tokens: ["x", "y"], logprobs: [null, -0], top: [null, null] });
  node!.text += "z";
  expect(node?.text).toBe("xyz");
});

describe("a row that is dropped", () => {
  it("goes below a row, or beside it", () => {
    const state = tree();
    expect(dropOf(state, "b", "c", "in")).toEqual({ node: "b", parent: "c" });
    expect(dropOf(state, "b", "d", "before")).toEqual({ node: "b", parent: "a", before: "d" });
    expect(dropOf(state, "b", "d", "after")).toEqual({ node: "b", parent: "a" });
    expect(dropOf(state, "f", "b", "before")).toEqual({ node: "f", parent: "a", before: "b" });
    expect(dropOf(state, "b", "a", "after")).toEqual({ node: "b", parent: null });
  });

  it("does not go into itself, nor where it stands", () => {
    const state = tree();
    expect(dropOf(state, "c", "c", "in")).toBeNull();
    expect(dropOf(state, "c", "e", "in")).toBeNull();
    expect(dropOf(state, "c", "f", "after")).toBeNull();
    expect(dropOf(state, "b", "c", "before")).toBeNull();
    expect(dropOf(state, "c", "b", "after")).toBeNull();
  });

  it("stays while something comes below it", () => {
    const coming = tree({ type: "NodeOpened", node: "g", run: "r", parent: "f", choice: 0 } as Event);
    expect(["a", "c", "f", "b"].map((id) => growsBelow(coming, id))).toEqual([true, true, true, false]);
  });
});
