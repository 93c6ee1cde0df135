/**
 * Which keys are JupyterLab's while the focus is in a widget: those with Ctrl or Cmd, such as Ctrl+S. Letters are not,
 * nor what would change cells or take a text box's own keys: Ctrl with Enter, A, C, V, X, Y, Z.
 *
 * JupyterLab passes over an element with a mark, and looks for it when a key comes: so the mark is put at each key,
 * before anybody on the page hears of it.
 */
/** Whether a key goes on to JupyterLab. */
export function passes({ key, ctrlKey, metaKey }: KeyboardEvent): boolean {
  return (ctrlKey || metaKey) && !/^([acvxyz]|enter)$/i.test(key);
}

/** Keep JupyterLab from all other keys of a widget. */
export function keepKeys(root: HTMLElement, signal: AbortSignal): void {
  const mark = (event: KeyboardEvent) => {
    const [target] = event.composedPath();
    if (target instanceof Element && root.contains(target)) target.toggleAttribute("data-lm-suppress-shortcuts", !passes(event));
  };
  addEventListener("keydown", mark, { signal, capture: true });
}

/** Nothing outside an element hears of these events, but of keys that pass. */
export function keep(element: HTMLElement, types: string): void {
  for (const type of types.split(" ")) element.addEventListener(type, (event) => passes(event as KeyboardEvent) || event.stopPropagation());
}
