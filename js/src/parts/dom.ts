/**
 * The few lines that make elements. Text only ever goes in as text.
 */
export function make<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  name: string,
  text = "",
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  if (tag === "button") (element as HTMLButtonElement).type = "button"; // else it would send a form
  element.className = name;
  if (text !== "") element.textContent = text;
  return element;
}

/** Set text only when it differs, so that assistive technology hears changes and nothing else. */
export function say(element: HTMLElement, text: string): void {
  if (element.textContent !== text) element.textContent = text;
  element.hidden = text === "";
}

let last = 0;

/** An id that no other view on the page has. */
export function freshId(name: string): string {
  return `acs-${name}-${++last}-${Math.random().toString(36).slice(2, 8)}`;
}
