import { describe, expect, it } from "vitest";
import { BOUNDS, level, percent } from "../src/parts/colour";
import { inSight } from "../src/parts/family";
import { rank } from "../src/parts/ranking";
import { clampWords, errorWords, figures, finishWords } from "../src/parts/status";
import { Aligner, codePoints, needsCodePoints, quoted, type Piece } from "../src/parts/text";
import { emptyState, fold, nodeOf, runOf } from "../src/state";

const texts = (pieces: Piece[]) => pieces.map((piece) => [piece.text, piece.first, piece.last]);

describe("a column that was opened", () => {
  it.each([
    [10, 60, true],
    [-900, 400, true],
    [-900, -840, false],
    [-900, 100, false],
    [750, 900, false],
  ])("from %i to %i in a window of 800 is in sight: %s", (top, bottom, seen) => expect(inSight(top, bottom, 800)).toBe(seen));
});

describe("Aligner", () => {
  it("gives the same pieces a few at a time as all at once", () => {
    const tokens = ["one", "", " two", "\n", " th", "ree", " four", "cut off"];
    for (const text of ["one two\n three four", "one two\n three", "one ?? three four and more", tokens.join("")]) {
      const whole = new Aligner().next(text, tokens, true);
      for (const most of [1, 2, 3, 100]) {
        const aligner = new Aligner();
        const found: Piece[] = [];
        for (let some: Piece[] = []; (some = aligner.next(text, tokens, true, most)).length > 0; ) {
          expect(some.length).toBeLessThanOrEqual(most + 1); // text between tokens comes with the token behind it
          found.push(...some);
        }
        expect(found).toEqual(whole);
      }
    }
  });

  it("gives each token its text", () => {
    expect(texts(new Aligner().next("a b", ["a", " b"], false))).toEqual([["a", 0, 0], [" b", 1, 1]]);
  });

  it("joins bytes to the token that completes the character, over several calls", () => {
    const aligner = new Aligner();
    expect(aligner.next("x", ["x", ""], false)).toHaveLength(1);
    expect(aligner.waiting).toBe(1);
    expect(aligner.next("x", ["x", "", ""], false)).toEqual([]);
    expect(aligner.waiting).toBe(2);
    expect(texts(aligner.next("x版", ["x", "", "", "版"], false))).toEqual([["版", 1, 3]]);
    expect(aligner.waiting).toBe(0);
  });

  it("waits for text that the server holds back, and loses none of it", () => {
    const aligner = new Aligner();
    expect(aligner.next("He", ["Hello", " you"], false)).toEqual([]);
    expect(texts(aligner.next("Hello y", ["Hello", " you"], false))).toEqual([["Hello", 0, 0]]);
    expect(texts(aligner.next("Hello y", ["Hello", " you"], true))).toEqual([[" y", 1, 1]]);
  });

  it("never shows more than the text", () => {
    const pieces = new Aligner().next("one", ["one", "\n", "Q", ":"], true);
    expect(texts(pieces)).toEqual([["one", 0, 0]]);
  });

  it("shows text without tokens plainly", () => {
    const aligner = new Aligner();
    expect(texts(aligner.next("plain ", [], false))).toEqual([["plain ", -1, -1]]);
    expect(texts(aligner.next("plain text", [], true))).toEqual([["text", -1, -1]]);
  });

  it("finds its place again after text and tokens disagree", () => {
    const pieces = new Aligner().next("a � wonderful day", ["a", " \ud83c\udf1f", " wonderful", " day"], true);
    expect(pieces.map((piece) => piece.text).join("")).toBe("a � wonderful day");
    expect(pieces.at(-1)).toEqual({ text: " day", first: 3, last: 3 });
  });

  it.each([[["x"], "completely other"], [["", ""], "text"], [[" a", " b"], ""]])("gives the whole text whatever the tokens are: %j", (tokens, text) => {
    const pieces = new Aligner().next(text, tokens, true);
    expect(pieces.map((piece) => piece.text).join("")).toBe(text);
  });
});

describe("level", () => {
  it("grows as the probability falls, and has a bound each", () => {
    const levels = [1, ...BOUNDS, 1e-9].map((p) => level(Math.log(p) + 1e-9));
    expect(levels).toEqual([0, 0, 1, 2, 3, 4, 5, 6, 7]);
    expect(level(null)).toBeNull();
    expect(level(-Infinity)).toBe(7);
  });

  it("names probabilities", () => {
    expect([0, -1, -5, -9, -20].map(percent)).toEqual(["100.0 %", "36.8 %", "0.67 %", "0.012 %", "<0.001 %"]);
  });
});

