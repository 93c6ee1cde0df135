import { describe, expect, it } from "vitest";
import { Camera, COLUMN, SLOT } from "../src/parts/graph/camera";
import { boxOf, inView } from "../src/parts/graph/paint";
import { beside, placesOf } from "../src/parts/graph/places";
import { GRAPH_COMMANDS, Keys } from "../src/parts/loomkeys";
import type { Row } from "../src/parts/loomoutline";

const row = (id: string, level: number, children: number, folded = false): Row => ({ id, level, indent: 0, place: 1, size: 1, children, folded });

/** A root with three children, the second of which has two; the third is folded. */
const ROWS = [row("a", 1, 3), row("b", 2, 0), row("c", 2, 2), row("e", 3, 0), row("f", 3, 0), row("d", 2, 4, true)];

/** Each node has three children, as far as they go. */
function large(count: number): Row[] {
  const rows: Row[] = [];
  const waiting: [index: number, level: number][] = [[0, 1]];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const [index, level] = next;
    const children = [3, 2, 1].map((k) => 3 * index + k).filter((child) => child < count);
    rows.push(row(`${index}`, level, children.length));
    for (const child of children) waiting.push([child, level + 1]);
  }
  return rows;
}

function camera(rows: readonly Row[], width = 800, height = 400): [Camera, ReturnType<typeof placesOf>] {
  const places = placesOf(rows);
  return [Object.assign(new Camera(), { width, height, depths: places.depths, slots: places.slots }), places];
}

describe("places", () => {
  it("give each leaf a slot, and each node the middle of its children", () => {
    const { all, depths, slots } = placesOf(ROWS);
    expect([depths, slots]).toEqual([3, 4]);
    expect(all.map(({ id, depth, y, top, bottom, deepest, folded }) => [id, depth, y, top, bottom, deepest, folded])).toEqual([
      ["a", 0, 2, 0, 4, 2, 0], ["b", 1, 0.5, 0, 1, 1, 0], ["c", 1, 2, 1, 3, 2, 0], ["e", 2, 1.5, 1, 2, 2, 0], ["f", 2, 2.5, 2, 3, 2, 0], ["d", 1, 3.5, 3, 4, 1, 4],
    ]);
    expect(placesOf([])).toMatchObject({ depths: 0, slots: 0 });
  });

  it("know who stands beside whom", () => {
    const places = placesOf(ROWS);
    const from = (id: string, by: 1 | -1) => beside(places, places.of.get(id) ?? -1, by);
    expect([from("b", 1), from("c", 1), from("d", 1), from("e", -1), from("f", -1), from("d", -1)]).toEqual(["c", "d", undefined, undefined, "e", "c"]);
  });

  it("never overlap, and a subtree keeps to its band", () => {
    const { all, slots } = placesOf(large(2000));
    expect(all).toHaveLength(2000);
    const seen = new Map<number, number>();
    for (const { depth, y, top, bottom, children } of all) {
      expect(y - (seen.get(depth) ?? -1)).toBeGreaterThanOrEqual(1);
      seen.set(depth, y);
      expect(top).toBeLessThan(bottom);
      expect(bottom).toBeLessThanOrEqual(slots);
      for (const child of children) expect([all[child]!.top >= top, all[child]!.bottom <= bottom]).toEqual([true, true]);
    }
  });

  it("bear any depth", () => {
    const rows = Array.from({ length: 50_000 }, (_, i) => row(`${i}`, i + 1, i === 49_999 ? 0 : 1));
    const { depths, slots, all } = placesOf(rows);
    expect([depths, slots, all[0]?.deepest]).toEqual([50_000, 1, 49_999]);
  });
});

describe("the camera", () => {
  it("keeps what is under the pointer there", () => {
    const [view] = camera(large(2000));
    view.show(2, 500);
    const before = [view.x + 300 / view.column, view.y + 200 / view.slot];
    view.zoom(1.5, 300, 200);
    expect(view.scale).toBe(1.5);
    expect([view.x + 300 / view.column, view.y + 200 / view.slot]).toEqual([expect.closeTo(before[0]!, 6), expect.closeTo(before[1]!, 6)]);
  });

  it("shows everything, and no less", () => {
    const [view, { slots, depths }] = camera(large(2000));
    view.fit();
    expect([view.top(0) >= 0, view.top(slots) <= 400, view.left(0) >= 0, view.left(depths) <= 800]).toEqual([true, true, true, true]);
    const { scale } = view;
    view.zoom(0.5);
    expect(view.scale).toBe(scale);
    view.zoom(1e9);
    expect([view.column, view.slot]).toEqual([2.5 * COLUMN, 2.5 * SLOT]);
  });

  it("does not leave the tree, and stands a small one in the middle", () => {
    const [view, places] = camera(large(2000));
    view.pan(-1e6, -1e6);
    expect([view.left(0), view.top(0)]).toEqual([12, 12]);
    view.pan(1e6, 1e6);
    expect(view.top(places.slots)).toBeCloseTo(400 - 12);
    const [small] = camera(ROWS);
    small.pan(50, 50);
    expect(small.top(2)).toBeCloseTo(200);
  });

  it("brings a place into view", () => {
    const [view, places] = camera(large(2000));
    for (const { depth, y } of places.all.filter((_, i) => i % 97 === 0)) {
      view.show(depth, y);
      const [left, top, width, height] = boxOf(view, { depth, y });
      expect([left >= 0, left + width <= 800, top >= 0, top + height <= 400]).toEqual([true, true, true, true]);
    }
  });
});

describe("what is drawn", () => {
  it("is what is in view, whatever the tree's size", () => {
    for (const count of [2000, 40_000]) {
      const [view, places] = camera(large(count));
      view.show(3, places.slots / 2);
      const near = inView(places, view);
      expect(near.single.length + near.whole.length).toBeLessThan(80);
      view.fit();
      const far = inView(places, view);
      // Seen whole, a band of less than a pixel and a half is one block.
      expect(far.single.length + far.whole.length).toBeLessThan(1500);
      expect(far.whole.length).toBeGreaterThan(100);
      const lines = new Set<number>();
      for (const place of [...far.single.filter((one) => places.all[one]!.children.length === 0), ...far.whole]) {
        const { top, bottom } = places.all[place]!;
        for (let line = Math.floor(top * view.slot); line <= Math.floor(bottom * view.slot); line++) lines.add(line);
      }
      expect(lines.size).toBeGreaterThanOrEqual(Math.floor(places.slots * view.slot)); // no line is left out
    }
    const flat = [row("root", 1, 30_000), ...Array.from({ length: 30_000 }, (_, i) => row(`${i}`, 2, 0))];
    const [view, places] = camera(flat);
    view.fit();
    expect(inView(places, view).single.length).toBeLessThan(500);
  });
});

describe("keys of the graph", () => {
  it("come first while it has the focus, and can be others", () => {
    const keys = new Keys();
    expect(["+", "-", "0", "ArrowUp", "e"].map((key) => keys.command(key, true))).toEqual(["zoom in", "zoom out", "zoom fit", "graph up", "edit"]);
    expect(["+", "-", "0", "ArrowUp"].map((key) => keys.command(key))).toEqual(["rate up", "rate down", undefined, "up"]);
    const other = new Keys({ "zoom in": "z", graph: "g" });
    expect([other.command("z", true), other.command("+", true), other.command("z"), other.command("g")]).toEqual(["zoom in", "rate up", "unread", "graph"]);
    expect(other.problems).toEqual([]);
    expect(GRAPH_COMMANDS.flatMap(({ keys: all }) => all).filter((key) => key.includes("Alt"))).toEqual([]);
  });
});
