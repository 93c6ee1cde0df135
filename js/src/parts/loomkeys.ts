/**
 * Which key does what in a loom. It must not know the page.
 *
 * Keys are named as the browser names them, with `Ctrl+` before (also for the Mac's command key); a capital letter is
 * its key with Shift. Of the keys with `Ctrl+` only undo and redo are the loom's, Jupyter has the others (`Ctrl+s` saves the
 * notebook). No key is with Alt: those belong to the system and to screen readers.
 */

/** What a command is, and its usual keys. */
export interface Command {
  name: string;
  about: string;
  keys: string[];
}

const of = (name: string, about: string, ...keys: string[]): Command => ({ name, about, keys });

export const COMMANDS: readonly Command[] = [
  of("up", "row before", "ArrowUp", "k"),
  of("down", "next row", "ArrowDown", "j"),
  of("parent", "to the parent", "ArrowLeft", "h"),
  of("child", "unfold; to the child looked at last", "ArrowRight", "l"),
  of("before", "sibling before", "["),
  of("after", "next sibling", "]"),
  of("first", "first row", "Home"),
  of("last", "last row", "End"),
  of("page up", "a page up", "PageUp"),
  of("page down", "a page down", "PageDown"),
  of("text", "into the text, token by token; Escape comes back", "Enter"),
  of("unread", "next unread node", "z"),
  ...Array.from({ length: 9 }, (_, i) => of(`grow ${i + 1}`, `grow ${i + 1}`, `${i + 1}`)),
  of("grow", "grow with other parameters", "g"),
  of("stop", "stop this one, or all that comes below it", "."),
  of("stop all", "stop everything", ">"),
  of("edit", "edit: a sibling with another text", "e"),
  of("sibling", "write a sibling", "i"),
  of("write", "write a child", "c"),
  of("root", "write a new root", "w"),
  of("split", "split at a token", "s"),
  of("merge", "merge with the parent", "m"),
  of("delete", "delete, with all below", "Delete"),
  of("undo", "undo", "u", "Ctrl+z"),
  of("redo", "redo", "r", "Ctrl+Shift+z"),
  of("move up", "one place up among siblings", "K", "Shift+ArrowUp"),
  of("move down", "one place down among siblings", "J", "Shift+ArrowDown"),
  of("take", "take, to put it elsewhere", "x"),
  of("put", "put what was taken below this", "v"),
  of("put root", "put what was taken as a root", "V"),
  of("fold", "fold or unfold", "f"),
  of("hoist", "show this as the root", "o"),
  of("unhoist", "show what is around it again", "O"),
  of("bookmark", "bookmark", "b"),
  of("tag", "tags", "t"),
  of("note", "note", "n"),
  of("rate up", "rate one more", "+"),
  of("rate down", "rate one less", "-"),
  of("mark unread", "read or unread", "!"),
  of("light", "light up, or not", " "),
  of("search", "search; Escape in the tree ends it", "/"),
  of("next found", "next found or lit node", "}"),
  of("previous found", "found or lit node before", "{"),
  of("trie", "where the samples below part", "T"),
  of("diff", "compare with a lit node or a sibling", "D"),
  of("map", "multiverse map: what may follow", "M"),
  of("graph", "show the graph, or put it away", "G"),
  of("copy", "copy the text to here", "y"),
  of("store", "keep in a file", "S"),
  of("help", "this sheet", "?"),
];

/** Commands of the graph, which come first while it has the focus; left and right are those of the tree. */
export const GRAPH_COMMANDS: readonly Command[] = [
  of("graph up", "in the graph: node above, of the same depth", "ArrowUp", "k"),
  of("graph down", "in the graph: node below, of the same depth", "ArrowDown", "j"),
  of("zoom in", "in the graph: nearer", "+", "="),
  of("zoom out", "in the graph: further away", "-"),
  of("zoom fit", "in the graph: all of it", "0"),
];
const ALL = [...COMMANDS, ...GRAPH_COMMANDS];

export class Keys {
  readonly #names = new Map<string, string>();
  readonly #graph = new Map<string, string>();
  readonly #keys = new Map<string, string[]>();
  /** What could not be read of what was given, in lines. */
  readonly problems: string[] = [];

  /** `other`: command to key, for those that are not as usual; several keys with a blank between; "" for none. */
  constructor(other: Readonly<Record<string, string>> = {}) {
    for (const name of Object.keys(other)) {
      if (!ALL.some((command) => command.name === name)) this.problems.push(`“${name}” is no command of a loom.`);
    }
    for (const [commands, names] of [[COMMANDS, this.#names], [GRAPH_COMMANDS, this.#graph]] as const) {
      const given = commands.filter(({ name }) => Object.hasOwn(other, name));
      for (const { name } of given) this.#set(names, name, this.#read(other[name] ?? ""));
      for (const { name, keys } of commands) {
        if (!Object.hasOwn(other, name)) this.#set(names, name, keys.filter((key) => !names.has(key)));
      }
    }
  }

  /** The command of a key, if it has one; `graph`: the graph has the focus. */
  command(key: string, graph = false): string | undefined {
    return (graph ? this.#graph.get(key) : undefined) ?? this.#names.get(key);
  }

  /** The keys of a command. */
  of(name: string): string[] {
    return this.#keys.get(name) ?? [];
  }

  /** A command's first key for people; its name where it has none. */
  word(name: string): string {
    const [key] = this.of(name);
    return key === undefined ? `“${name}”` : keyWords(key);
  }

  #read(text: string): string[] {
    const keys = text === " " ? [" "] : text.split(" ").filter((key) => key !== "").map((key) => (key === "Space" ? " " : key));
    return keys.filter((key) => {
      const alt = /^Alt\+/i.test(key);
      if (alt) this.problems.push(`“${key}” is with Alt, which belongs to the system.`);
      return !alt;
    });
  }

  #set(names: Map<string, string>, name: string, keys: string[]): void {
    for (const key of keys) names.set(key, name);
    this.#keys.set(name, keys);
  }
}

/** A key event's name, `""` for what a loom leaves alone. */
export function keyName(event: Pick<KeyboardEvent, "key" | "ctrlKey" | "metaKey" | "altKey" | "shiftKey">): string {
  if (event.altKey || ["Control", "Shift", "Meta", "Alt", "Tab", "Dead", "Unidentified"].includes(event.key)) return "";
  const letter = event.key.length === 1;
  const ctrl = event.ctrlKey || event.metaKey;
  const key = ctrl && letter ? event.key.toLowerCase() : event.key;
  return `${ctrl ? "Ctrl+" : ""}${event.shiftKey && (ctrl || !letter) ? "Shift+" : ""}${key}`;
}

/** A key for people. */
export function keyWords(key: string): string {
  const names: Record<string, string> = { ArrowUp: "↑", ArrowDown: "↓", ArrowLeft: "←", ArrowRight: "→", " ": "Space", Delete: "Del" };
  return key.split(/(?<=[a-z])\+/).map((part) => names[part] ?? part).join("+");
}
