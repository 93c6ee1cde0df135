import type { AnyModel } from "@anywidget/types";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Event } from "../src/events";
import { ACK_WITHIN_MS, connect, TELL_AFTER_MS } from "../src/host";
import { canLeave, isText } from "../src/parts/acts";
import { isPut } from "../src/parts/description";
import { branchWith } from "../src/parts/drafts";
import { branchName, descendants, leavingWords, road, rootOf, sourceName } from "../src/parts/road";
import { emptyState, fold, nodeOf, type State } from "../src/state";

/** An intent with the number it is acknowledged by. */
const asking = (intent: object) => ({ ...intent, ask: expect.stringMatching(/^\w+\.\d+$/) as string });

const run = (id: string, node: Partial<Event & { type: "NodeOpened" }>, count = 1): Event[] => [
  { type: "RunOpened", run: id, request: {} },
  ...Array.from({ length: count }, (_, choice): Event => ({ type: "NodeOpened", node: `${id}.${choice}`, run: id, parent: "p", choice, ...node })),
];
const came = (node: string, ...tokens: string[]): Event => ({
  type: "TokensArrived", node, tokens, logprobs: tokens.map(() => -1), top: tokens.map((token) => ({ [token]: -1, " no": -2 })),
});
const tree: Event[] = [
  { type: "RunOpened", run: "r", request: {} },
  { type: "NodeOpened", node: "p", run: "r", text: "Once" },
  ...run("r", {}, 2).slice(1),
  came("r.0", " a", " b", " c"),
  came("r.1", " x", " y"),
  ...run("a", { origin: { node: "r.0", tokens: 1, text: " no" } }),
  ...run("b", { origin: { node: "r.1", tokens: 1 } }),
  ...run("c", { origin: { node: "a.0", tokens: 1, text: "\nquite another, and long, text" } }),
];

function made(events: readonly Event[] = tree): State {
  const state = emptyState();
  for (const event of events) fold(state, structuredClone(event), 1);
  return state;
}

describe("roads", () => {
  it("know families, names and places", () => {
    const state = made();
    expect(descendants(state, "r")).toEqual(["a", "b", "c"]);
    expect(road(state, "c")).toEqual(["r", "a", "c"]);
    expect(rootOf(state, "c")).toBe("r");
    expect(["r", "a", "c"].map((id) => branchName(state, id))).toEqual(["original", "branch 1", "branch 3"]);
    expect(["a", "b", "c"].map((id) => sourceName(state, id))).toEqual(["original 1", "original 2", "branch 1"]);
    expect(["r", "a", "b", "c"].map((id) => leavingWords(state, id))).toEqual(["", "token 2 “·no”", "token 2 sampled again", "edited from token 2"]);
  });

  it("mark what its reader put in, and what was kept", () => {
    const node = nodeOf(made(), "a.0");
    expect(node.tokens).toEqual([" a", " no"]);
    expect([0, 1].map((index) => isPut(node, index))).toEqual([false, true]);
    expect(isPut(nodeOf(made(), "b.0"), 0)).toBe(false);
  });

  it("fold where a seam was sought", () => {
    const state = made([...tree, { type: "SeamSought", node: "a.0", seam: 0, cost: 9 }, { type: "SeamSought", node: "r.0", cost: 1 }]);
    expect(nodeOf(state, "a.0").origin).toEqual({ node: "r.0", tokens: 1, text: " no", exact: false, seam: 0, cost: 9 });
    expect(nodeOf(state, "r.0").origin).toBeNull();
  });
});

describe("places to leave", () => {
  it("are the model's own tokens that have text", () => {
    const echo: Event[] = [
      { type: "RunOpened", run: "e", request: {} },
      { type: "NodeOpened", node: "q", run: "e", text: "Once" },
      { type: "NodeOpened", node: "e.0", run: "e", parent: "q", choice: 0, echo: true },
      came("e.0", "Once", " more"),
    ];
    const state = made(echo);
    const node = nodeOf(state, "e.0");
    const at = (first: number) => canLeave(state, { node, piece: { text: "", first, last: first }, parts: false, tokens: [] });
    expect([at(0), at(1), at(-1)]).toEqual([false, true, false]);
    expect(["", "a\ufffd", " a"].map(isText)).toEqual([false, false, true]);
  });
});

