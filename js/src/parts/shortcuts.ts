/**
 * Which keys are JupyterLab's while the focus is in a widget: those with Ctrl or Cmd, such as Ctrl+S. Letters are not,
 * nor what would change cells: Ctrl with Enter, A, C, V, X, Z. Of a text field it has Ctrl+S alone.
 *
 * JupyterLab passes over an element with a mark, and looks for it when a key comes: so the mark is put at each key,
 * before anybody on the page hears of it.
 */
const FIELD = "input,textarea,select";

/** Whether a key goes on to JupyterLab. */
export function passes(event: Event): boolean {
  const { key, ctrlKey, metaKey, target } = event as KeyboardEvent;
  if (event.type !== "keydown" || !(ctrlKey || metaKey)) return false;
  return /^s$/i.test(key) || (!/^([acvxz]|enter)$/i.test(key) && !(target as Element).matches(FIELD));
}

/** Keep JupyterLab from all other keys of a widget. */
export function keepKeys(root: HTMLElement, signal: AbortSignal): void {
  const mark = (event: Event) => {
    const target = event.composedPath()[0];
    if (target instanceof Element && root.contains(target)) target.toggleAttribute("data-lm-suppress-shortcuts", !passes(event));
  };
  addEventListener("keydown", mark, { signal, capture: true });
}

/** Nothing outside an element hears of these events, but of keys that pass. */
export function keep(element: HTMLElement, ...types: string[]): void {
  for (const type of types) element.addEventListener(type, (event) => passes(event) || event.stopPropagation());
}
