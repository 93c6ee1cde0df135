/**
 * The workbench: a prompt and its parameters, Run and Continue, what came of it, and the way back to everything before.
 */
import { LOST, widget, type Fields, type Host, type Word } from "../host";
import { confirmCopies } from "../parts/copies";
import { make, say } from "../parts/dom";
import { mount } from "../parts/mounting";
import { Form } from "../parts/form";
import type { Field } from "../parts/fields";
import { History, promptOf, runsAlready, type Draft } from "../parts/history";
import { PromptBox } from "../parts/promptbox";
import { fieldsOf } from "../parts/requestfields";
import { Stage } from "../parts/stage";
import { copyText, saveFile } from "../parts/takeaway";
import { textTo, type RunState } from "../state";

const KEEP_AFTER_MS = 300;
const BUSY_AFTER_MS = 1000;
const TWICE = "The same is running already: stop it first, change something, or ask for several at once with n.";
const BUSY = "The kernel is busy; it runs as soon as the kernel is free.";

class Bench {
  readonly element = make("section", "acs acs-live acs-bench");
  readonly #box = new PromptBox(() => this.#edited());
  readonly #form: Form;
  readonly #stage: Stage;
  readonly #history = new History((id) => this.#restoreRun(id), (draft) => this.#restore(draft.prompt, draft.fields));
  readonly #run = button("acs-run-button", "Run", "Send the prompt (Ctrl+Enter)");
  readonly #go = button("", "Continue", "Take the result into the prompt and go on at its end");
  readonly #which = make("select", "");
  readonly #take = make("div", "acs-bench-take");
  readonly #refusal = make("p", "acs-error");
  readonly #notice = make("p", "acs-notice");
  /** What the host said last of a Stop. */
  #told = "";
  #shown: string | null = null;
  #known = 0;
  #keeping: ReturnType<typeof setTimeout> | undefined;
  #waiting: ReturnType<typeof setTimeout> | undefined;