describe("rank", () => {
  it("orders by probability, marks the sampled token and says what is left", () => {
    const { alternatives, other } = rank("c", -2, { c: -2, a: -1, b: -1.5 }, 3);
    expect(alternatives.map((one) => [one.token, one.rank, one.sampled])).toEqual([["a", 1, false], ["b", 2, false], ["c", 3, true]]);
    expect(other).toBeCloseTo(1 - Math.exp(-1) - Math.exp(-1.5) - Math.exp(-2), 10);
  });

  it("does not make up a rank for a token from outside the list", () => {
    expect(rank("z", -9, { z: -9, a: -1 }, 1).alternatives.at(-1)).toEqual({ token: "z", logprob: -9, sampled: true, rank: null });
  });

  it("adds the sampled token when the list lacks it, and copes with none", () => {
    expect(rank("z", -9, { a: -1 }, 5).alternatives.map((one) => one.token)).toEqual(["a", "z"]);
    expect(rank("z", -1, null, null)).toMatchObject({ alternatives: [{ token: "z", rank: null }] });
    expect(rank("z", null, null, null)).toEqual({ alternatives: [], other: 1 });
  });

  it("takes __proto__ for a token", () => {
    const top = JSON.parse('{"__proto__": -1, "a": -2}') as Record<string, number>;
    expect(rank("__proto__", -1, top, 2).alternatives.map((one) => [one.token, one.sampled])).toEqual([["__proto__", true], ["a", false]]);
  });
});

describe("words for what cannot be seen", () => {
  it("quotes", () => {
    expect(quoted(" the")).toBe("“·the”");
    expect(quoted("\n\t\u202e\u0000")).toBe("“↵⇥⟨U+202E⟩⟨U+0000⟩”");
    expect(quoted("")).toBe("(no text)");
    expect(codePoints("a🎉")).toBe("U+0061 U+1F389");
    expect(["a", " ", "\u200b", "\ufffd", " x"].map(needsCodePoints)).toEqual([false, true, true, true, false]);
  });
});

describe("status", () => {
  const state = emptyState();
  fold(state, { type: "RunOpened", run: "r", request: { max_tokens: 64 } }, 100);
  fold(state, { type: "NodeOpened", node: "n", run: "r", choice: 0 }, 100);
  const run = runOf(state, "r");
  const node = nodeOf(state, "n");

  it.each([
    ["length", null, "reached max_tokens (64)"],
    ["stop", "\n\n", 'stop string "\\n\\n"'],
    ["stop", 2, "stop token 2"],
    ["stop", null, "end of text"],
    ["repetition", null, "repetition"],
    [null, null, ""],
  ])("%s, %j: %s", (finish_reason, stop_reason, words) => {
    expect(finishWords({ ...node, finish_reason, stop_reason }, run)).toBe(words);
  });

  it("names how a cut run ended", () => {
    expect(finishWords(node, { ...run, outcome: "stopped" })).toBe("stopped");
    expect(finishWords(node, { ...run, outcome: "interrupted" })).toBe("interrupted");
  });

  it("does not time what was read whole, as a job's result is", () => {
    const at = run.opened_at;
    const whole = { ...run, first_token_at: at, closed_at: at, usage_source: "usage" as const, prompt_tokens: 3, completion_tokens: 1 };
    expect(figures(state, whole, at)).toEqual(["3 + 1 token"]);
  });

  it("counts and measures by the kernel's clock", () => {
    fold(state, { type: "TokensArrived", node: "n", tokens: ["a"], logprobs: [-1], top: [null] }, 100.41);
    fold(state, { type: "TokensArrived", node: "n", tokens: ["b", "c"], logprobs: [-1, -1], top: [null, null] }, 101.41);
    expect(figures(state, run, 101.41)).toEqual(["3 tokens", "first token 410 ms", "2.0 tok/s"]);
    expect(figures(state, { ...run, usage_source: "usage", prompt_tokens: 1200, completion_tokens: 3 }, 101.41)[0]).toBe("1,200 + 3 tokens");
  });

  it("says that max_tokens was lowered, and to what it came", () => {
    const clamped = { ...run, headers: { "x-acs-max-tokens-clamped": "requested=64,applied=16,reason=model_context,source=x" } };
    expect(clampWords(clamped)).toBe("The server lowered max_tokens from 64 to 16 (model context).");
    expect(finishWords({ ...node, finish_reason: "length" }, clamped)).toBe("reached max_tokens (16)");
    expect(clampWords(run)).toBe("");
  });

  it("puts an error on one line", () => {
    const error = { code: "queue_full", message: "Too\n many ", status: 429, retryable: true };
    expect(errorWords({ ...run, error })).toBe("queue_full (429): Too many");
  });
});
