import { describe, expect, it } from "vitest";
import type { Event } from "../src/events";
import { LaneDiff, tokenAt } from "../src/parts/lanediff";
import { lanesOf, nameOf, roundsOf, roundWords, shownAfter } from "../src/parts/rounds";
import { emptyState, fold, type NodeState, type State } from "../src/state";

function node(id: string, tokens: string[], shares: number[] = []): NodeState {
  const state = emptyState();
  const events: Event[] = [
    { type: "RunOpened", run: "r", request: {} },
    { type: "NodeOpened", node: id, run: "r", choice: 0 },
    { type: "TokensArrived", node: id, text: tokens.join(""), tokens, logprobs: tokens.map((_, i) => Math.log(shares[i] ?? 0.5)), top: tokens.map(() => null) },
  ];
  for (const event of events) fold(state, event, 1);
  const found = state.nodes[id];
  if (found === undefined) throw new Error(id);
  return found;
}

describe("where a lane leaves another", () => {
  it("is told with both tokens and their probabilities", () => {
    const diff = new LaneDiff();
    diff.update(node("a", [" the", " sea"], [0.9, 0.45]), node("b", [" the", " sky"], [0.9, 0.22]), "A", false);
    expect(diff.place).toBe(6);
    expect(diff.words).toBe("As A for 6 characters, then A has “·sea” 45%, this “·sky” 22%.");
  });

  it("is told from the start, at an end, and not at all", () => {
    const from = new LaneDiff();
    from.update(node("a", ["x"]), node("b", ["y"]), "A", true);
    expect([from.place, from.words]).toEqual([null, "From the start A has “x” 50%, this “y” 50%."]);
    const end = new LaneDiff();
    end.update(node("a", ["x"]), node("b", ["x", "y"]), "A", true);
    expect(end.words).toBe("As A for 1 character, then A has its end, this “y” 50%.");
    const same = new LaneDiff();
    same.update(node("a", ["x"]), node("b", ["x"]), "A", false);
    expect(same.words).toBe("As A so far.");
    same.update(node("a", ["x"]), node("b", ["x"]), "A", true);
    expect(same.words).toBe("The same as A.");
    const nothing = new LaneDiff();
    nothing.update(node("a", []), node("b", ["x"]), "A", false);
    expect(nothing.words).toBe("");
  });

  it("names text whose tokens are not known", () => {
    expect(tokenAt({ ...node("a", []), text: "one two three four five" }, 4)).toBe("“two·three·fo”");
  });
});

describe("rounds", () => {
  const state: State = emptyState();
  const runs: Record<string, [number, number, string?]> = { a: [0, 1, "as given"], b: [1, 1], c: [1, 2], gone: [0, 3] };
  fold(state, { type: "Revised", what: "compare", kind: "view", changes: [{ node: "", field: "meta", value: { compare: { runs } } }] } as Event, 1);
  for (const run of ["a", "b", "c"]) fold(state, { type: "RunOpened", run, request: {} }, 1000);

  it("keep the name that a lane had", () => {
    expect(["a", "b", "other"].map((run) => nameOf(state, run))).toEqual(["as given", undefined, undefined]);
  });

  it("show the last run of each lane up to them", () => {
    expect(lanesOf(state).map(([run]) => run)).toEqual(["a", "b", "c"]);
    expect([1, 2, Infinity].map((round) => [0, 1, 2].map((lane) => shownAfter(state, lane, round)))).toEqual([
      ["a", "b", null],
      ["a", "c", null],
      ["a", "c", null],
    ]);
    expect(roundsOf(state).map(({ number, lanes }) => [number, lanes])).toEqual([[1, [0, 1]], [2, [1]]]);
  });

  it("are told in words", () => {
    const [first, second] = roundsOf(state);
    expect(roundWords(first!, ["A", "B"])).toMatch(/^1 · .* · all lanes$/);
    expect(roundWords(second!, ["A", "B"])).toMatch(/^2 · .* · B$/);
  });

  it("are none in a session without lanes", () => {
    expect(roundsOf(emptyState())).toEqual([]);
  });
});
