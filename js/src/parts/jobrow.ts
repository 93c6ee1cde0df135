/**
 * A row of the board: what the kernel tells of one job, and the elements that show it.
 */
import { make, say } from "./dom";
import { countdown, span } from "./jobtimes";

export interface Row {
  n: number;
  job?: string;
  request?: string;
  name: string;
  model: string;
  prompt: string;
  tag?: string;
  kind: "open" | "good" | "bad" | "doubt";
  state: string;
  words: string;
  since: number;
  ended?: number;
  expires?: number;
  preview?: string;
  cancel: boolean;
  read: boolean;
}

export const COLUMNS = ["State", "Job", "Age", "Expires", "Result", "Actions"];

export class RowView {
  readonly body = make("tbody", "acs-jobs-row");
  readonly cancel = make("button", "acs-jobs-do");
  readonly open = make("button", "acs-jobs-do");
  private readonly state = make("span", "acs-jobs-state");
  private readonly id = make("code", "acs-jobs-id");
  private readonly about = make("span", "acs-jobs-about");
  private readonly prompt = make("span", "acs-jobs-prompt");
  private readonly age = make("td", "acs-jobs-time");
  private readonly expires = make("td", "acs-jobs-time");
  private readonly words = make("span", "acs-jobs-words");
  private readonly preview = make("span", "acs-jobs-preview");
  private readonly copy = make("button", "acs-jobs-do", "Copy ids");
  private readonly line = make("tr", "");
  private readonly below = make("tr", "acs-jobs-below");
  readonly place = make("td", "");
  asked = "";
  shownJob: string | undefined;

  constructor(
    public row: Row,
    private readonly single: boolean,
    act: (view: RowView, what: "cancel" | "open" | "copy") => void,
  ) {
    const name = make("th", "acs-jobs-name");
    name.scope = "row";
    name.append(this.id, this.about, this.prompt);
    const state = make("td", "");
    state.append(this.state);
    const result = make("td", "acs-jobs-result");
    result.append(this.words, this.preview);
    const actions = make("td", "acs-jobs-actions");
    for (const [button, what] of [[this.cancel, "cancel"], [this.open, "open"], [this.copy, "copy"]] as const) {
      button.addEventListener("click", () => act(this, what));
      actions.append(button);
    }
    this.line.append(state, name, this.age, this.expires, result, actions);
    this.place.colSpan = COLUMNS.length;
    this.below.append(this.place);
    this.below.hidden = true;
    this.body.append(this.line, this.below);
  }

  update(row: Row, alive: boolean): void {
    if (row.state !== this.row.state || row.words !== this.row.words) this.asked = "";
    this.row = row;
    this.line.dataset["kind"] = row.kind;
    this.body.dataset["state"] = row.state;
    say(this.state, row.state);
    say(this.id, row.job ?? row.name);
    say(this.about, [row.model, row.tag && `tag ${row.tag}`].filter(Boolean).join(", "));
    say(this.prompt, row.prompt);
    say(this.words, row.words === row.state ? "" : row.words);
    say(this.preview, row.preview ?? "");
    this.buttons(alive);
  }

  buttons(alive: boolean): void {
    const name = this.row.job ?? this.row.name;
    for (const [button, word, asked] of [
      [this.cancel, "Cancel", "cancel"],
      [this.open, this.below.hidden ? "Open" : "Close", "open"],
    ] as const) {
      say(button, this.asked === asked ? `${word}: asked…` : word);
      button.setAttribute("aria-label", `${word} ${name}`);
      // Not `disabled`: that would take the focus away from whoever pressed it.
      button.setAttribute("aria-disabled", String(!alive || this.asked === asked));
    }
    this.cancel.hidden = !this.row.cancel;
    // A cell's own completion stays open: closed, the copy for pages without a kernel would take its place.
    this.open.hidden = !this.row.read || (this.single && this.revealed);
    this.preview.hidden = this.preview.textContent === "" || this.revealed;
    this.open.setAttribute("aria-expanded", String(!this.below.hidden));
    this.copy.setAttribute("aria-label", `Copy the ids of ${name}`);
  }

  tick(now: number): void {
    setText(this.age, span(now - this.row.since));
    const { text, near } = countdown(this.row.expires, this.row.kind === "open" || this.row.kind === "doubt", now);
    setText(this.expires, text);
    this.expires.classList.toggle("acs-jobs-near", near && text !== "");
  }

  reveal(shown: boolean): void {
    this.below.hidden = !shown;
  }

  get revealed(): boolean {
    return !this.below.hidden;
  }
}

function setText(cell: HTMLElement, text: string): void {
  if (cell.textContent !== text) cell.textContent = text;
}
