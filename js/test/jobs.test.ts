import { describe, expect, it } from "vitest";
import { countdown, span } from "../src/parts/jobtimes";
import { parse, quote, summary, type Row } from "../src/widgets/jobs";

const row: Row = {
  n: 1, job: "j1", request: "r1", name: "job j1", model: "m", prompt: "Once", kind: "open", state: "running",
  words: "running", since: 0, cancel: true, read: false,
};

describe("times", () => {
  it("are told as Python tells them", () => {
    expect([-3, 59, 60, 3599, 3600, 90_000].map(span)).toEqual(["0 s", "59 s", "1 min 0 s", "59 min 59 s", "1 h 0 min", "1 d 1 h"]);
  });

  it("say what goes, and when little is left say so in words", () => {
    expect(countdown(undefined, true, 5)).toEqual({ text: "", near: false });
    expect(countdown(7205, true, 5)).toEqual({ text: "in 2 h 0 min (unrun)", near: false });
    expect(countdown(65, false, 5)).toEqual({ text: "soon: in 1 min 0 s (result)", near: true });
    expect(countdown(5, false, 5)).toEqual({ text: "result gone", near: true });
    expect(countdown(5, true, 9).text).toBe("due to expire");
  });
});

describe("rows", () => {
  it("that cannot be read are none", () => {
    expect([undefined, "", "{", "{}", "3"].map(parse)).toEqual([[], [], [], [], []]);
    expect(parse(JSON.stringify([row]))).toEqual([row]);
  });

  it("are counted by state", () => {
    expect(summary([])).toContain("No completion jobs yet");
    expect(summary([row])).toBe("1 completion job: 1 running");
    expect(summary([row, { ...row, n: 2, state: "failed" }, row])).toBe("3 completion jobs: 2 running, 1 failed");
  });

  it("are quoted with what a bug report needs", () => {
    expect(quote(row)).toBe("job j1, request r1, model m, running");
    const { request: _, ...without } = row;
    expect(quote(without)).toBe("job j1, model m, running");
  });
});
