import { describe, expect, it } from "vitest";
import { COMMANDS, Keys } from "../src/parts/loomkeys";
import { nats, share, shown } from "../src/parts/measure/told";
import { words } from "../src/parts/measure/multiverse";

describe("a measure's figures", () => {
  it("are short, and say what is not known", () => {
    expect([1, 0.5, 0.0995, 0.05, 0.001, 0.00003, 0, null].map(share)).toEqual(["100 %", "50 %", "10 %", "5.0 %", "0.10 %", "<0.01 %", "0.00 %", "–"]);
    expect(nats(-1.234)).toBe("−1.23");
  });

  it("show what cannot be seen, a character each", () => {
    expect(shown(" a\n🦊\u202e")).toBe("·a↵🦊⟨U+202E⟩");
  });

  it("name a cell whole", () => {
    const cell = { cell: 3, parent: 1, depth: 2, kind: "expanded" as const, token: " b", text: " a b", area: 0.25, p: 0.5, top: 0, rest: 0.05 };
    expect(words(cell)).toBe("“·a·b”: 25 %; this token 50 %; 5.0 % not returned behind it");
    expect(words({ ...cell, kind: "open", rest: null })).toContain("nothing was asked behind it");
  });
});

it("is asked for by keys that can be others", () => {
  const keys = new Keys({ map: "q" });
  expect(keys.command("q")).toBe("map");
  expect([keys.command("T"), keys.command("D"), keys.command("M")]).toEqual(["trie", "diff", undefined]);
  const used = COMMANDS.flatMap((command) => command.keys);
  expect(used.filter((key, i) => used.indexOf(key) !== i)).toEqual([]);
});
