import { describe, expect, it } from "vitest";
import { ExactText, surrogateProblem } from "../src/parts/exact";
import { problem, type Field } from "../src/parts/fields";
import type { Event } from "../src/events";
import { runsAlready } from "../src/parts/history";
import { emptyState, fold } from "../src/state";
import { facts } from "../src/parts/promptbox";

const holding = (exact: string) => {
  const text = new ExactText();
  text.set(exact);
  return text;
};

describe("a text in a box that knows one line end", () => {
  it("keeps carriage returns where nothing was edited", () => {
    const text = holding("a\r\nb\rc\r\n");
    expect(text.shown).toBe("a\nb\nc\n");
    text.edited("a\nb!\nc\n");
    expect(text.exact).toBe("a\r\nb!\rc\r\n");
    text.edited("a\nb!c\n");
    expect(text.exact).toBe("a\r\nb!c\r\n");
    text.edited("a\nb!c");
    expect(text.exact).toBe("a\r\nb!c");
  });

  it("keeps those between two edits", () => {
    const text = holding("a\r\nb\rc\r\nd");
    text.edited("A\nb\nc\nd");
    text.edited("A\nb\nc\nD");
    expect(text.exact).toBe("A\r\nb\rc\r\nD");
  });

  it.each([
    ["a\nb", "a\nb!", "a\nb!"],
    ["a\r\nb\r\nc", "a\nb\nc", "a\r\nb\r\nc"],
    ["a\r\nb\r\nc", "a\nB\nc", "a\r\nB\r\nc"],
    ["a\r\nb\r\nc", "a\nb\nc\nd", "a\r\nb\r\nc\nd"],
    ["\r\n\r\n", "\n", "\r\n"],
    ["a\r\na\r\na", "", ""],
    ["\r", "x", "x"],
  ])("gives back %j, left as %j, as %j", (original, shown, expected) => {
    const text = holding(original);
    text.edited(shown);
    expect(text.exact).toBe(expected);
  });

  it("brings them back when an edit is undone", () => {
    const text = holding("a\r\nb\r\n");
    text.edited("");
    expect(text.exact).toBe("");
    text.edited("a\nb\n");
    expect(text.exact).toBe("a\r\nb\r\n");
  });

  it("never makes one line end of two", () => {
    const text = holding("a\rb");
    text.edited("a\n\nb");
    expect(text.exact.replace(/\r\n?/g, "\n")).toBe("a\n\nb");
    const joined = holding("a\rx\nb");
    joined.edited("a\n\nb");
    expect(joined.exact.replace(/\r\n?/g, "\n")).toBe("a\n\nb");
  });

  it("always stands for what the box shows, whatever is edited", () => {
    let seed = 7;
    const next = (most: number) => (seed = (seed * 48271) % 2147483647) % most;
    const letters = ["a", "\n", "\r", "\r\n", "é", "🦊"];
    for (let round = 0; round < 300; round++) {
      const text = holding(Array.from({ length: next(9) }, () => letters[next(6)]).join(""));
      for (let step = 0; step < 4; step++) {
        const at = next(text.shown.length + 1);
        const end = at + next(text.shown.length - at + 1);
        const edited = text.shown.slice(0, at) + (["", "\n", "x", "y\nz"][next(4)] ?? "") + text.shown.slice(end);
        text.edited(edited);
        expect(text.exact.replace(/\r\n?/g, "\n")).toBe(edited);
      }
    }
  });

  it("is the box's own when there are none, of any length", () => {
    const text = holding("x".repeat(1_000_000));
    text.edited(`${text.shown}y`);
    expect(text.exact).toHaveLength(1_000_001);
  });

  it("tells a lone surrogate", () => {
    expect(surrogateProblem("🦊 fine")).toBe("");
    expect(surrogateProblem("🦊a\ud800b")).toMatch(/\(U\+D800\) at character 2;/);
  });
});

describe("a field", () => {
  const of = (kind: Field["kind"], more: Partial<Field> = {}): Field => ({ name: "x", kind, help: "", ...more });
  it.each<[Field, string, string]>([
    [of("integer", { low: "0", high: "9223372036854775807" }), "9223372036854775807", ""],
    [of("integer", { low: "0", high: "9223372036854775807" }), "9223372036854775808", "at most 9223372036854775807"],
    [of("integer", { low: "1" }), "0", "at least 1"],
    [of("integer"), "1.5", "a whole number is needed"],
    [of("integer"), "+3", ""],
    [of("number", { above: "0.0", high: "1.0" }), "0", "above 0"],
    [of("number", { above: "0.0", high: "1.0" }), "1.01", "at most 1"],
    [of("number", { low: "0.0" }), " .5 ", ""],
    [of("number"), "warm", "a number is needed"],
    [of("number"), "Infinity", "a number is needed"],
    [of("number"), "", ""],
    [of("texts"), "a\nb\nc\nd\n", ""],
    [of("texts"), "a\nb\nc\nd\ne", "at most 4, one a line"],
  ])("%j with %j: %s", (field, text, words) => {
    expect(problem(field, text)).toBe(words);
  });
});

describe("what is running", () => {
  const state = emptyState();
  const events = [
    { type: "NodeOpened", node: "p", run: "r", text: "Once", choice: null },
    { type: "RunOpened", run: "r", request: { prompt: "Once", temperature: 0.8, n: 1, stop: ["a\n"] } },
    { type: "NodeOpened", node: "r.0", run: "r", parent: "p", choice: 0 },
  ];
  for (const event of events) fold(state, event as Event, 0);

  it("is known again by prompt and parameters", () => {
    expect(runsAlready(state, "Once", { temperature: "0.8", n: "1", stop: "a\\n", top_p: "" })).toBe(true);
    expect(runsAlready(state, "Once", { temperature: "0.9" })).toBe(false);
    expect(runsAlready(state, "Once more", { temperature: "0.8" })).toBe(false);
  });

  it("is running no more when it has closed", () => {
    fold(state, { type: "RunClosed", run: "r", outcome: "done" } as Event, 1);
    expect(runsAlready(state, "Once", { temperature: "0.8" })).toBe(false);
  });
});

describe("facts about a prompt", () => {
  it("name what cannot be seen", () => {
    expect(facts("")).toEqual(["0 characters"]);
    expect(facts("é🦊 ")).toEqual(["3 characters", "7 bytes", "ends in a space"]);
    expect(facts("a\r\nb\u0000\u202e\u202e\n")).toEqual([
      "8 characters", "12 bytes", "1 carriage return (\\r), kept", "U+0000", "2 × U+202E", "ends in a newline",
    ]);
  });
});
