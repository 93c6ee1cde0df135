/**
 * The colours of a drawing, read from the page so that they follow its theme.
 */

export interface Ink {
  text: string;
  soft: string;
  line: string;
  ground: string;
  focus: string;
  hue: string;
  font: string;
}

/** Opacities of the levels, a little over those of the texts: here there are no underlines. Level 0 is grey. */
const TINTS = [0, 0.1, 0.17, 0.24, 0.31, 0.38, 0.46, 0.55];

export function inkOf(element: Element): Ink {
  const style = getComputedStyle(element);
  const of = (name: string) => style.getPropertyValue(`--acs-${name}`).trim();
  return { text: of("fg"), soft: of("soft"), line: of("line"), ground: of("ground"), focus: of("focus"), hue: of("hue"), font: of("mono") };
}

/** The tint of a level; where nothing is known there is hardly any. */
export function tint({ hue }: Ink, level: number | null): string {
  if (level === null || level === 0) return `rgba(128, 128, 128, ${level === null ? 0.05 : 0.14})`;
  return `rgba(${hue}, ${TINTS[level] ?? 0.55})`;
}

/** Be told when the page has another theme. */
export function watchTheme(act: () => void, signal: AbortSignal): void {
  const watch = new MutationObserver(() => requestAnimationFrame(act));
  const attributeFilter = ["class", "data-jp-theme-name", "data-jp-theme-light", "data-theme", "data-vscode-theme-kind"];
  for (const element of [document.documentElement, document.body]) watch.observe(element, { attributes: true, attributeFilter });
  watch.observe(document.head, { childList: true }); // a theme's style sheet
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", act, { signal });
  signal.addEventListener("abort", () => watch.disconnect());
}

/** A canvas as large as its box, in device pixels; `null` while it has no size. */
export function brushOf(canvas: HTMLCanvasElement): CanvasRenderingContext2D | null {
  const { clientWidth: width, clientHeight: height } = canvas;
  const brush = canvas.getContext("2d");
  if (brush === null || width === 0 || height === 0) return null;
  const ratio = devicePixelRatio || 1;
  const [across, down] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== across || canvas.height !== down) Object.assign(canvas, { width: across, height: down });
  brush.setTransform(ratio, 0, 0, ratio, 0, 0);
  brush.clearRect(0, 0, width, height);
  return brush;
}
