import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Host } from "../src/host";
import { confirmCopies } from "../src/parts/copies";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test("a page says that it is there, then each copy that it shows, once", () => {
  const sent: unknown[] = [];
  const shown = new Set<string>();
  let copy = "";
  const host = { option: () => copy, send: (intent: unknown) => sent.push(intent) } as unknown as Host;
  const root = { querySelector: (selector: string) => (shown.has(selector) ? root : null) };
  const ended = new AbortController();
  confirmCopies(host, { getRootNode: () => root } as unknown as HTMLElement, ended.signal);
  expect(sent).toEqual([{ type: "Confirm", copy: "" }]);
  copy = "a1-1";
  shown.add(".acs-copy-a1-10");
  vi.advanceTimersByTime(5000);
  expect(sent).toHaveLength(1);
  shown.add(".acs-copy-a1-1");
  vi.advanceTimersByTime(5000);
  expect(sent).toEqual([{ type: "Confirm", copy: "" }, { type: "Confirm", copy: "a1-1" }]);
  copy = "a1-2";
  ended.abort();
  shown.add(".acs-copy-a1-2");
  vi.advanceTimersByTime(5000);
  expect(sent).toHaveLength(2);
});

test("a page that comes to a copy it lacks says that it is there, and no more", () => {
  const sent: unknown[] = [];
  const host = { option: () => "b2-7", send: (intent: unknown) => sent.push(intent) } as unknown as Host;
  const el = { getRootNode: () => ({ querySelector: () => null }) } as unknown as HTMLElement;
  confirmCopies(host, el, new AbortController().signal);
  vi.advanceTimersByTime(10_000);
  expect(sent).toEqual([{ type: "Confirm", copy: "" }]);
});

test("a copy that does not come is missed after a while, and no more when it is there", () => {
  let copy = "c-1";
  const shown = new Set<string>();
  const told: boolean[] = [];
  const host = { option: () => copy, send: () => true } as unknown as Host;
  const root = { querySelector: (selector: string) => (shown.has(selector) ? root : null) };
  const el = { getRootNode: () => root } as unknown as HTMLElement;
  confirmCopies(host, el, new AbortController().signal, (yes) => told.push(yes));
  vi.advanceTimersByTime(500); // it is drawn a moment later
  shown.add(".acs-copy-c-1");
  vi.advanceTimersByTime(10_000);
  expect(told).toEqual([]);
  copy = "c-2";
  vi.advanceTimersByTime(10_000);
  expect(told).toEqual([true]);
  shown.add(".acs-copy-c-2");
  vi.advanceTimersByTime(10_000);
  expect(told).toEqual([true, false]);
});
