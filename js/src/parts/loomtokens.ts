/**
 * Tokens of a loom's texts: what is told of one, and what a reader can do there.
 */
import type { Branching } from "../host";
import { askedOf, type NodeState, type State } from "../state";
import { canLeave, type Acts } from "./acts";
import { describe } from "./description";
import type { Inspection, Looked } from "./inspect";

export interface TokenDesk {
  readonly state: State;
  readonly frozen: boolean;
  look(element: HTMLElement): Looked | undefined;
  /** A token was looked at: its text stays where it is. */
  hold(node: string): void;
  branch(intent: Branching): void;
  edit(node: string): void;
}

export function inspection(desk: TokenDesk): Inspection {
  let exact = false;
  const acts = ({ id, run }: NodeState, done: () => void): Acts => ({
    greedy: desk.state.runs[run]?.request["temperature"] === 0,
    get exact() {
      return exact;
    },
    set exact(on) {
      exact = on;
    },
    fork(token, text) {
      done();
      desk.branch({ type: "Fork", node: id, token, text, exact });
    },
    resample(token) {
      done();
      desk.branch({ type: "Resample", node: id, token, exact });
    },
    edit() {
      done();
      desk.edit(id);
    },
  });
  return {
    look: (element) => desk.look(element),
    describe(looked, done) {
      const { node, piece, parts } = looked;
      const can = done !== null && !desk.frozen && canLeave(desk.state, looked);
      return describe(node, piece, askedOf(desk.state.runs[node.run]), parts, can ? acts(node, done) : null);
    },
    chosen: (_, { node }) => desk.hold(node.id),
  };
}
