import type { AnyModel } from "@anywidget/types";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { SEND_AGAIN_MS } from "../src/delivery";
import { ACK_WITHIN_MS, connect, TELL_AFTER_MS } from "../src/host";

/** An intent with the number it is acknowledged by. */
const asking = (intent: object) => ({ ...intent, ask: expect.stringMatching(/^\w+\.\d+$/) as string });

const opening = { seq: 1, at: 1, events: [
  { type: "RunOpened", run: "r", request: {} },
  { type: "NodeOpened", node: "r.0", run: "r", choice: 0 },
] };
const text = (seq: number, text: string) => ({ seq, at: seq, events: [{ type: "TokensArrived", node: "r.0", text }] });
const closing = (seq: number) => ({ seq, at: seq, events: [{ type: "RunClosed", run: "r", outcome: "done" }] });
const snapshot = (seq: number, shown: string) => JSON.stringify({ v: 1, seq, at: seq, strings: [], state: {
  roots: ["r.0"],
  nodes: { "r.0": { id: "r.0", run: "r", parent: null, choice: 0, text: shown, count: 0, packed: "", children: [] } },
  runs: { r: { id: "r", outcome: "open", nodes: ["r.0"] } },
} });

function fake(state: Record<string, unknown> = { snapshot: "" }) {
  const handlers = new Map<string, (message?: unknown) => void>();
  const interrupt = vi.fn();
  const model = {
    get: (name: string) => state[name],
    on: (name: string, act: () => void) => handlers.set(name, act),
    off: (name: string) => handlers.delete(name),
    send: vi.fn(),
    widget_manager: { kernel: { interrupt } },
  };
  const host = connect(model as unknown as AnyModel);
  return { host, model, interrupt, handlers, state, receive: (message: unknown) => handlers.get("msg:custom")?.(message) };
}

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

describe("stop of a run in the background", () => {
  it("never interrupts a kernel that is busy with something else", () => {
    const { host, model, interrupt, receive } = fake({ snapshot: "", interrupts: false });
    receive(opening);
    host.stop();
    vi.advanceTimersByTime(10 * ACK_WITHIN_MS);
    vi.advanceTimersByTime(TELL_AFTER_MS);
    expect(model.send).toHaveBeenCalledWith(asking({ type: "Cancel" }));
    expect(interrupt).not.toHaveBeenCalled();
    expect(host.told).toContain("it is busy"); // the reader is not left without a word
    receive({ ack: "Cancel" });
    expect(host.told).toBe("");
  });
});

describe("what is asked for", () => {
  const sent = (model: { send: { mock: { calls: unknown[][] } } }) => model.send.mock.calls.map(([one]) => one as { type: string; ask: string });

  it("is sent again, later each time, until the kernel has it", () => {
    const { host, model, receive } = fake();
    receive(opening);
    host.stop("r");
    host.branch({ type: "Locate", node: "r.0" });
    const [stop, locate] = sent(model);
    expect(stop?.ask).not.toBe(locate?.ask);
    receive({ ack: "Locate", ask: locate?.ask });
    vi.advanceTimersByTime(SEND_AGAIN_MS);
    expect(sent(model)).toEqual([stop, locate, stop]);
    vi.advanceTimersByTime(2 * SEND_AGAIN_MS - 1);
    expect(model.send).toHaveBeenCalledTimes(3);
    vi.advanceTimersByTime(1);
    expect(sent(model)).toEqual([stop, locate, stop, stop]);
    receive({ ack: "Cancel", ask: stop?.ask });
    receive({ ack: "Cancel", ask: stop?.ask });
    vi.advanceTimersByTime(1000 * SEND_AGAIN_MS);
    expect(model.send).toHaveBeenCalledTimes(4);
  });

  it("is sent no more when the window is closed or the kernel is gone", () => {
    for (const end of ["close", "lost", "refused"]) {
      const { host, model, handlers, receive } = fake();
      receive(opening);
      receive(text(3, "c"));
      if (end === "close") host.close();
      else if (end === "lost") handlers.get("comm_live_update")?.();
      else
        model.send.mockImplementation(() => {
          throw new Error("no kernel");
        });
      vi.advanceTimersByTime(1000 * SEND_AGAIN_MS);
      expect(model.send).toHaveBeenCalledTimes(end === "refused" ? 2 : 1);
    }
  });
});

