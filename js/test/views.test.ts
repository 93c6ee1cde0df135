import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import type { Top } from "../src/events";
import { Choices } from "../src/parts/choices";
import { level } from "../src/parts/colour";
import { measures, shortfall, whereabouts } from "../src/parts/description";
import { firstThat } from "../src/parts/inview";
import { bars, stepTo } from "../src/parts/overview";
import { Parting } from "../src/parts/parting";
import { fewer, placeOf, rank } from "../src/parts/ranking";
import { AT_MOST, BUDGET_MS, inSlices } from "../src/parts/slices";
import { brief, entropyOf, levelOn, measure, measurePiece, range, SCALES, VIEWS } from "../src/parts/views";
import type { NodeState } from "../src/state";

function node(tokens: string[], shares: (number | null)[], tops: (Record<string, number> | null)[] = []): NodeState {
  const logs = (top: Record<string, number> | null) => top && (Object.fromEntries(Object.entries(top).map(([k, v]) => [k, Math.log(v)])) as Top);
  return {
    tokens,
    text: tokens.join(""),
    logprobs: shares.map((share) => (share === null ? null : Math.log(share))),
    top: tokens.map((_, i) => logs(tops[i] ?? null)),
  } as unknown as NodeState;
}

describe("measures", () => {
  const one = node(["b"], [0.25], [{ a: 0.5, b: 0.25 }]);

  it("are what they are called", () => {
    expect(measure("probability", one, 0, 2)).toBeCloseTo(0.25, 12);
    expect(measure("surprisal", one, 0, 2)).toBeCloseTo(2, 12);
    expect(measure("rank", one, 0, 2)).toBe(2);
    // shares 2/3 and 1/3: log2(3) - 2/3
    expect(measure("entropy", one, 0, 2)).toBeCloseTo(Math.log2(3) - 2 / 3, 12);
  });

  it("are not made up where nothing is known", () => {
    const unknown = node(["a", "b"], [null, 0.5]);
    expect(VIEWS.map((view) => measure(view, unknown, 0, 2))).toEqual([null, null, null, null]);
    expect(measure("rank", unknown, 1, 2)).toBeNull();
    expect(entropyOf(node(["a"], [0.9], [{ a: 0.9 }]), 0)).toBeNull();
  });

  it("know no rank of what was asked for by another run, unless it is above others", () => {
    const tops = [{ a: 0.5, b: 0.25 }, { a: 0.5, b: 0.25 }, { a: 0.5, b: 0.25 }];
    const branch = { ...node(["b", "a", "b"], [0.25, 0.5, 0.25], tops), kept: 2 } as unknown as NodeState;
    expect([0, 1, 2].map((index) => measure("rank", branch, index, 2))).toEqual([null, 1, 2]);
  });

  it("rank as Python does", () => {
    type Case = [token: string, logprob: number, top: Record<string, number>, asked: number | null, rank: number | null];
    const cases = JSON.parse(readFileSync(new URL("../../tests/data/ranks.json", import.meta.url), "utf8")) as Case[];
    for (const [token, logprob, top, asked, place] of cases) {
      expect(placeOf(token, logprob, top, asked), JSON.stringify([token, top, asked])).toBe(place);
      expect(rank(token, logprob, top, asked).alternatives.find(({ sampled }) => sampled)?.rank).toBe(place);
    }
  });

  it("count a sampled token that is not in the list among what was returned", () => {
    const missing = node(["z"], [0.25], [{ a: 0.25, b: 0.25, c: 0.25 }]);
    expect(entropyOf(missing, 0)).toBeCloseTo(2, 12);
    expect(measure("rank", node(["z"], [0.1], [{ a: 0.25, b: 0.25, c: 0.25 }]), 0, 3)).toBe(Infinity);
  });

  it("of a piece are those of its worst token", () => {
    const piece = { text: "x", first: 0, last: 2 };
    const several = node(["", "", "x"], [0.9, 0.01, null]);
    expect(measurePiece("probability", several, piece, 0)).toBeCloseTo(0.01, 12);
    expect(measurePiece("surprisal", several, piece, 0)).toBeCloseTo(-Math.log2(0.01), 10);
    expect(measurePiece("rank", several, piece, 0)).toBeNull();
  });
});

