/**
 * Tells the kernel that this page's notebook has the copy that was sent last: until then the kernel keeps the text itself.
 *
 * It must not know what a copy shows. A page that opens says that it is there, by a word without a name.
 */
import type { Host } from "../host";

const LOOK_EVERY_MS = 300;

/** Whether the page has the copy that was sent last. */
export function hasCopy(host: Host, el: HTMLElement): boolean {
  const copy = host.option<string>("copy") ?? "";
  // A cell out of sight may be taken off the page with all its outputs: then its own tree is looked through.
  return copy === "" || (el.getRootNode() as ParentNode).querySelector(`.acs-copy-${copy}`) !== null;
}

export function confirmCopies(host: Host, el: HTMLElement, signal: AbortSignal): void {
  let said: string | undefined;
  const look = () => {
    const copy = host.option<string>("copy") ?? "";
    if (copy === said) return;
    if (!hasCopy(host, el)) {
      if (said !== undefined) return;
      host.send({ type: "Confirm", copy: (said = "") });
    } else host.send({ type: "Confirm", copy: (said = copy) });
  };
  look();
  const clock = setInterval(look, LOOK_EVERY_MS);
  signal.addEventListener("abort", () => clearInterval(clock));
}
