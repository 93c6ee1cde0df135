/**
 * Where the parts of a loom stand on the page.
 */
import { make } from "./dom";

export interface Parts {
  tools: HTMLElement;
  controls: HTMLElement;
  told: HTMLElement;
  search: HTMLElement;
  tree: HTMLElement;
  /** The whole tree beside its rows. */
  minimap: HTMLElement;
  graph: HTMLElement;
  path: HTMLElement;
  /** Boxes that open between the texts. */
  boxes: HTMLElement[];
  children: HTMLElement;
  /** What stands below, or over it. */
  below: HTMLElement[];
}

export function layOut(element: HTMLElement, height: number, parts: Parts): void {
  element.setAttribute("aria-label", "Loom");
  element.style.setProperty("--acs-loom-height", `${height}px`);
  parts.told.setAttribute("role", "status");
  parts.told.hidden = true;
  const side = make("div", "acs-loom-side");
  side.append(parts.search, parts.tree, parts.minimap);
  const main = make("div", "acs-loom-main");
  main.append(parts.graph, parts.path, ...parts.boxes, parts.children);
  const body = make("div", "acs-loom-body");
  body.append(side, main);
  const top = make("div", "acs-loom-top");
  top.append(parts.tools, parts.controls);
  element.append(top, parts.told, body, ...parts.below);
}
