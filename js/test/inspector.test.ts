import { describe, expect, it } from "vitest";
import { beside, entropyOfReturned, hex, measureToken, NEVER, ranksReturned, readReading, stretches, table, type TokenRead } from "../src/parts/reading";
import { spreadReturned, spreadWhole } from "../src/parts/spread";

const log = Math.log;
const token = (text: string, p: number | null, rank: number | null, top: [string, number][] = [], id: number | null = 7): TokenRead => ({
  text, id, rank, logprob: p === null ? null : p === 0 ? NEVER : log(p), top: top.map(([one, q]) => [one, log(q)]),
});
const reading = (tokens: TokenRead[], ranks: "server" | "returned" = "server") => ({
  model: "m", asked: 2, ranks, front: 0, tokens,
  statistics: { tokens: 0, scored: 0, bytes: 0, logprob: 0, perplexity: 1, bits_per_byte: 0 },
});
const NONE = { entropy: [], rows: {} };

describe("a reading", () => {
  it("is nothing when the trait is not one, and names its tokens", () => {
    expect(readReading("{}")).toBeNull();
    expect(readReading(JSON.stringify({ tokens: [["a", 1, -0.5, 2, [["b", -0.1]]]] }))?.tokens[0]).toEqual({ text: "a", id: 1, logprob: -0.5, rank: 2, top: [["b", -0.1]] });
  });

  it("joins tokens without text to the one that completes their character", () => {
    const tokens = ["a", "", "", "🦊", ""].map((text) => token(text, 0.5, 1));
    expect(stretches(tokens)).toEqual([
      { text: "a", first: 0, last: 0 }, { text: "🦊", first: 1, last: 3 }, { text: "", first: 4, last: 4 },
    ]);
  });

  it("measures what the server told, the whole before the part", () => {
    const one = reading([token("a", 0.25, 40, [["b", 0.5], ["c", 0.25]])]);
    expect(measureToken("probability", one, 0, NONE)).toBeCloseTo(0.25);
    expect(measureToken("surprisal", one, 0, NONE)).toBeCloseTo(2);
    expect(measureToken("rank", one, 0, NONE)).toBe(40);
    expect(measureToken("rank", { ...one, ranks: "returned" }, 0, NONE)).toBe(Infinity);
    expect(measureToken("entropy", one, 0, NONE)).toBeCloseTo(1.5);
    expect(measureToken("entropy", one, 0, { entropy: [6.5], rows: {} })).toBe(6.5);
    expect(entropyOfReturned(token("a", 0.5, 1))).toBeNull();
  });

  it("says ids, bytes and values beside tokens", () => {
    const one = reading([token("", 0.5, 1, [], 1), token("€", 0.25, 3, [], 2)]);
    const both = { text: "€", first: 0, last: 1 };
    expect(beside("id", "rank", one, both, NONE)).toBe("1+2");
    expect(beside("bytes", "rank", one, both, NONE)).toBe("e2 82 ac");
    expect(beside("value", "rank", one, both, NONE)).toBe("3");
    expect(beside("value", "probability", one, both, NONE)).toBe("−1.39");
    expect(hex("")).toBe("");
  });

  it("finds a token among what was returned, its own rank first", () => {
    const one = reading([token("a", null, null), token("x", 0.1, 9, [["a", 0.5], ["b", 0.3]]), token("a", 0.01, 33, [["b", 0.5]])]);
    expect(ranksReturned(one, "a")).toEqual([null, 1, 33]);
    expect(ranksReturned(one, "b")).toEqual([null, 2, 1]);
  });

  it("is a table whose texts survive tabs, quotes and line breaks", () => {
    const text = table(reading([token("😀", null, null, [], null), token('a"\t\n', 0.5, 1), token("b", 0, 5)]));
    expect(text.split("\n")[0]).toBe("position\tid\ttext\tstart\tlogprob\tsurprisal\trank");
    expect(text).toContain('0\t\t"😀"\t0\t\t\t\n');
    expect(text).toContain('1\t7\t"a""\t\n"\t1\t');
    expect(text).toContain('2\t7\t"b"\t5\t-inf\tinf\t5\n');
  });
});

describe("a spread of what was returned", () => {
  const one = token("x", 0.05, 13, [["a", 0.5], ["b", 0.3]]);

  it("adds up what it knows and states the rest", () => {
    const { rows, covered, nucleus, exact } = spreadReturned(one, 1, 0.75);
    expect(rows.map(({ text, rank, own }) => [text, rank, own])).toEqual([["a", 1, false], ["b", 2, false], ["x", 13, true]]);
    expect(rows.map(({ cumulative }) => cumulative && +cumulative.toFixed(6))).toEqual([0.5, 0.8, null]);
    expect(covered).toBeCloseTo(0.85);
    expect([nucleus, exact]).toEqual([2, true]);
    expect(rows.map(({ inside }) => inside)).toEqual([true, true, false]);
  });

  it("does not guess a nucleus that reaches beyond it", () => {
    const { nucleus, rows } = spreadReturned(one, 1, 0.95);
    expect(nucleus).toBeNull();
    expect(rows[2]?.inside).toBeNull();
  });

  it("moves by temperature over these alone, and says that it is not exact", () => {
    const { rows, exact } = spreadReturned(one, 0.5, 1);
    expect(exact).toBe(false);
    expect(rows.reduce((sum, { moved }) => sum + moved, 0)).toBeCloseTo(1);
    expect((rows[0]?.moved ?? 0) / (rows[1]?.moved ?? 1)).toBeCloseTo((0.5 / 0.3) ** 2);
  });
});

describe("a spread of the whole", () => {
  const logs = [0.5, 0.3, 0.1, 0.1];
  const sums = Array.from({ length: 40 }, (_, i) => log(logs.reduce((sum, p) => sum + p ** (1 / ((i + 1) * 0.05)), 0)));
  const whole = { vocabulary: 4, entropy: 1.685, rows: [[0, "a", log(0.5)], [1, "b", log(0.3)]] as [number, string, number][], own: [3, "d", log(0.1), 3] as [number, string, number, number], sums };

  it("is exact at every temperature of the slider", () => {
    const { rows, exact, entropy } = spreadWhole(whole, 2, 1);
    const sum = logs.reduce((all, p) => all + Math.sqrt(p), 0);
    expect(exact).toBe(true);
    expect(entropy).toBe(1.685);
    rows.forEach(({ moved, probability }) => expect(moved).toBeCloseTo(Math.sqrt(probability) / sum, 6));
    expect(rows[2]).toMatchObject({ own: true, rank: 3, cumulative: null });
  });

  it("ends the nucleus of the moved distribution", () => {
    expect(spreadWhole(whole, 1, 0.8).nucleus).toBe(2);
    expect(spreadWhole(whole, 0.3, 0.8).nucleus).toBe(1);
    expect(spreadWhole(whole, 2, 0.8).nucleus).toBeNull();
  });
});
