/**
 * Ages and countdowns of jobs in words; `acs_jupyter/jobs/entry.py` has the same spans.
 */

/** Seconds before an end from which it is told as near. */
const NEAR_S = 3600;

/** A length of time in the two units that matter. */
export function span(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  const units = [
    ["d", 86_400, "h", 3600],
    ["h", 3600, "min", 60],
    ["min", 60, "s", 1],
  ] as const;
  for (const [unit, size, below, small] of units) {
    if (whole >= size) return `${Math.floor(whole / size)} ${unit} ${Math.floor((whole % size) / small)} ${below}`;
  }
  return `${whole} s`;
}

/** Until when, seen from `now`; `near` when little is left of it. */
export function countdown(expires: number | undefined, open: boolean, now: number): { text: string; near: boolean } {
  if (expires === undefined) return { text: "", near: false };
  const left = expires - now;
  if (left <= 0) return { text: open ? "due to expire" : "result gone", near: true };
  const near = left < NEAR_S;
  const what = open ? "unrun" : "result";
  return { text: `${near ? "soon: " : ""}in ${span(left)} (${what})`, near };
}