describe("messages", () => {
  it("fold in order, and one that came before is not folded twice", () => {
    const { host, receive } = fake();
    receive(opening);
    receive(text(2, "a"));
    receive(text(2, "a"));
    expect(host.state.nodes["r.0"]?.text).toBe("a");
    expect(host.at).toBe(2);
  });

  it("ask once for the whole state when one is missing, and go on from there", () => {
    const { host, model, receive } = fake();
    receive(opening);
    receive(text(3, "c"));
    receive(text(4, "d"));
    expect(model.send.mock.calls).toEqual([[asking({ type: "Resync", seen: 1 })]]);
    const fresh = vi.fn();
    host.listen(fresh);
    receive({ seq: 4, snapshot: snapshot(4, "abcd") });
    receive(text(5, "e"));
    expect(host.state.nodes["r.0"]?.text).toBe("abcde");
    // What was drawn still holds: nothing is drawn anew under somebody's hands.
    expect(fresh.mock.calls).toEqual([[false], [false]]);
  });

  it("ask when one cannot be folded", () => {
    const { model, receive } = fake();
    receive({ seq: 1, events: [{ type: "TokensArrived", node: "unknown", text: "x" }] });
    expect(model.send).toHaveBeenCalledWith(asking({ type: "Resync", seen: 0 }));
  });

  it("start from the model's snapshot, and the closing one changes nothing", () => {
    const { host, handlers, state, receive } = fake({ snapshot: snapshot(7, "seven") });
    expect(host.state.nodes["r.0"]?.text).toBe("seven");
    receive(text(8, "!"));
    const told = vi.fn();
    host.listen(told);
    state["snapshot"] = snapshot(8, "seven!");
    handlers.get("change:snapshot")?.();
    expect(told).not.toHaveBeenCalled();
    expect(host.state.nodes["r.0"]?.text).toBe("seven!");
  });

  it("are made good by the closing snapshot when the end itself was lost", () => {
    const { host, handlers, state, receive } = fake();
    receive(opening);
    state["snapshot"] = snapshot(9, "whole");
    handlers.get("change:snapshot")?.();
    expect(host.state.nodes["r.0"]?.text).toBe("whole");
  });
});

describe("stop", () => {
  it("asks, and leaves the kernel alone when it answers", () => {
    const { host, model, interrupt, receive } = fake();
    receive(opening);
    host.stop();
    expect(model.send).toHaveBeenCalledWith(asking({ type: "Cancel" }));
    receive({ ack: "Cancel" });
    vi.advanceTimersByTime(ACK_WITHIN_MS * 3);
    expect(interrupt).not.toHaveBeenCalled();
  });

  it("interrupts a kernel that cannot answer", () => {
    const { host, interrupt, receive } = fake();
    receive(opening);
    host.stop();
    vi.advanceTimersByTime(ACK_WITHIN_MS - 1);
    expect(interrupt).not.toHaveBeenCalled();
    vi.advanceTimersByTime(2);
    expect(interrupt).toHaveBeenCalledTimes(1);
  });

  it("does not hit whatever runs by then", () => {
    const { host, interrupt, receive } = fake();
    receive(opening);
    host.stop();
    receive(closing(2));
    vi.advanceTimersByTime(ACK_WITHIN_MS * 3);
    expect(interrupt).not.toHaveBeenCalled();
    host.stop();
    vi.advanceTimersByTime(ACK_WITHIN_MS * 3);
    expect(interrupt).not.toHaveBeenCalled();
  });

  it("ends in words when the kernel is lost: what the file has, and where the rest is", () => {
    const { host, handlers, receive } = fake();
    receive(opening);
    receive(text(2, "so far"));
    handlers.get("comm_live_update")?.();
    expect(host.state.runs["r"]?.outcome).toBe("interrupted");
    expect(host.state.nodes["r.0"]?.text).toBe("so far");
    expect(host.told).toMatch(/in this page only/);
  });

  it("does not trip where there is no kernel to interrupt", () => {
    const { host, model, receive } = fake();
    (model as { widget_manager?: unknown }).widget_manager = undefined;
    receive(opening);
    host.stop();
    expect(() => vi.advanceTimersByTime(ACK_WITHIN_MS * 3)).not.toThrow();
    expect(model.send).toHaveBeenCalledTimes(1);
  });
});

it("lets go of the model", () => {
  const { host, handlers } = fake();
  host.close();
  expect(handlers.size).toBe(0);
});
