/**
 * The live cell: a column a choice, a status line a run, branches beside what they left, one tooltip, one choice
 * of how texts are coloured.
 */
import { widget, type Branching, type Host } from "../host";
import { canLeave, type Acts } from "../parts/acts";
import { confirmCopies } from "../parts/copies";
import { choicesOf } from "../parts/choices";
import { describe } from "../parts/description";
import { make, say } from "../parts/dom";
import { Drafts } from "../parts/drafts";
import { Family } from "../parts/family";
import { inspect, type Looked } from "../parts/inspect";
import { branchName, rootOf, sourceOf } from "../parts/road";
import { RunView, type Around } from "../parts/run";
import { Tooltip } from "../parts/tooltip";
import { askedOf, echoed } from "../state";

/** Draws a host into an element until the signal says otherwise. */
function draw(host: Host, el: HTMLElement, signal: AbortSignal): void {
  const root = make("div", "acs");
  const tip = new Tooltip();
  const told = make("p", "acs-told");
  const line = make("span", "");
  const giveUp = make("button", "acs-quiet acs-act", "Stop");
  told.setAttribute("role", "status");
  told.hidden = true;
  giveUp.addEventListener("click", () => host.giveUp());
  told.append(line, " ");
  root.append(told, tip.element);
  el.append(root);

  const choices = choicesOf(host);
  const drafts = new Drafts();
  const views = new Map<string, RunView>();
  const families = new Map<string, Family>();
  const familyOf = (run: string) => families.get(rootOf(host.state, run));
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

  /** Edit a node's own text; what follows its `token`-th token is selected. */
  const edit = (id: string, token: number) => {
    const node = host.state.nodes[id];
    const section = node && views.get(node.run)?.sectionOf(id);
    if (node === undefined || section === undefined) return;
    const lead = echoed(host.state, node);
    const place = node.tokens.slice(0, token).join("").length - lead;
    const name = branchName(host.state, node.run);
    familyOf(node.run)?.show(node.run);
    drafts.open(id, node.text.slice(lead), Math.max(0, place), name, section, () => host.state, (text) => wish({ type: "Edit", node: id, text }));
  };

  // Another view of the same model does not jump to what was asked for here.
  let mine = false;
  const wish = (intent: Branching) => {
    mine = true;
    host.branch(intent);
  };

  let exact = false;
  const acts = ({ node: { id, run } }: Looked, done: () => void): Acts => ({
    greedy: host.state.runs[run]?.request["temperature"] === 0,
    get exact() {
      return exact;
    },
    set exact(on) {
      exact = on;
    },
    fork(token, text) {
      done();
      wish({ type: "Fork", node: id, token, text, exact });
    },
    resample(token) {
      done();
      wish({ type: "Resample", node: id, token, exact });
    },
    edit(token) {
      done();
      edit(id, token);
    },
  });
  const canBranch = host.option<boolean>("can_branch") === true;
  const inspection = {
    look,
    describe: (looked: Looked, done: (() => void) | null) => {
      const { node, piece, parts } = looked;
      const can = done !== null && canBranch && canLeave(host.state, looked);
      return describe(node, piece, askedOf(host.state.runs[node.run]), parts, can ? acts(looked, done) : null);
    },
    chosen: (element: HTMLElement, looked: Looked) => views.get(looked.node.run)?.choose(element, looked),
  };
  inspect(root, tip, inspection, signal);

  const around: Around = {
    choices,
    most: 2000,
    showPrompt: host.option<boolean>("show_prompt") === true,
    locate: canBranch ? (node) => wish({ type: "Locate", node }) : null,
    edit: canBranch ? (node) => edit(node, 0) : null,
    stop: (run) => host.stop(run),
    hide: (run) => familyOf(run)?.hide(run),
    go(run, node, token) {
      familyOf(run)?.show(run);
      views.get(run)?.goTo(node, token);
    },
  };

  const open = (run: string, fresh: boolean): RunView => {
    const view = new RunView(run, host.state, around, signal);
    const original = rootOf(host.state, run);
    let family = families.get(original);
    if (family === undefined) {
      families.set(original, (family = new Family(signal)));
      root.insertBefore(family.element, told);
    }
    views.set(run, view);
    family.add(host.state, view, fresh);
    return view;
  };

  let drawn = false;
  const paint = () => {
    for (const { id, nodes } of Object.values(host.state.runs)) {
      if (nodes.length === 0) continue; // its first node says whether it is a branch
      const view = views.get(id) ?? open(id, drawn);
      view.update(host.state, host.at, isUnsaved(id));
    }
    for (const family of families.values()) family.update(host.state);
    for (const view of views.values()) view.settle();
    for (const run of drafts.settle(host.state, host.refused)) familyOf(run)?.focus(run);
    drafts.place((node) => views.get(host.state.nodes[node]?.run ?? "")?.sectionOf(node));
    if (host.asking === "") giveUp.remove();
    else if (!giveUp.isConnected) told.append(giveUp);
    if (line.textContent !== host.told) {
      say(line, host.told);
      told.hidden = line.hidden;
      if (host.told !== "" && mine) told.scrollIntoView({ block: "nearest", inline: "nearest" });
    }
    drawn = true;
    // The static view beside a window hides while the window has something to show.
    root.classList.toggle("acs-live", views.size > 0);
  };

  // JupyterLab gives a page that was reloaded during a run, or a cell that was moved, no more of the cell's output: then
  // there is no copy, or not the last one.
  let lacks = false;
  const isUnsaved = (run: string) => {
    const area = el.closest(".jp-OutputArea");
    if (!lacks || area === null) return false;
    if (sourceOf(host.state, run) === null) return area.querySelector(".acs-static:not(.acs-part)") === null;
    return !host.running(run) && !host.settled.has(run);
  };

  let frame = 0;
  const soon = (fresh: boolean) => {
    if (fresh) {
      tip.hide();
      for (const family of families.values()) family.element.remove();
      families.clear();
      views.clear();
      drawn = false;
    }
    frame ||= requestAnimationFrame(() => {
      frame = 0;
      paint();
    });
  };
  paint();
  confirmCopies(host, el, signal, (yes) => {
    lacks = yes;
    paint();
  });
  const deaf = host.listen(soon);
  signal.addEventListener("abort", () => {
    deaf();
    cancelAnimationFrame(frame);
    tip.hide();
    root.remove();
  });
}

export default () => widget(draw);
