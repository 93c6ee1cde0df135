import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import type { Top } from "../src/events";
import { fate, NEUTRAL, outlook, reshape, settingsOf, type Settings } from "../src/parts/whatif";
import type { NodeState } from "../src/state";

/** Logprobs of these probabilities. */
const logs = (...shares: number[]) => shares.map(Math.log);
const under = (shares: number[], settings: Partial<Settings>) => reshape(logs(...shares), { ...NEUTRAL, ...settings });
const probabilities = (shares: number[], settings: Partial<Settings>) => under(shares, settings).map((one) => +one.probability.toFixed(6));
const cuts = (shares: number[], settings: Partial<Settings>) => under(shares, settings).map((one) => one.cut);

describe("reshape", () => {
  it("changes nothing by default, and takes what it is given for the whole", () => {
    expect(probabilities([0.5, 0.3, 0.2], {})).toEqual([0.5, 0.3, 0.2]);
    expect(probabilities([0.4, 0.1], {})).toEqual([0.8, 0.2]);
  });

  it("sharpens and flattens with temperature", () => {
    // 0.8² : 0.2² = 0.64 : 0.04 = 16 : 1; and the square roots of 0.64 : 0.04 are 0.8 : 0.2
    expect(probabilities([0.8, 0.2], { temperature: 0.5 })).toEqual([0.941176, 0.058824]);
    expect(probabilities([0.64, 0.04], { temperature: 2 })).toEqual([0.8, 0.2]);
  });

  it("is greedy at 0 and below 1e-5", () => {
    expect(probabilities([0.5, 0.3, 0.2], { temperature: 0 })).toEqual([1, 0, 0]);
    expect(cuts([0.5, 0.5], { temperature: 9e-6 })).toEqual([null, "temperature"]);
    expect(cuts([0.5, 0.5], { temperature: 1.1e-5 })).toEqual([null, null]);
  });

  it("cuts by min_p what is below that share of the most likely, and keeps what is just there", () => {
    expect(cuts([0.5, 0.25, 0.2], { min_p: 0.5 })).toEqual([null, null, "min_p"]);
    expect(probabilities([0.5, 0.25, 0.2], { min_p: 0.5 })).toEqual([0.666667, 0.333333, 0]);
    expect(cuts([0.5, 0.25], { min_p: 1 })).toEqual([null, "min_p"]);
  });

  it("applies min_p after temperature: flat distributions lose less", () => {
    // 0.64 : 0.04 is 1/16 of the most likely; at temperature 2 it is 1/4
    expect(cuts([0.64, 0.04], { min_p: 0.1 })).toEqual([null, "min_p"]);
    expect(cuts([0.64, 0.04], { min_p: 0.1, temperature: 2 })).toEqual([null, null]);
  });

  it("cuts by top_k, keeps ties at the bound, and 0 or more than there are is off", () => {
    expect(cuts([0.4, 0.3, 0.2], { top_k: 2 })).toEqual([null, null, "top_k"]);
    expect(cuts([0.4, 0.3, 0.3], { top_k: 2 })).toEqual([null, null, null]);
    expect(cuts([0.4, 0.3], { top_k: 0 })).toEqual([null, null]);
    expect(cuts([0.4, 0.3], { top_k: 9 })).toEqual([null, null]);
  });

  it("cuts by top_p the tail that makes up no more than the rest of 1", () => {
    // from the end: 0.05, 0.15, 0.35; 1 - 0.8 = 0.2
    expect(cuts([0.45, 0.2, 0.2, 0.1, 0.05], { top_p: 0.8 })).toEqual([null, null, null, "top_p", "top_p"]);
    expect(probabilities([0.5, 0.3, 0.2], { top_p: 0.75 })).toEqual([0.625, 0.375, 0]);
    expect(cuts([0.5, 0.3, 0.2], { top_p: 0.01 })).toEqual([null, "top_p", "top_p"]);
  });

  it("applies top_p to what top_k has left, renormalised", () => {
    // alone, top_p 0.7 keeps 0.4, 0.3; after top_k 2 the two are 4/7 and 3/7, and 3/7 is more than 0.3
    expect(cuts([0.4, 0.3, 0.2, 0.1], { top_p: 0.55 })).toEqual([null, null, "top_p", "top_p"]);
    expect(cuts([0.4, 0.3, 0.2, 0.1], { top_k: 2, top_p: 0.55 })).toEqual([null, "top_p", "top_k", "top_k"]);
  });

  it("names the first that cut: min_p before top_k", () => {
    expect(cuts([0.6, 0.3, 0.06, 0.04], { min_p: 0.2, top_k: 1 })).toEqual([null, "top_k", "min_p", "min_p"]);
  });

  it("copes with nothing, one, and impossible alternatives", () => {
    expect(reshape([], NEUTRAL)).toEqual([]);
    expect(probabilities([0.1], { top_p: 0.1, min_p: 1, top_k: 1, temperature: 0.1 })).toEqual([1]);
    expect(reshape([-0.1, -9999], { ...NEUTRAL, temperature: 0.01 }).map((one) => one.probability)).toEqual([1, 0]);
  });
});

