/**
 * Two texts side by side, a row a run of tokens; those that only one has stand with their logprobs.
 */
import { level } from "../colour";
import { make } from "../dom";
import { nats, shown, type Block, type Told } from "./told";

export function diffTable(rows: readonly Block[], names: readonly [string, string]): HTMLElement {
  const table = make("table", "acs-m-table acs-m-diff");
  const head = table.createTHead().insertRow();
  for (const words of ["tokens", ...names]) head.append(Object.assign(make("th", "", words), { scope: "col" }));
  const body = table.createTBody();
  for (const { op, a, b } of rows) {
    const line = body.insertRow();
    line.className = `acs-m-${op.replace(" ", "-")}`;
    line.append(Object.assign(make("th", "", op), { scope: "row" }), side(a, op), side(b, op));
  }
  return table;
}

function side(tokens: readonly Told[], op: Block["op"]): HTMLElement {
  const cell = make("td", "acs-m-token");
  for (const [token, logprob] of tokens) {
    if (token === null) {
      cell.append(make("span", "acs-m-left", `… ${logprob} more …`));
      continue;
    }
    const one = make("span", "acs-m-t", shown(token));
    const strength = level(logprob);
    if (strength !== null) one.classList.add(`acs-p${strength}`);
    if (logprob !== null) one.title = `${nats(logprob)} nats`;
    cell.append(one);
    if (logprob !== null && op !== "common" && op !== "same") cell.append(make("sub", "", nats(logprob)));
  }
  return cell;
}
