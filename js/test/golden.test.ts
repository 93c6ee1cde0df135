import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import type { Event } from "../src/events";
import { fill, gistOf, isHollow, meanOf, outlined } from "../src/outline";
import { unpack } from "../src/packing";
import * as road from "../src/parts/road";
import * as status from "../src/parts/status";
import { Aligner } from "../src/parts/text";
import { weakest } from "../src/parts/tokens";
import { echoed, emptyState, fold, nodeOf, runOf, type State } from "../src/state";

const folder = new URL("../../tests/data/golden/", import.meta.url);
const files = readdirSync(folder).filter((name) => name.endsWith(".json"));

/** JSON values: -0 is 0, and a table without a prototype is an object. */
const plain = (value: unknown): unknown => JSON.parse(JSON.stringify(value));

/** Logprobs of nodes as the packed form keeps them. */
function rounded(state: State): State {
  const round = (x: number) => -Math.max(0, Math.floor(-x * 1000 + 0.5)) / 1000;
  for (const node of Object.values(state.nodes)) {
    node.logprobs = node.logprobs.map((x) => (x === null ? null : round(x)));
    node.top = node.top.map((top) => top && Object.fromEntries(Object.entries(top).map(([k, v]) => [k, round(v)])));
  }
  return state;
}

describe("golden files", () => {
  it("are all there", () => expect(files).toHaveLength(35));

  it.each(files)("%s folds into Python's state and unpacks from Python's snapshot", (file) => {
    const golden = JSON.parse(readFileSync(new URL(file, folder), "utf8")) as {
      events: Event[];
      state: State;
      packed: string;
      outline: string;
      contents: string;
      words: { outcome: string; model: string; figures: string[]; error: string; clamp: string; finish: string[] };
      roads: Record<string, string[]>;
      pieces: Record<string, [number, number, number | null, string][]>;
    };
    const state = emptyState();
    for (const event of golden.events) fold(state, event, 0);
    expect(plain(state)).toEqual(plain(golden.state));

    const run = runOf(state, "g");
    expect({
      outcome: status.outcomeWords(run),
      model: status.modelName(run),
      figures: status.figures(state, run, 0),
      error: status.errorWords(run),
      clamp: status.clampWords(run),
      finish: run.nodes.map((id) => status.finishWords(nodeOf(state, id), run)),
    }).toEqual(golden.words);
    const say = [road.branchName, road.sourceName, road.leavingWords, road.seamWords];
    for (const [id, words] of Object.entries(golden.roads)) expect(say.map((one) => one(state, id))).toEqual(words);
    for (const [id, pieces] of Object.entries(golden.pieces)) {
      const node = nodeOf(state, id);
      const found = new Aligner().next(node.text, node.tokens, true);
      expect(found.map((p) => [p.first, p.last, weakest(node, p), p.text])).toEqual(pieces);
    }

    expect(plain(unpack(golden.packed)?.state)).toEqual(plain(rounded(structuredClone(golden.state))));
    if (golden.outline === "") return;

    const open = outlined.unpack(golden.outline, emptyState())?.state ?? emptyState();
    const nodes = Object.values(open.nodes);
    expect(nodes.filter(isHollow).length).toBeGreaterThan(10);
    expect(nodes.filter(isHollow).every(({ text, tokens }) => text === "" && tokens.length === 0)).toBe(true);
    for (const node of nodes) {
      const whole = nodeOf(golden.state, node.id);
      const lead = echoed(golden.state, whole);
      const { begins, mean } = gistOf(open, node);
      expect(whole.text.slice(lead).startsWith(begins)).toBe(true);
      expect(mean ?? 1).toBeCloseTo(meanOf(whole.logprobs) ?? 1, 3);
    }
    fill(open, golden.contents);
    expect(Object.values(open.nodes).some(isHollow)).toBe(false);
    expect(plain(open)).toEqual(plain(rounded(golden.state)));
    // What is here is kept when the outline comes again.
    const again = outlined.unpack(golden.outline, open)?.state ?? emptyState();
    expect(plain(again)).toEqual(plain(open));
  });
});
