/** The page's style sheets in a shadow tree, where they do not count by themselves: marimo shows windows in one. */
export function dress(el: HTMLElement): void {
  const root = el.getRootNode();
  if (root instanceof ShadowRoot)
    for (const sheet of document.querySelectorAll("[id^=acs-style]")) root.append(sheet.cloneNode(true));
}
