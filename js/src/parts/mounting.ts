/**
 * A view that is drawn anew at most once a frame, from when it stands in the page until it leaves it.
 */
import type { Host } from "../host";

export interface Drawn {
  readonly element: HTMLElement;
  /** `fresh`: the state is another one, and what was drawn from the old one no longer holds. */
  update(fresh: boolean): void;
}

/** `once`: it is drawn once more, as from another state, when it has a size. */
export function mount(view: Drawn, host: Host, el: HTMLElement, signal: AbortSignal, once = false): void {
  el.append(view.element);
  let frame = 0;
  let fresh = once;
  const soon = (other: boolean) => {
    fresh ||= other;
    frame ||= requestAnimationFrame(() => {
      frame = 0;
      view.update(fresh);
      fresh = false;
    });
  };
  const deaf = host.listen(soon);
  if (once) soon(true);
  signal.addEventListener("abort", () => {
    deaf();
    cancelAnimationFrame(frame);
    view.element.remove();
  });
}
