/**
 * Which run is in which lane: what the session's mark says, and what a round shows. The mirror of what
 * `acs_jupyter/comparing/rounds.py` writes. It must not know the page.
 */
import { markOf } from "../revise";
import type { State } from "../state";
import { clock } from "./history";

export interface Round {
  number: number;
  /** The lanes that were run in it. */
  lanes: number[];
  /** Seconds since the epoch. */
  at: number;
}

/** Lane and round of each run, and the lane's name when it was run. */
type Places = Record<string, [number, number, string?]>;

function placesIn(state: State): Places {
  const meta = markOf(state, "", "meta") as { compare?: { runs?: Places } } | undefined;
  return meta?.compare?.runs ?? {};
}

/** What a lane was called when a run was begun in it; undefined where that was not kept. */
export function nameOf(state: State, run: string): string | undefined {
  return placesIn(state)[run]?.[2];
}

/** Every run that is in a lane, in the order in which they were begun: run, lane, round. */
export function lanesOf(state: State): [string, number, number][] {
  const runs = Object.entries(placesIn(state));
  return runs.map(([run, [lane, round]]): [string, number, number] => [run, lane, round]).filter(([run]) => state.runs[run] !== undefined);
}

export function roundsOf(state: State): Round[] {
  const found = new Map<number, Round>();
  for (const [run, lane, number] of lanesOf(state)) {
    const round = found.get(number) ?? { number, lanes: [], at: state.runs[run]?.opened_at ?? 0 };
    round.lanes.push(lane);
    found.set(number, round);
  }
  return [...found.values()].sort((one, other) => one.number - other.number);
}

/** The run that a lane shows after a round: its last up to there. */
export function shownAfter(state: State, lane: number, round: number): string | null {
  let found: string | null = null;
  for (const [run, of, number] of lanesOf(state)) if (of === lane && number <= round) found = run;
  return found;
}

/** `2 · 14:03:11 · B again` */
export function roundWords({ number, lanes, at }: Round, letters: readonly string[]): string {
  const all = lanes.length === letters.length;
  return `${number} · ${clock(at)} · ${all ? "all lanes" : lanes.map((lane) => letters[lane] ?? "?").join(", ")}`;
}
