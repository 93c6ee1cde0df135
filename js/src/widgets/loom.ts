/**
 * The loom: a window on a whole session as a tree, see `parts/loomview.ts`.
 */
import { LOST, widget } from "../host";
import { outlined } from "../outline";
import { LoomView } from "../parts/loomview";
import { mount } from "../parts/mounting";

export default () =>
  widget((host, el, signal) => {
    const loom = new LoomView(host, signal);
    const deaf = host.hear((word) => word.refused?.message === LOST && loom.say(LOST));
    signal.addEventListener("abort", deaf);
    mount(loom, host, el, signal, true);
    // The session is no part of the window's own state: a page asks for it, unless it came by itself.
    if (Object.keys(host.state.runs).length === 0) host.send({ type: "Resync", seen: 0 });
  }, outlined);
