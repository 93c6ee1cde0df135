/**
 * Where samples part, as a table: what stands before each fork, then its ways, the share with its interval beside what
 * the model stated.
 */
import { make } from "../dom";
import { share, shown, type Way } from "./told";

const HEADS = ["token", "samples", "share", "95 % interval", "model stated", "after settings", "drawn"];

/** `light` lights the samples of a way up. */
export function trieTable(rows: readonly Way[], light: (nodes: string[]) => void): HTMLElement {
  const table = make("table", "acs-m-table");
  const head = table.createTHead().insertRow();
  for (const words of HEADS) head.append(Object.assign(make("th", "", words), { scope: "col" }));
  const body = table.createTBody();
  for (const row of rows) {
    if (row.before !== null) {
      const cell = make("th", "acs-m-fork", row.before === "" ? "at the start" : `after “${shown(row.before)}”`);
      cell.colSpan = HEADS.length;
      cell.scope = "colgroup";
      cell.style.paddingLeft = indent(row);
      body.insertRow().append(cell);
    }
    body.append(way(row, light));
  }
  return table;
}

const indent = (row: Way) => `${Math.min(row.depth, 20) * 14}px`;

function way(row: Way, light: (nodes: string[]) => void): HTMLElement {
  const line = make("tr", row.count === 0 ? "acs-m-none" : "");
  const name = make("td", "acs-m-token");
  name.style.paddingLeft = indent(row);
  const words = row.token === null ? "end of text" : shown(row.token);
  if (row.count > 0) {
    const button = make("button", "acs-quiet", words);
    button.title = "Light these samples up";
    button.addEventListener("click", () => light(row.nodes));
    name.append(button);
  } else name.append(make("span", "", words));
  const rest = row.text.slice((row.token ?? "").length);
  if (rest !== "") name.append(make("span", "acs-m-after", shown(rest)));
  const cut = row.cut > 0 ? `, ${row.cut} cut off` : "";
  line.append(name);
  for (const text of [`${row.count} of ${row.of}${cut}`, row.count === 0 ? "–" : share(row.count / row.of), `${share(row.low)} to ${share(row.high)}`]) line.append(make("td", "", text));
  const drawn = make("td", "");
  drawn.append(bar(row));
  line.append(make("td", "", share(row.p)), make("td", "", share(row.q)), drawn);
  return line;
}

/** The share as a bar, its interval as a line, and a mark at what it is to be compared with. */
function bar(row: Way): HTMLElement {
  const box = make("span", "acs-m-bar");
  box.ariaHidden = "true"; // the figures stand beside it
  const part = (name: string, left: number, width?: number) => {
    const one = make("span", name);
    one.style.left = `${left * 100}%`;
    if (width !== undefined) one.style.width = `${width * 100}%`;
    box.append(one);
  };
  part("acs-m-share", 0, row.count / row.of);
  part("acs-m-range", row.low, row.high - row.low);
  const expected = row.q; // at temperature 1 without cuts what was stated; where it is not known, nothing
  if (expected !== null) part("acs-m-said", expected);
  return box;
}