describe("a text put in place", () => {
  it.each(["constructor", "toString", "__proto__"])("called %s has no probability that nobody told", (text) => {
    const state = made([...tree, ...run("e", { origin: { node: "r.0", tokens: 1, text } })]);
    expect(nodeOf(state, "e.0").logprobs).toEqual([-1, null]);
  });
});

describe("asking for a branch", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  function host() {
    const handlers = new Map<string, (message?: unknown) => void>();
    const interrupt = vi.fn();
    const model = {
      get: () => "",
      on: (name: string, act: () => void) => handlers.set(name, act),
      off: () => undefined,
      send: vi.fn(),
      widget_manager: { kernel: { interrupt } },
    };
    const made = connect(model as unknown as AnyModel);
    handlers.get("msg:custom")?.({ seq: 1, at: 1, events: structuredClone(tree) });
    return { host: made, model, interrupt, receive: (message: unknown) => handlers.get("msg:custom")?.(message), lose: () => handlers.get("comm_live_update")?.() };
  }
  const wish = { type: "Resample", node: "r.0", token: 1 } as const;

  it("says so when nobody answers, until somebody does", () => {
    const { host: one, model, receive, interrupt } = host();
    one.branch(wish);
    expect(model.send).toHaveBeenCalledWith(asking(wish));
    vi.advanceTimersByTime(TELL_AFTER_MS + 1);
    expect(one.told).toMatch(/has not answered/);
    receive({ ack: "Resample" });
    expect(one.told).toBe("");
    receive({ told: "No branch was begun. budget_refused" });
    expect(one.told).toMatch(/^No branch/);
    expect(one.refused).toBe(true);
    one.branch(wish);
    expect(one.told).toBe("");
    expect(interrupt).not.toHaveBeenCalled();
  });

  it("asks nobody when the kernel is gone", () => {
    const { host: one, model, lose } = host();
    lose();
    model.send.mockClear();
    one.branch(wish);
    expect(model.send).not.toHaveBeenCalled();
    expect(one.told).toMatch(/gone; run the cell again/);
    expect(one.refused).toBe(true);
  });

  it("is refused when the kernel goes before it has answered, or cannot be reached", () => {
    const { host: one, model, receive, lose } = host();
    receive({ seq: 2, at: 2, events: Object.keys(one.state.runs).map((id) => ({ type: "RunClosed", run: id, outcome: "done" })) });
    one.branch(wish);
    expect(one.refused).toBe(false);
    lose();
    expect(one.told).toMatch(/gone; run the cell again/);
    const { host: other, model: dead } = host();
    dead.send.mockImplementation(() => {
      throw new Error("no kernel");
    });
    other.branch(wish);
    expect(other.refused).toBe(true);
    expect(model.send).toHaveBeenCalledTimes(1);
  });

  it("offers to stop what goes on for it", () => {
    const { host: one, model, receive } = host();
    receive({ told: "Asking …", stops: "probe" });
    expect(one.asking).toBe("probe");
    one.giveUp();
    expect(model.send).toHaveBeenLastCalledWith(asking({ type: "Cancel", run: "probe" }));
    receive({ told: "No branch was begun. It was stopped." });
    expect(one.asking).toBe("");
    one.giveUp();
    expect(model.send).toHaveBeenCalledTimes(1);
  });

  it("has come when a new branch begins with the text that was sent", () => {
    const state = made();
    const before = new Set(Object.keys(state.nodes));
    expect(branchWith(state, "r.0", " a no", new Set())?.run).toBe("a");
    expect(branchWith(state, "r.0", " a no", before)).toBeUndefined();
    for (const event of run("e", { origin: { node: "r.0", tokens: 1, text: " b, or" } })) fold(state, event, 3);
    expect(branchWith(state, "r.0", " a no", before)).toBeUndefined();
    expect(branchWith(state, "r.0", " a b, or", before)?.run).toBe("e");
  });

  it("stops a branch alone, and never interrupts the kernel for it", () => {
    const { host: one, model, interrupt } = host();
    one.stop("a");
    expect(model.send).toHaveBeenCalledWith(asking({ type: "Cancel", run: "a" }));
    vi.advanceTimersByTime(ACK_WITHIN_MS * 10);
    expect(interrupt).not.toHaveBeenCalled();
    expect(one.told).toMatch(/has not answered/);
    one.stop("r");
    vi.advanceTimersByTime(ACK_WITHIN_MS + 1);
    expect(interrupt).toHaveBeenCalledTimes(1);
  });
});