describe("levels", () => {
  it("of probability are those of the static view", () => {
    for (const share of [1, 0.5, 0.4999, 0.25, 0.1, 0.03, 0.0299, 0.01, 0.003, 0.001, 1e-9]) {
      const logprob = Math.log(share);
      expect(levelOn("probability", Math.exp(logprob)), String(share)).toBe(level(logprob));
    }
  });

  it("begin at their bounds and are eight in each view", () => {
    for (const view of ["surprisal", "rank", "entropy"] as const) {
      const { bounds } = SCALES[view];
      expect(bounds).toHaveLength(7);
      expect([0, ...bounds].map((bound) => levelOn(view, bound))).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
    }
    expect([1, 2, 5, 20, 999, Infinity].map((place) => levelOn("rank", place))).toEqual([0, 1, 3, 5, 6, 7]);
  });

  it("have words", () => {
    expect([0, 1, 7].map((i) => range("probability", i))).toEqual(["100 % to 50 %", "50 % to 25 %", "below 0.1 %"]);
    expect([0, 3, 6, 7].map((i) => range("rank", i))).toEqual(["1", "4 to 5", "21 and more", "not on the list"]);
    expect([0, 7].map((i) => range("surprisal", i))).toEqual(["0 to 1 bits", "13 bits and more"]);
  });

  it("have short figures", () => {
    expect([1, 0.996, 0.344, 0.0149, 0.004].map((p) => brief("probability", p, 5))).toEqual(["100%", ">99%", "34%", "1%", "<1%"]);
    expect([brief("rank", 3, 5), brief("rank", Infinity, 5), brief("surprisal", 2.04, 5)]).toEqual(["3", ">5", "2.0"]);
  });
});

describe("placeOf", () => {
  it.each([
    ["c", -2, { c: -2, a: -1, b: -1.5 }, 3],
    ["z", -9, { z: -9, a: -1 }, 1],
    ["z", -9, { a: -1 }, 5],
    ["b", -1, { a: -1, b: -1 }, 5],
    ["a", -1, { a: -1, b: -1 }, 1],
    ["z", -0.1, { a: -3 }, 1],
    ["hasOwnProperty", -1, { a: -3 }, 5],
  ] as [string, number, Top, number][])("agrees with the full ranking: %s", (token, logprob, top, asked) => {
    const own = rank(token, logprob, top, asked).alternatives.find((one) => one.sampled);
    expect(placeOf(token, logprob, top, asked)).toBe(own?.rank);
  });
});

describe("words of the tooltip", () => {
  const text = node(["é", "🎉", " b"], [0.5, 0.5, 0.25], [null, { x: 0.6, "🎉": 0.3 }, { a: 0.5, " b": 0.25 }]);

  it("say where a token stands, characters as code points", () => {
    expect(whereabouts(text, { text: " b", first: 2, last: 2 })).toBe("token 3 of 3 · character 3");
    expect(whereabouts(text, { text: "🎉", first: 0, last: 1 })).toBe("tokens 1 to 2 of 3 · character 1");
  });

  it("say surprisal, rank and entropy", () => {
    expect(measures(text, 2, 5)).toBe("surprisal 2.00 bits · rank 2 · entropy 0.92 bits of what was returned");
    expect(measures(text, 0, 5)).toBe("surprisal 1.00 bits");
    expect(measures(node(["z"], [0.1], [{ a: 0.5, z: 0.1 }]), 0, 1)).toContain("not among the 1 likeliest ·");
    expect(measures(node(["z"], [0.1], [{ z: 0.1 }]), 0, 0)).toBe("surprisal 3.32 bits · rank not known");
  });

  it("say when fewer came than were asked for", () => {
    expect(shortfall(text, 2, 5)).toBe("2 of 5 returned: some share one spelling");
    expect([shortfall(text, 2, 2), shortfall(text, 0, 5), shortfall(text, 2, null)]).toEqual(["", "", ""]);
    expect(fewer({ a: -1, b: -2, z: -9 }, 2)).toBeNull();
  });
});

describe("Parting", () => {
  it("finds the end of what all share", () => {
    expect(new Parting().next(["the cat", "the car", "the cow"], true)).toBe(5);
  });

  it("waits until they differ, and then stays", () => {
    const parting = new Parting();
    expect(parting.next(["the c", "the "], false)).toBeNull();
    expect(parting.next(["the cat", "the ca"], false)).toBeNull();
    expect(parting.next(["the cat", "the cab"], false)).toBe(6);
    expect(parting.next(["changed", "all"], false)).toBe(6);
  });

  it("knows an end for a difference only once it is the end", () => {
    const parting = new Parting();
    expect(parting.next(["one", "one two"], false)).toBeNull();
    expect(parting.next(["one", "one two"], true)).toBe(3);
  });

  it("has nothing to mark for one, for equals, and where nothing is shared", () => {
    expect(new Parting().next(["one"], true)).toBeNull();
    expect(new Parting().next(["one", "one"], true)).toBeNull();
    expect(new Parting().next(["one", "two"], true)).toBeNull();
    expect(new Parting().next([], true)).toBeNull();
  });
});

