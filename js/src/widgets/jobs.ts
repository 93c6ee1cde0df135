/**
 * The window on jobs: a row a job, what can be done with it, and the completions that are open.
 *
 * All rows come as one text when something has changed; ages and countdowns are counted here. Nothing is asked of a
 * server from here: every window shows what the one poller in the kernel knows.
 */
import type { AnyModel, RenderProps } from "@anywidget/types";
import { deliveryOf } from "../delivery";
import { make, say } from "../parts/dom";
import { COLUMNS, type Row, RowView } from "../parts/jobrow";
import { dress } from "../shadow";

export type { Row } from "../parts/jobrow";

interface View {
  el: HTMLElement;
  remove?: () => void;
}

interface Manager {
  get_model(id: string): Promise<unknown>;
  create_view(model: unknown): Promise<View>;
}

interface Kernel {
  isDisposed?: boolean;
  status?: string;
}

/** How long a button that asks the kernel stays asked for, when nothing comes of it. */
const ASKED_MS = 10_000;

/** The rows in a text; none when it cannot be read. */
export function parse(text: unknown): Row[] {
  try {
    const rows: unknown = JSON.parse(String(text));
    return Array.isArray(rows) ? (rows as Row[]) : [];
  } catch {
    return [];
  }
}

/** How many jobs stand how, in words. */
export function summary(rows: Row[]): string {
  if (rows.length === 0) return "No completion jobs yet: %%acs --job submits one.";
  const counts = new Map<string, number>();
  for (const row of rows) counts.set(row.state, (counts.get(row.state) ?? 0) + 1);
  const told = [...counts].map(([state, count]) => `${count} ${state}`).join(", ");
  return `${rows.length} completion ${rows.length === 1 ? "job" : "jobs"}: ${told}`;
}

/** What to quote in a bug report. */
export function quote(row: Row): string {
  const parts = [row.name, row.request && `request ${row.request}`, `model ${row.model}`, row.words];
  return parts.filter((part) => part).join(", ");
}