const node = (token: string, share: number, top: Record<string, number> | null): NodeState =>
  ({ tokens: [token], logprobs: [Math.log(share)], top: [top && (Object.fromEntries(Object.entries(top).map(([k, v]) => [k, Math.log(v)])) as Top)] }) as unknown as NodeState;

describe("the sampled token", () => {
  const list = { a: 0.5, b: 0.25, c: 0.05 };

  it("is kept or cut wherever it ranks", () => {
    expect(fate(node("c", 0.05, list), 0, 3, NEUTRAL)).toBe("kept");
    expect(fate(node("c", 0.05, list), 0, 3, { ...NEUTRAL, top_k: 2 })).toBe("cut");
    expect(fate(node("a", 0.5, list), 0, 3, { temperature: 0, top_p: 0.01, top_k: 1, min_p: 1 })).toBe("kept");
  });

  it("from outside the list cannot be judged by a top_k that reaches beyond it", () => {
    const outside = node("z", 0.01, { a: 0.5, b: 0.25, z: 0.01 });
    expect(fate(outside, 0, 2, { ...NEUTRAL, top_k: 2 })).toBe("cut");
    expect(fate(outside, 0, 2, { ...NEUTRAL, top_k: 40 })).toBe("unknown");
    expect(fate(outside, 0, 2, { ...NEUTRAL, top_k: 40, min_p: 0.1 })).toBe("cut");
    expect(fate(outside, 0, 2, NEUTRAL)).toBe("kept");
  });

  it("without alternatives has no fate", () => {
    expect(fate(node("a", 0.5, null), 0, 3, { ...NEUTRAL, top_k: 1 })).toBeNull();
    expect(fate(node("a", 0.5, { a: 0.5 }), 0, 0, { ...NEUTRAL, top_k: 1 })).toBeNull();
  });

  it("stands among its alternatives, whose whole share is told", () => {
    const { rows, covered } = outlook(node("c", 0.05, list), 0, 3, { ...NEUTRAL, min_p: 0.2 });
    expect(rows.map(({ alternative, cut }) => [alternative.token, alternative.sampled, cut])).toEqual([["a", false, null], ["b", false, null], ["c", true, "min_p"]]);
    expect(covered).toBeCloseTo(0.8, 10);
  });
});

it("starts from the settings of the request", () => {
  expect(settingsOf({ temperature: 0.7, top_k: -1, top_p: null, min_p: "0.1" })).toEqual({ temperature: 0.7, top_k: 0, top_p: 1, min_p: 0 });
  expect(settingsOf({})).toEqual(NEUTRAL);
});

interface Case {
  logprobs: number[];
  settings: Settings;
  left: number[];
}

it("leaves what Python's twin leaves", () => {
  const cases = JSON.parse(readFileSync(new URL("../../tests/data/whatif.json", import.meta.url), "utf8")) as Case[];
  expect(cases.length).toBeGreaterThan(20);
  for (const { logprobs, settings, left } of cases) {
    reshape(logprobs, settings).forEach((one, i) => expect(one.probability).toBeCloseTo(left[i] ?? NaN, 12));
  }
});
