/**
 * A view that is drawn anew at most once a frame, from when it stands in the page until it leaves it.
 */
import type { Host } from "../host";

export interface Drawn {
  readonly element: HTMLElement;
  /** `fresh`: the state is another one, and what was drawn from the old one no longer holds. */
  update(fresh: boolean): void;
}

export function mount(view: Drawn, host: Host, el: HTMLElement, signal: AbortSignal): void {
  el.append(view.element);
  let frame = 0;
  let fresh = false;
  const deaf = host.listen((other) => {
    fresh ||= other;
    frame ||= requestAnimationFrame(() => {
      frame = 0;
      view.update(fresh);
      fresh = false;
    });
  });
  signal.addEventListener("abort", () => {
    deaf();
    cancelAnimationFrame(frame);
    view.element.remove();
  });
}