  constructor(
    readonly host: Host,
    signal: AbortSignal,
  ) {
    this.element.setAttribute("aria-label", "Workbench");
    this.#form = new Form(host.option<Field[]>("form") ?? [], () => this.#edited());
    this.#stage = new Stage(host, this.element, signal, (run) => {
      this.#shown = run;
      this.update(false);
    });
    this.#refusal.hidden = this.#notice.hidden = this.#which.hidden = true;
    this.#refusal.setAttribute("role", "alert");
    this.#notice.setAttribute("role", "status");
    this.#which.setAttribute("aria-label", "Which continuation to continue, copy or save");
    const acts = make("div", "acs-bench-acts");
    acts.append(this.#run, this.#go, this.#which);
    this.#take.append(
      this.#taker("Copy", "Copy prompt and continuation", () => this.#copy()),
      this.#taker("Save text", "Save prompt and continuation as a text file of this browser", () => saveFile(`${stamp()}.txt`, this.#whole())),
      this.#taker("Save JSONL", "Save everything that was run, as a session log of this browser", () => this.#ask({ type: "Export" })),
    );
    const result = make("section", "acs-bench-result");
    result.setAttribute("aria-label", "Result");
    result.append(this.#stage.element, this.#take);
    this.element.prepend(this.#box.element, this.#form.element, acts, this.#refusal, this.#notice, result, this.#history.element);
    this.#run.addEventListener("click", () => this.#send());
    this.#go.addEventListener("click", () => this.#continue());
    this.element.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      event.stopPropagation();
      this.#send();
    });
    // JupyterLab refuses line breaks in any box inside a cell, by a listener on the box itself: it must not hear of them.
    this.element.addEventListener("beforeinput", (event) => event.stopPropagation(), { capture: true });
    const ends = [host.hear((word) => this.#heard(word)), host.watch("draft", () => this.#adopt()), host.watch("kept", () => this.update(false))];
    signal.addEventListener("abort", () => {
      for (const end of ends) end();
      this.#flush();
    });
    this.#adopt();
    this.update(false);
  }

  /** Bring everything up to the state; a run that is new is shown. */
  update(fresh: boolean): void {
    const runs = Object.values(this.host.state.runs);
    if (fresh) this.#history.clear();
    if (runs.length !== this.#known) this.#shown = runs.at(-1)?.id ?? null;
    this.#known = runs.length;
    this.#stage.show(this.#shown, fresh);
    this.#history.update(this.host.state, this.host.option<Draft[]>("kept") ?? [], this.#shown);
    const run = this.#shownRun();
    const ready = run !== undefined && run.outcome !== "open";
    able(this.#go, ready);
    this.#take.hidden = run === undefined;
    this.#offer(run);
    const { told } = this.host;
    if (told !== this.#told) say(this.#notice, (this.#told = told));
    else if (this.#notice.textContent === TWICE && !this.host.running()) say(this.#notice, "");
  }

  #shownRun(): RunState | undefined {
    return this.#shown === null ? undefined : this.host.state.runs[this.#shown];
  }

  /** The node that is chosen among those of the run shown. */
  #node(): string | undefined {
    const nodes = this.#shownRun()?.nodes ?? [];
    return nodes.length > 1 ? this.#which.value : nodes[0];
  }

  #offer(run: RunState | undefined): void {
    const nodes = run?.nodes ?? [];
    this.#which.hidden = nodes.length < 2;
    if (this.#which.dataset["run"] === run?.id && this.#which.length === nodes.length) return;
    this.#which.dataset["run"] = run?.id ?? "";
    this.#which.replaceChildren();
    nodes.forEach((id, place) => {
      const option = make("option", "", `continuation ${place + 1} of ${nodes.length}`);
      option.value = id;
      this.#which.append(option);
    });
  }

  #send(): void {
    if (!this.#sendable() || this.#box.problem !== "") return;
    const [prompt, fields] = [this.#box.text, this.#form.values];
    // A key pressed twice must not be paid twice.
    if (runsAlready(this.host.state, prompt, fields)) return say(this.#notice, TWICE);
    this.#ask({ type: "Run", prompt, fields });
  }

  #continue(): void {
    const node = this.#node();
    if (node === undefined || this.#go.getAttribute("aria-disabled") === "true" || !this.#sendable()) return;
    this.#putAside();
    this.#box.put(textTo(this.host.state, node));
    this.#box.area.scrollTop = this.#box.area.scrollHeight; // where it goes on
    this.#edited();
    this.#ask({ type: "Continue", node, fields: this.#form.values });
  }

  #sendable(): boolean {
    say(this.#refusal, "");
    return this.#waiting === undefined && this.#form.check(true);
  }

  #ask(intent: Parameters<Host["send"]>[0]): void {
    this.#flush();
    say(this.#notice, "");
    if (!this.host.send(intent)) return say(this.#refusal, LOST);
    if (intent.type === "Export") return;
    able(this.#run, false);
    this.#waiting = setTimeout(() => say(this.#notice, BUSY), BUSY_AFTER_MS);
  }

  #heard(word: Word): void {
    if (word.export !== undefined) return saveFile(word.export.name, word.export.text);
    clearTimeout(this.#waiting);
    this.#waiting = undefined;
    able(this.#run, true);
    if (this.#notice.textContent === BUSY) say(this.#notice, "");
    if (word.refused === undefined) return;
    const { field, message } = word.refused;
    if (field === "prompt") this.#box.say(message);
    else if (field === null || !this.#form.say(field, message)) say(this.#refusal, message);
  }

  #restoreRun(id: string): void {
    const run = this.host.state.runs[id];
    if (run === undefined) return;
    this.#shown = id;
    const prompt = promptOf(this.host.state, run);
    if (prompt === null) say(this.#notice, "Its prompt was token ids; only its result is shown.");
    else this.#restore(prompt, fieldsOf(run.request));
    this.update(false);
  }

  #restore(prompt: string, fields: Fields): void {
    this.#putAside();
    this.#box.put(prompt);
    this.#form.put(fields);
    this.#edited();
  }

  /** What is in the form gives way: keep it, unless a run or a draft has it already. */
  #putAside(): void {
    const prompt = this.#box.text;
    const kept = this.host.option<Draft[]>("kept") ?? [];
    const runs = Object.values(this.host.state.runs);
    if (prompt === "" || this.#box.problem !== "" || kept.some((draft) => draft.prompt === prompt)) return;
    if (runs.some((run) => promptOf(this.host.state, run) === prompt)) return;
    this.host.send({ type: "Keep", prompt, fields: this.#form.values });
  }

  #whole(): string {
    const node = this.#node();
    return node === undefined ? this.#box.text : textTo(this.host.state, node);
  }

  async #copy(): Promise<void> {
    const done = await copyText(this.#whole());
    say(this.#notice, done ? "Copied." : "This page may not write to the clipboard; select the text instead.");
  }

  #taker(words: string, about: string, act: () => unknown): HTMLButtonElement {
    const made = button("acs-quiet", words, about);
    made.addEventListener("click", () => void act());
    return made;
  }

  #edited(): void {
    clearTimeout(this.#keeping);
    this.#keeping = setTimeout(() => this.#flush(), KEEP_AFTER_MS);
  }

  /** Let the kernel keep what stands in the form, for a reload. */
  #flush(): void {
    if (this.#keeping === undefined) return;
    clearTimeout(this.#keeping);
    this.#keeping = undefined;
    if (this.#box.problem === "") this.host.keep("draft", { prompt: this.#box.text, fields: this.#form.values });
  }

  /** The draft was changed elsewhere, in another view or by the kernel; whoever types here goes before it. */
  #adopt(): void {
    const draft = this.host.option<Partial<Draft>>("draft") ?? {};
    if (this.#keeping !== undefined || this.element.contains(document.activeElement)) return;
    this.#box.put(draft.prompt ?? "");
    this.#form.put(draft.fields ?? {});
  }
}

function button(name: string, words: string, about: string): HTMLButtonElement {
  const made = make("button", name, words);
  made.title = about;
  return made;
}

function able(made: HTMLButtonElement, yes: boolean): void {
  made.setAttribute("aria-disabled", String(!yes));
}

function stamp(): string {
  return `workbench-${new Date().toISOString().slice(0, 19).replace(/[-:]/g, "").replace("T", "-")}`;
}

export default () =>
  widget((host, el, signal) => {
    mount(new Bench(host, signal), host, el, signal);
    confirmCopies(host, el, signal);
  });