describe("the strip", () => {
  it("gathers tokens into bars and leaves unknown ones out", () => {
    expect(bars([1, 3, NaN, 6], 2)).toEqual([{ mean: 2, most: 3 }, { mean: 6, most: 6 }]);
    expect(bars([NaN], 1)).toEqual([{ mean: 0, most: 0 }]);
  });

  it("gives a token several bars when there are more", () => {
    expect(bars([1, 2], 4).map((bar) => bar.mean)).toEqual([1, 1, 2, 2]);
    expect(bars([], 2).map((bar) => bar.most)).toEqual([0, 0]);
  });

  it("moves by halves and pages and stays inside", () => {
    expect(["ArrowRight", "ArrowLeft", "PageDown", "Home", "End"].map((key) => stepTo(key, 50, 100, 20))).toEqual([60, 40, 70, 0, 99]);
    expect([stepTo("PageUp", 5, 100, 20), stepTo("PageDown", 95, 100, 20), stepTo("a", 5, 100, 20)]).toEqual([0, 99, null]);
  });

  it("finds edges by halves", () => {
    expect(firstThat(0, 10, (i) => i >= 7)).toBe(7);
    expect(firstThat(0, 10, () => false)).toBe(10);
    expect(firstThat(3, 3, () => true)).toBe(3);
  });
});

describe("slices", () => {
  function fake(cost: number) {
    let now = 0;
    let waiting: (() => void)[] = [];
    const clock = {
      now: () => now,
      frame: (act: () => void) => waiting.push(act),
      cancel: () => void (waiting = []),
    };
    const frame = () => waiting.splice(0).forEach((act) => act());
    return { clock, frame, spend: () => void (now += cost), idle: () => waiting.length === 0 };
  }

  it("do everything once, in order, over as many frames as it takes", () => {
    const { clock, frame, idle } = fake(0);
    const seen: number[] = [];
    let done = 0;
    inSlices(AT_MOST * 2 + 5, (i) => seen.push(i), () => done++, 1, clock);
    expect(seen).toHaveLength(AT_MOST);
    frame();
    expect(done).toBe(0);
    frame();
    expect([seen.length, seen.at(-1), done, idle()]).toEqual([AT_MOST * 2 + 5, AT_MOST * 2 + 4, 1, true]);
  });

  it("keep to the clock, and count what one step changes", () => {
    const slow = fake(BUDGET_MS);
    let calls = 0;
    inSlices(1000, () => (calls++, slow.spend()), () => {}, 1, slow.clock);
    expect(calls).toBe(64);
    const wide = fake(0);
    calls = 0;
    inSlices(1000, () => calls++, () => {}, 4, wide.clock);
    expect(calls).toBe(AT_MOST / 4);
  });

  it("can be called off, and then are never done", () => {
    const { clock, frame } = fake(0);
    let [calls, done] = [0, 0];
    const cancel = inSlices(AT_MOST * 3, () => calls++, () => done++, 1, clock);
    cancel();
    frame();
    expect([calls, done]).toEqual([AT_MOST, 0]);
  });
});

describe("choices", () => {
  const memory = (kept: string | null) => {
    const store = { kept };
    return { store, getItem: () => store.kept, setItem: (_: string, value: string) => void (store.kept = value) };
  };

  it("are remembered and told", () => {
    const kept = memory(null);
    const choices = new Choices(kept);
    let told = 0;
    choices.listen(() => told++);
    choices.change({ view: "rank" });
    choices.change({ numbers: true });
    expect(told).toBe(2);
    expect(new Choices(kept).current).toEqual({ view: "rank", numbers: true });
  });

  it("fall back to probability when memory is odd, forbidden or missing", () => {
    const plain = { view: "probability", numbers: false };
    for (const odd of ["", "{", "null", "3", '{"view":"constructor","numbers":"yes"}']) expect(new Choices(memory(odd)).current).toEqual(plain);
    expect(new Choices(null).current).toEqual(plain);
    const fails = () => {
      throw new Error("forbidden");
    };
    const choices = new Choices({ getItem: fails, setItem: fails });
    choices.change({ view: "entropy" });
    expect(choices.current.view).toBe("entropy");
  });
});
