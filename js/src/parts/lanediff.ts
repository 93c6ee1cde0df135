/**
 * Where the text of one lane leaves that of another, and what each has there. It must not know the page.
 */
import type { NodeState } from "../state";
import { Parting } from "./parting";
import { count } from "./status";
import { quoted } from "./text";
import { brief } from "./views";

export class LaneDiff {
  readonly #parting = new Parting();
  /** UTF-16 units that both texts begin with, once that is settled and not none. */
  place: number | null = null;
  words = "";

  /** Bring it up to two texts that only grow; `complete`: nothing more comes to either. */
  update(reference: NodeState, here: NodeState, name: string, complete: boolean): void {
    this.place = this.#parting.next([reference.text, here.text], complete);
    this.words = this.#say(reference, here, name, complete);
  }

  #say(reference: NodeState, here: NodeState, name: string, complete: boolean): string {
    if (reference.text === "" || here.text === "") return "";
    const apart = reference.text.charCodeAt(0) !== here.text.charCodeAt(0);
    if (this.place === null && !apart) return complete ? `The same as ${name}.` : `As ${name} so far.`;
    const place = this.place ?? 0;
    const lead = place === 0 ? "From the start" : `As ${name} for ${characters(here.text.slice(0, place))}, then`;
    return `${lead} ${name} has ${tokenAt(reference, place)}, this ${tokenAt(here, place)}.`;
  }
}

/** The token that holds a place of a text, with its probability: `“·the” 45%`; `its end` behind the last one. */
export function tokenAt(node: NodeState, place: number): string {
  if (place >= node.text.length) return "its end";
  let end = 0;
  for (let i = 0; i < node.tokens.length; i++) {
    const token = node.tokens[i] ?? "";
    end += token.length;
    if (end <= place) continue;
    const logprob = node.logprobs[i];
    return `${quoted(token)}${logprob === null || logprob === undefined ? "" : ` ${brief("probability", Math.exp(logprob), null)}`}`;
  }
  return quoted(Array.from(node.text.slice(place, place + 24)).slice(0, 12).join(""));
}

function characters(text: string): string {
  const length = Array.from(text).length;
  return `${count(length)} ${length === 1 ? "character" : "characters"}`;
}
