import { describe, expect, it } from "vitest";
import { figures, read, shares } from "../src/widgets/budget";

const seen = {
  name: "k", month: "2026-11", spent: 300, held: 100, limit: 1000, left: 600, running: 2, projected: 900, rate: 60,
  level: "ok", warning: "", session_spent: 1, session_limit: null,
  session_held: 0, tightest: "month", free: 600,
} as const;

describe("the meter", () => {
  it("shows spent and held as parts of the limit, never more than the whole", () => {
    expect(shares(seen)).toEqual([30, 10]);
    expect(shares({ ...seen, spent: 950, held: 400 })).toEqual([95, (1 - 0.95) * 100]);
    expect(shares({ ...seen, spent: 2000 })).toEqual([100, 0]);
    expect(shares({ ...seen, limit: null, left: null })).toBeNull(); // there is no whole
  });

  it("follows a session's limit where that leaves the least", () => {
    const session = { ...seen, session_spent: 1647, session_limit: 300, tightest: "session", free: 0 } as const;
    expect(shares(session)).toEqual([100, 0]);
    expect(figures(session)[2]).toEqual(["left", "0 tokens", "of this session’s 300"]);
    expect(shares({ ...session, limit: null, left: null, session_spent: 75, session_held: 30 })).toEqual([25, 10]);
  });

  it("names every figure and its unit", () => {
    const rows = Object.fromEntries(figures(seen).map(([name, ...rest]) => [name, rest]));
    expect(rows["left"]).toEqual(["600 tokens", "of 1,000"]);
    expect(rows["held"]?.[1]).toBe("by 2 requests");
    expect(rows["this session"]).toEqual(["1 token", "no limit"]);
    expect(figures({ ...seen, limit: null, left: null })[2]?.[1]).toBe("no limit");
    expect(figures({ ...seen, limit: null, left: 0 })[2]?.[1]).toBe("0 tokens");
  });

  it("shows nothing of what it cannot read", () => {
    expect(read("")).toBeNull();
    expect(read("{}")).toBeNull();
    expect(read(JSON.stringify(seen))).toEqual(seen);
  });
});
