/**
 * The live cell: a column a choice, a status line a run, one tooltip, one choice of how texts are coloured.
 */
import type { AnyModel, InitializeProps, RenderProps } from "@anywidget/types";
import { connect, type Host } from "../host";
import { Choices, pageMemory } from "../parts/choices";
import { describe } from "../parts/description";
import { make } from "../parts/dom";
import { inspect, type Looked } from "../parts/inspect";
import { RunView } from "../parts/run";
import { Tooltip } from "../parts/tooltip";

/** A copy is written right after a run; how long to wait before saying that there is none. */
const COPY_WITHIN_MS = 1000;

/** Draws a host into an element until the signal says otherwise. */
function draw(host: Host, el: HTMLElement, signal: AbortSignal): void {
  const root = make("div", "acs");
  const tip = new Tooltip();
  root.append(tip.element);
  el.append(root);

  const choices = new Choices(pageMemory());
  const views = new Map<string, RunView>();
  choices.listen(() => {
    for (const view of views.values()) view.repaint();
  });
  const look = (element: HTMLElement): Looked | undefined => {
    for (const view of views.values()) {
      const looked = view.look(element);
      if (looked !== undefined) return looked;
    }
    return undefined;
  };
  const inspection = {
    look,
    describe: ({ node, piece, parts }: Looked) => describe(node, piece, asked(host, node.run), parts),
    chosen: (element: HTMLElement, looked: Looked) => views.get(looked.node.run)?.choose(element, looked),
  };
  inspect(root, tip, inspection, signal);

  const paint = () => {
    for (const run of Object.values(host.state.runs)) {
      let view = views.get(run.id);
      if (view === undefined) {
        view = new RunView(run.id, choices, host.option<boolean>("show_prompt") === true, () => host.stop(), signal);
        views.set(run.id, view);
        root.insertBefore(view.element, tip.element);
      }
      view.update(host.state, host.at, unsaved);
    }
    // The static view beside a window hides while the window has something to show.
    root.classList.toggle("acs-live", views.size > 0);
  };
  // JupyterLab gives a page that was reloaded during a run no more of the cell's output: then there is no copy.
  let unsaved = false;
  const lookForCopy = () => {
    const area = el.closest(".jp-OutputArea");
    unsaved = host.restored && !host.running() && area !== null && area.querySelector(".acs-static") === null;
    if (unsaved) paint();
  };
  const later = setInterval(() => {
    if (host.running()) return;
    clearInterval(later);
    setTimeout(lookForCopy, COPY_WITHIN_MS);
  }, COPY_WITHIN_MS);

  let frame = 0;
  const soon = (fresh: boolean) => {
    if (fresh) {
      tip.hide();
      for (const view of views.values()) view.element.remove();
      views.clear();
    }
    frame ||= requestAnimationFrame(() => {
      frame = 0;
      paint();
    });
  };
  paint();
  const deaf = host.listen(soon);
  signal.addEventListener("abort", () => {
    deaf();
    cancelAnimationFrame(frame);
    clearInterval(later);
    tip.hide();
    root.remove();
  });
}

function asked(host: Host, run: string): number | null {
  const value = host.state.runs[run]?.request["logprobs"];
  return typeof value === "number" ? value : null;
}

/** One host a model, made before its first message; any number of views. */
export default () => {
  let host: Host | undefined;
  const hostOf = (model: AnyModel) => (host ??= connect(model));
  return {
    initialize({ model }: InitializeProps) {
      const made = hostOf(model);
      return () => made.close();
    },
    render({ model, el }: RenderProps) {
      const ended = new AbortController();
      draw(hostOf(model), el, ended.signal);
      return () => ended.abort();
    },
  };
};
