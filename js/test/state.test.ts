import { describe, expect, it } from "vitest";
import type { Event } from "../src/events";
import { echoed, emptyState, fold, goesOn, nodeOf, runOf, textTo, type State } from "../src/state";

function folded(events: Event[], at = 1): State {
  const state = emptyState();
  for (const event of events) fold(state, event, at);
  return state;
}

const opened: Event[] = [
  { type: "RunOpened", run: "r", request: {} },
  { type: "NodeOpened", node: "p", run: "r", text: "Once" },
  { type: "NodeOpened", node: "r.0", run: "r", parent: "p", choice: 0 },
];

describe("fold", () => {
  it("fills in what was left out", () => {
    const state = folded([...opened, { type: "TokensArrived", node: "r.0", tokens: [" a", " b"], logprobs: [-1, -2], top: [null, null] }]);
    expect(nodeOf(state, "r.0")).toMatchObject({ text: " a b", parent: "p", choice: 0, echo: false, ids: null, stop_reason: null });
    expect(runOf(state, "r")).toMatchObject({ outcome: "open", request_id: null, first_token_at: 1 });
    expect(state.roots).toEqual(["p"]);
    expect(nodeOf(state, "p").children).toEqual(["r.0"]);
  });

  it("keeps the wait's note until the first token, and later ones until the end", () => {
    const state = folded([...opened, { type: "Waited", run: "r", note: "booting" }]);
    expect(runOf(state, "r").note).toBe("booting");
    fold(state, { type: "TokensArrived", node: "r.0", text: "x" }, 2);
    expect(runOf(state, "r").note).toBeNull();
    fold(state, { type: "Waited", run: "r", note: "keepalive" }, 3);
    fold(state, { type: "TokensArrived", node: "r.0", text: "y" }, 4);
    expect(runOf(state, "r")).toMatchObject({ note: "keepalive", first_token_at: 2 });
    fold(state, { type: "RunClosed", run: "r", outcome: "done" }, 5);
    expect(runOf(state, "r")).toMatchObject({ note: null, closed_at: 5 });
  });

  it("goes on from what it was, or is another", () => {
    const came = (...tokens: string[]): Event => ({ type: "TokensArrived", node: "r.0", tokens, logprobs: tokens.map(() => -1), top: tokens.map(() => null) });
    const before = folded([...opened, came(" a")]);
    expect(goesOn(before, folded([...opened, came(" a", " b"), { type: "RunOpened", run: "s", request: {} }]))).toBe(true);
    expect(goesOn(before, folded(opened))).toBe(false);
    expect(goesOn(before, folded([...opened, came(" ", "a")]))).toBe(false);
    expect(goesOn(before, emptyState())).toBe(false);
    expect(goesOn(emptyState(), before)).toBe(false); // there was nothing to go on from
  });

  it("refuses what speaks of an unknown node or run", () => {
    expect(() => folded([{ type: "TokensArrived", node: "nope", text: "x" }])).toThrow("no node nope");
    expect(() => folded([{ type: "Waited", run: "nope", note: "" }])).toThrow("no run nope");
    expect(() => folded([{ type: "Waited", run: "__proto__", note: "" }])).toThrow("no run __proto__");
  });

  it("takes any id for an id", () => {
    const state = folded([
      { type: "RunOpened", run: "__proto__", request: {} },
      { type: "NodeOpened", node: "constructor", run: "__proto__" },
    ]);
    expect(Object.keys(state.runs)).toEqual(["__proto__"]);
    expect(nodeOf(state, "constructor").run).toBe("__proto__");
  });
});

describe("text", () => {
  it("counts an echoed prompt once", () => {
    const state = folded([
      ...opened.slice(0, 2),
      { type: "NodeOpened", node: "r.0", run: "r", parent: "p", choice: 0, echo: true },
      { type: "TokensArrived", node: "r.0", text: "Once upon" },
    ]);
    expect(echoed(state, nodeOf(state, "r.0"))).toBe(4);
    expect(textTo(state, "r.0")).toBe("Once upon");
  });

  it("is not taken for an echo when it differs", () => {
    const state = folded([
      ...opened.slice(0, 2),
      { type: "NodeOpened", node: "r.0", run: "r", parent: "p", choice: 0, echo: true },
      { type: "TokensArrived", node: "r.0", text: "Twice" },
    ]);
    expect(textTo(state, "r.0")).toBe("OnceTwice");
  });
});
