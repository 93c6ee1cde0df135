/**
 * A long loop in short slices, one a frame, so that the page stays quick while thousands of tokens change.
 */

/** Milliseconds of script a frame; the browser needs as long again to restyle what was changed. */
export const BUDGET_MS = 8;
/** And no more items than this: restyling is not on the clock. */
export const AT_MOST = 1200;
const LOOK_AT_CLOCK = 64;

export interface Clock {
  now(): number;
  frame(act: () => void): number;
  cancel(frame: number): void;
}

const page: Clock = {
  now: () => performance.now(),
  frame: (act) => requestAnimationFrame(act),
  cancel: (frame) => cancelAnimationFrame(frame),
};

/**
 * Calls `work` for 0 to `count - 1`; the first slice at once. `each`: items that one call changes.
 * Gives back what cancels the rest; `done` is not called then.
 */
export function inSlices(count: number, work: (index: number) => void, done: () => void, each = 1, clock: Clock = page): () => void {
  let place = 0;
  let frame = 0;
  const slice = () => {
    const until = clock.now() + BUDGET_MS;
    const last = Math.min(count, place + Math.max(1, Math.floor(AT_MOST / Math.max(1, each))));
    while (place < last) {
      work(place++);
      if (place % LOOK_AT_CLOCK === 0 && clock.now() > until) break;
    }
    if (place < count) frame = clock.frame(slice);
    else done();
  };
  slice();
  return () => {
    place = count;
    clock.cancel(frame);
  };
}
