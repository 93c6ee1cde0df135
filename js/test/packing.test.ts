import { describe, expect, it } from "vitest";
import { unpack } from "../src/packing";

const node = (more: object) => ({ id: "n", run: "r", parent: null, choice: 0, ids: null, echo: false, text: null, scores: null, finish_reason: null, stop_reason: null, children: [], ...more });
const packed = (nodes: object, strings: string[], v = 1) =>
  JSON.stringify({ v, seq: 9, at: 1.5, strings, state: { roots: ["n"], nodes, runs: {} } });
const bytes = (...numbers: number[]) => btoa(String.fromCharCode(...numbers));

describe("unpack", () => {
  it("reads tokens, logprobs and alternatives", () => {
    // " a" -0.127 with itself and " b" -2.5; " b" without probability or alternatives
    const text = bytes(0, 0x80, 1, 3, 0, 2, 0xc4, 0x13, 1, 0, 0);
    const snapshot = unpack(packed({ n: node({ count: 2, packed: text }) }, [" a", " b"]));
    expect(snapshot).toMatchObject({ seq: 9, at: 1.5 });
    expect(snapshot?.state.nodes["n"]).toMatchObject({
      text: " a b",
      tokens: [" a", " b"],
      logprobs: [-0.127, null],
      top: [{ " a": -0.127, " b": -2.5 }, null],
    });
  });

  it("keeps a text that its tokens do not join to, and __proto__ as a token", () => {
    const snapshot = unpack(packed({ n: node({ text: "cut", count: 1, packed: bytes(0, 1, 2, 1, 5) }) }, ["__proto__"]));
    expect(snapshot?.state.nodes["n"]?.text).toBe("cut");
    expect(Object.entries(snapshot?.state.nodes["n"]?.top[0] ?? {})).toEqual([["__proto__", -0.005]]);
  });

  it("has nothing to say to nothing, or to another version", () => {
    expect(unpack("")).toBeNull();
    expect(unpack(packed({}, [], 2))).toBeNull();
  });
});
