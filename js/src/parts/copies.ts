/**
 * Tells the kernel that this page's notebook has the copy that was sent last: until then the kernel keeps the text itself.
 *
 * It must not know what a copy shows. A page that opens says that it is there, by a word without a name.
 */
import type { Host } from "../host";

const LOOK_EVERY_MS = 300;

/** Looks until a copy counts as missing: it is drawn a moment after it was announced. */
const LOOKS = 4;

/** `lacks` is told when the page has waited for the last copy in vain, and when it has it after all. */
export function confirmCopies(host: Host, el: HTMLElement, signal: AbortSignal, lacks?: (yes: boolean) => void): void {
  let said: string | undefined;
  let looks = 0;
  const look = () => {
    const copy = host.option<string>("copy") ?? "";
    if (copy === said) return;
    // A cell out of sight may be taken off the page with all its outputs: then its own tree is looked through.
    if (copy !== "" && (el.getRootNode() as ParentNode).querySelector(`.acs-copy-${copy}`) === null) {
      if (++looks === LOOKS) lacks?.(true);
      if (said !== undefined) return;
      host.send({ type: "Confirm", copy: (said = "") });
    } else {
      if (looks >= LOOKS) lacks?.(false);
      looks = 0;
      host.send({ type: "Confirm", copy: (said = copy) });
    }
  };
  look();
  const clock = setInterval(look, LOOK_EVERY_MS);
  signal.addEventListener("abort", () => clearInterval(clock));
}
