/**
 * Where each node of a tree stands in a drawing: its depth to the right, one slot for each leaf downwards. It must not know the page.
 *
 * A subtree takes a band of slots of its own, in reading order, so that what is out of view, or too small to be seen, is
 * passed over whole.
 */
import type { Row } from "../loomoutline";

export interface Place {
  id: string;
  depth: number;
  /** Its middle, in slots. */
  y: number;
  /** The band of its subtree, in slots: from `top` to before `bottom`. */
  top: number;
  bottom: number;
  /** The greatest depth of its subtree. */
  deepest: number;
  parent: number;
  /** Places of its children that are shown. */
  children: number[];
  /** How many children are folded away. */
  folded: number;
}

export interface Places {
  readonly all: readonly Place[];
  readonly of: ReadonlyMap<string, number>;
  /** How many depths and slots there are. */
  readonly depths: number;
  readonly slots: number;
}

/** The places of rows in reading order, as `outline` gives them. */
export function placesOf(rows: readonly Row[]): Places {
  const all: Place[] = [];
  const of = new Map<string, number>();
  const above: number[] = []; // the last place of each depth
  let slots = 0;
  let depths = 0;
  for (const { id, level, children, folded } of rows) {
    const depth = level - 1;
    const parent = depth === 0 ? -1 : (above[depth - 1] ?? -1);
    const place = all.length;
    above[depth] = place;
    const leaf = children === 0 || folded;
    all.push({ id, depth, y: slots + 0.5, top: slots, bottom: slots + 1, deepest: depth, parent, children: [], folded: folded ? children : 0 });
    of.set(id, place);
    all[parent]?.children.push(place);
    if (leaf) slots++;
    depths = Math.max(depths, level);
  }
  for (let place = all.length - 1; place >= 0; place--) {
    const here = all[place];
    if (here === undefined || here.children.length === 0) continue;
    const [first, last] = [all[here.children[0] ?? 0], all[here.children.at(-1) ?? 0]];
    if (first === undefined || last === undefined) continue;
    here.y = (first.y + last.y) / 2;
    here.bottom = last.bottom;
    for (const child of here.children) here.deepest = Math.max(here.deepest, all[child]?.deepest ?? 0);
  }
  return { all, of, depths, slots };
}

/** The node of the same depth before (-1) or after (1) a place. */
export function beside({ all }: Places, place: number, by: 1 | -1): string | undefined {
  const depth = all[place]?.depth;
  for (let next = place + by; next >= 0 && next < all.length; next += by) if (all[next]?.depth === depth) return all[next]?.id;
  return undefined;
}
