/**
 * The budget meter: a bar, the figures, and a warning in words.
 *
 * All counts come from the kernel in one trait. A change of level is spoken; figures that move are not.
 */
import type { AnyModel, RenderProps } from "@anywidget/types";
import { make, say } from "../parts/dom";
import { dress } from "../shadow";

interface Seen {
  name: string;
  month: string;
  spent: number;
  held: number;
  limit: number | null;
  left: number | null;
  running: number;
  projected: number;
  rate: number;
  level: "ok" | "warn" | "over";
  warning: string;
  session_spent: number;
  session_limit: number | null;
  session_held: number;
  tightest: "month" | "session";
  free: number | null;
}

const MARKS = { ok: "", warn: "▲ ", over: "■ " };
const count = (value: number) => Math.round(value).toLocaleString("en-US");
const tokens = (value: number) => `${count(value)} ${value === 1 ? "token" : "tokens"}`;

/** What the trait holds, or nothing when it is not what it should be. */
export function read(raw: unknown): Seen | null {
  try {
    const seen = JSON.parse(String(raw)) as Seen;
    return typeof seen.spent === "number" && typeof seen.held === "number" ? seen : null;
  } catch {
    return null;
  }
}

/** The limit that leaves the least, with what is spent, held and left of it. */
export function bound(seen: Seen): { limit: number | null; spent: number; held: number; free: number | null } {
  return seen.tightest === "session"
    ? { limit: seen.session_limit, spent: seen.session_spent, held: seen.session_held, free: seen.free }
    : { limit: seen.limit, spent: seen.spent, held: seen.held, free: seen.left };
}

/** The figures in the order they are shown: name, value, what it means. */
export function figures(seen: Seen): [string, string, string][] {
  const rows: [string, string, string][] = [
    ["spent", tokens(seen.spent), "since the 1st (UTC)"],
    ["held", tokens(seen.held), seen.running === 1 ? "by 1 request" : `by ${count(seen.running)} requests`],
  ];
  const { limit: most, free } = bound(seen);
  if (most !== null || free !== null) {
    const of = most === null ? "" : seen.tightest === "session" ? `of this session’s ${count(most)}` : `of ${count(most)}`;
    rows.push(["left", tokens(free ?? 0), of]);
  } else rows.push(["left", "no limit", "%acs budget sets one"]);
  rows.push(["rate", `${count(seen.rate)} / min`, "tokens, over the last 20 s"]);
  rows.push(["month’s end", tokens(seen.projected), "at the month’s pace"]);
  const limit = seen.session_limit === null ? "no limit" : `of ${count(seen.session_limit)}`;
  rows.push(["this session", tokens(seen.session_spent), limit]);
  return rows;
}

/** Widths of the spent and the held part of the bar, in percent of the limit; without one there is nothing to fill. */
export function shares(seen: Seen): [number, number] | null {
  const { limit: whole, ...of } = bound(seen);
  if (whole === null) return null;
  const spent = Math.min(1, of.spent / Math.max(1, whole));
  return [spent * 100, Math.min(1 - spent, of.held / Math.max(1, whole)) * 100];
}

class View {
  readonly element = make("section", "acs-budget");
  readonly #head = make("div", "acs-budget-head");
  readonly #name = make("span", "acs-budget-name");
  readonly #warning = make("span", "acs-budget-warning");
  readonly #bar = make("div", "acs-budget-bar");
  readonly #spent = make("span", "acs-budget-spent");
  readonly #held = make("span", "acs-budget-held");
  readonly #list = make("dl", "acs-budget-figures");
  readonly #spoken = make("span", "acs-budget-hidden");

  constructor() {
    this.element.setAttribute("aria-label", "Token budget");
    this.#bar.setAttribute("role", "meter");
    this.#bar.setAttribute("aria-valuemin", "0");
    this.#bar.tabIndex = 0;
    this.#spoken.setAttribute("role", "status");
    this.#bar.append(this.#spent, this.#held);
    this.#head.append(this.#name, this.#warning);
    this.element.append(this.#head, this.#bar, this.#list, this.#spoken);
  }

  update(seen: Seen): void {
    this.element.dataset.level = seen.level;
    say(this.#name, `Tokens of ${seen.name}, ${seen.month}`);
    say(this.#warning, seen.warning === "" ? "" : MARKS[seen.level] + seen.warning);
    const parts = shares(seen);
    this.#bar.hidden = parts === null;
    if (parts !== null) {
      this.#spent.style.width = `${parts[0]}%`;
      this.#held.style.width = `${parts[1]}%`;
      this.#describe(seen);
    }
    figures(seen).forEach(([name, value, more], index) => {
      const row = (this.#list.children[index] ?? this.#list.appendChild(figure())) as HTMLElement;
      const [term, shown] = row.children as unknown as [HTMLElement, HTMLElement];
      say(term, name);
      say(shown.firstElementChild as HTMLElement, value);
      say(shown.lastElementChild as HTMLElement, more);
    });
    say(this.#spoken, seen.level === "ok" ? "" : `Token budget: ${seen.warning}`);
  }

  #describe(seen: Seen): void {
    const { limit, spent, held, free } = bound(seen);
    const whole = limit ?? 0;
    const left = `${tokens(free ?? 0)} left of ${count(whole)}`;
    this.#bar.setAttribute("aria-valuemax", String(whole));
    this.#bar.setAttribute("aria-valuenow", String(Math.min(whole, spent + held)));
    this.#bar.setAttribute("aria-valuetext", `${tokens(spent)} spent, ${count(held)} held, ${left}`);
    this.#bar.setAttribute("aria-label", seen.tightest === "session" ? "Spent and held, of this session’s limit" : "Spent and held, of the limit");
  }
}

function figure(): HTMLElement {
  const row = make("div", "acs-budget-figure");
  const shown = make("dd", "");
  shown.append(make("b", ""), make("span", ""));
  row.append(make("dt", ""), shown);
  return row;
}

export default () => {
  const views = new Map<AnyModel, number>();
  const told = (model: AnyModel, more: number) => {
    const before = views.get(model) ?? 0;
    const now = before + more;
    views.set(model, now);
    if ((before === 0) === (now === 0)) return;
    try {
      model.send({ shown: now > 0 });
    } catch {
      // No kernel: there is nobody to tell.
    }
  };
  return {
    render({ model, el }: RenderProps) {
      dress(el);
      const view = new View();
      const paint = () => {
        const seen = read(model.get("seen"));
        if (seen !== null) view.update(seen);
      };
      paint();
      el.append(view.element);
      model.on("change:seen", paint);
      told(model, 1);
      return () => {
        model.off("change:seen", paint);
        view.element.remove();
        told(model, -1);
      };
    },
  };
};