function draw(model: AnyModel, el: HTMLElement, signal: AbortSignal): void {
  const single = model.get("single") === true;
  const root = make("div", "acs-jobs");
  const table = make("table", "acs-jobs-table");
  const caption = make("caption", single ? "acs-jobs-heard" : "acs-jobs-caption");
  const note = make("p", "acs-jobs-note");
  const heard = make("div", "acs-jobs-heard");
  heard.setAttribute("role", "status");
  note.hidden = true;
  const head = make("thead", "");
  const names = make("tr", "");
  for (const column of COLUMNS) {
    const name = make("th", "", column);
    name.scope = "col";
    names.append(name);
  }
  head.append(names);
  table.append(caption, head);
  root.append(table, note, heard);
  el.append(root);

  const views = new Map<number, RowView>();
  let alive = true;
  let first = true;

  const delivery = deliveryOf(model, signal);
  const send = (intent: { type: "CancelJob" | "OpenJob"; job: string }) => {
    if (!delivery.deliver(intent)) lost();
  };

  const act = (view: RowView, what: "cancel" | "open" | "copy") => {
    const { job } = view.row;
    if (what === "copy") return void copy(quote(view.row), (told) => (heard.textContent = told));
    if (!alive || job === undefined || view.asked === what) return;
    if (what === "open" && view.shownJob !== undefined) {
      view.reveal(!view.revealed);
      return view.buttons(alive);
    }
    view.asked = what;
    view.buttons(alive);
    setTimeout(() => {
      view.asked = "";
      view.buttons(alive);
    }, ASKED_MS);
    send({ type: what === "cancel" ? "CancelJob" : "OpenJob", job });
    if (what === "open") wanted.add(job);
  };
  const wanted = new Set<string>();

  const paint = () => {
    const rows = parse(model.get("rows"));
    say(caption, summary(rows));
    head.hidden = rows.length === 0;
    const seen = new Set<number>();
    const told: string[] = [];
    let after: Element = head;
    for (const row of rows) {
      seen.add(row.n);
      let view = views.get(row.n);
      if (view === undefined) {
        view = new RowView(row, single, act);
        views.set(row.n, view);
        if (!first) told.push(`${row.name}: ${row.state}`);
      } else if (view.row.state !== row.state) told.push(`${row.name}: ${row.words}`);
      view.update(row, alive);
      if (after.nextElementSibling !== view.body) after.after(view.body);
      after = view.body;
    }
    for (const [n, view] of views) {
      if (seen.has(n)) continue;
      view.body.remove();
      views.delete(n);
    }
    if (told.length > 0) heard.textContent = told.join(". ");
    first = false;
    tick();
  };

  const tick = () => {
    const now = Date.now() / 1000;
    for (const view of views.values()) view.tick(now);
  };

  /** Completions the kernel opened: each is a live cell of its own, put below its row. */
  const paintOpened = () => {
    let opened: Record<string, string> = {};
    try {
      opened = JSON.parse(String(model.get("opened"))) as Record<string, string>;
    } catch {
      return;
    }
    for (const view of views.values()) {
      const { job } = view.row;
      const id = job === undefined ? undefined : opened[job];
      // A board that others look at too shows only what was asked for here.
      if (job === undefined || id === undefined || view.shownJob === id) continue;
      if (!single && !wanted.has(job)) continue;
      view.shownJob = id;
      void embed(model, id, view.place, signal).then((shown) => {
        view.asked = "";
        view.reveal(true);
        if (!shown) {
          view.shownJob = undefined;
          view.place.textContent = `This page cannot show it here: %acs jobs ${job} does.`;
        }
        view.buttons(alive);
      });
    }
  };

  const lost = () => {
    if (!alive) return;
    alive = false;
    delivery.end();
    say(note, "The kernel is gone: this is how the jobs stood. They go on without it; %acs jobs finds them again.");
    for (const view of views.values()) view.buttons(alive);
  };

  const changed = () => {
    paint();
    paintOpened();
  };
  model.on("change:rows", changed);
  model.on("change:opened", paintOpened);
  model.on("comm_live_update", lost);
  changed();
  const clock = setInterval(() => {
    if (isGone(model)) lost();
    if (root.isConnected && !document.hidden) tick();
  }, 1000);
  signal.addEventListener("abort", () => {
    clearInterval(clock);
    model.off("change:rows", changed);
    model.off("change:opened", paintOpened);
    model.off("comm_live_update", lost);
    root.remove();
  });
}

/** Whether the page knows that there is no kernel any more: it was shut down or died, and no comm says so. */
function isGone(model: AnyModel): boolean {
  const manager = model.widget_manager as { kernel?: Kernel | null } | undefined;
  if (manager === undefined || !("kernel" in manager)) return false;
  const { kernel } = manager;
  return kernel === null || kernel === undefined || kernel.isDisposed === true || kernel.status === "dead";
}

async function embed(model: AnyModel, id: string, place: HTMLElement, signal: AbortSignal): Promise<boolean> {
  const manager = model.widget_manager as Partial<Manager> | undefined;
  if (manager?.get_model === undefined || manager.create_view === undefined) return false;
  try {
    const view = await manager.create_view(await manager.get_model(id));
    place.replaceChildren(view.el);
    signal.addEventListener("abort", () => view.remove?.());
    return true;
  } catch {
    return false;
  }
}

async function copy(text: string, tell: (told: string) => void): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    tell("Copied.");
  } catch {
    const field = make("textarea", "acs-jobs-heard");
    field.value = text;
    document.body.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    tell(done ? "Copied." : `Copying is not possible here: ${text}`);
  }
}

export default {
  render({ model, el }: RenderProps) {
    dress(el);
    const ended = new AbortController();
    draw(model, el, ended.signal);
    return () => ended.abort();
  },
};
