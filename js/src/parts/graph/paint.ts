/**
 * Draws the part of a tree that is in view; what would be smaller than can be seen is one block.
 */
import { COLUMN, type Camera } from "./camera";
import { tint, type Ink } from "./ink";
import type { Place, Places } from "./places";

/** How a node looks. */
export interface Face {
  /** Its words, made when they are drawn. */
  text(): string;
  level: number | null;
  current: boolean;
  lit: boolean;
  found: boolean;
  unread: boolean;
  busy: boolean;
  marked: boolean;
  written: boolean;
}

export interface Scene {
  places: Places;
  camera: Camera;
  ink: Ink;
  faceOf(id: string): Face;
  /** Places from the root to the cursor. */
  path: ReadonlySet<number>;
}

/** Bands lower than this are drawn as one. */
const LEAST = 1.5;
/** Pixels of a slot from which on there are words. */
const READABLE = 13;
const GAP = 32;
/** Below so many pixels a slot there are no borders and no curves. */
const SMALL = 4;

/** The box of a place, in pixels. */
export function boxOf(camera: Camera, { depth, y }: Pick<Place, "depth" | "y">): [left: number, top: number, width: number, height: number] {
  const width = Math.max(3, camera.column - GAP * Math.min(1, camera.column / COLUMN));
  const height = Math.max(1, Math.min(20, camera.slot * 0.8));
  return [camera.left(depth), camera.top(y) - height / 2, width, height];
}

/** What is drawn: places one by one, and those that stand for all below them. */
export function inView({ all }: Places, camera: Camera): { single: number[]; whole: number[] } {
  const single: number[] = [];
  const whole: number[] = [];
  const [top, bottom] = [camera.y, camera.y + camera.height / camera.slot];
  const right = camera.x + camera.width / camera.column;
  const waiting: number[] = [];
  const taken = new Map<number, number>();
  const push = (from: number) => {
    const here = all[from];
    if (here === undefined || here.bottom < top || here.top > bottom) return;
    if (here.children.length === 0 && camera.slot < 1) {
      // Of leaves on one line of pixels the first is drawn.
      const line = Math.floor(here.top * camera.slot);
      if (taken.get(here.depth) === line) return;
      taken.set(here.depth, line);
    }
    if (here.children.length > 0 && (here.bottom - here.top) * camera.slot < LEAST) whole.push(from);
    else waiting.push(from);
  };
  for (let i = 0; i < all.length && camera.slots > 0; i++) {
    if (all[i]?.depth !== 0) continue;
    push(i);
    if ((all[i]?.top ?? 0) > bottom) break;
  }
  for (let place = waiting.pop(); place !== undefined; place = waiting.pop()) {
    const here = all[place];
    if (here === undefined) continue;
    single.push(place);
    if (here.depth + 1 <= right) for (const child of here.children) push(child);
  }
  return { single, whole };
}

/** Gives how many things were drawn. */
export function paint(brush: CanvasRenderingContext2D, scene: Scene): number {
  const { places, camera, ink } = scene;
  const { single, whole } = inView(places, camera);
  drawEdges(brush, scene, single);
  for (const place of whole) {
    const here = places.all[place];
    if (here === undefined) continue;
    brush.fillStyle = small(ink, scene.faceOf(here.id).level);
    brush.fillRect(camera.left(here.depth), camera.top(here.top), (here.deepest - here.depth + 1) * camera.column - 4, Math.max(1, (here.bottom - here.top) * camera.slot));
  }
  brush.font = `11px ${ink.font}`;
  brush.textBaseline = "middle";
  for (const place of single) {
    const here = places.all[place];
    if (here !== undefined) drawNode(brush, scene, here);
  }
  return single.length + whole.length;
}

/** The tint of what is too small for a border: it must be seen all the same. */
function small(ink: Ink, level: number | null): string {
  return level === null ? ink.line : tint(ink, Math.max(3, level));
}

function drawEdges(brush: CanvasRenderingContext2D, { places, camera, ink, path }: Scene, single: readonly number[]): void {
  for (const on of [false, true]) {
    brush.beginPath();
    brush.strokeStyle = on ? ink.focus : ink.soft;
    brush.globalAlpha = on ? 1 : 0.5;
    brush.lineWidth = on ? 2 : 1;
    for (const place of single) {
      const here = places.all[place];
      const parent = here && places.all[here.parent];
      if (here === undefined || parent === undefined || (path.has(place) && path.has(here.parent)) !== on) continue;
      const [left, , width] = boxOf(camera, parent);
      const [from, to] = [left + width, camera.left(here.depth)];
      const [begin, end, middle] = [camera.top(parent.y), camera.top(here.y), (from + to) / 2];
      brush.moveTo(from, begin);
      if (camera.slot < SMALL) brush.lineTo(to, end);
      else brush.bezierCurveTo(middle, begin, middle, end, to, end);
    }
    brush.stroke();
  }
  brush.globalAlpha = 1;
}

function drawNode(brush: CanvasRenderingContext2D, { camera, ink, faceOf }: Scene, here: Place): void {
  const [left, top, width, height] = boxOf(camera, here);
  if (left > camera.width || left + width < 0 || top > camera.height || top + height < 0) return;
  const face = faceOf(here.id);
  const round = Math.min(4, height / 3);
  brush.beginPath();
  brush.roundRect(left, top, width, height, round);
  brush.fillStyle = ink.ground;
  brush.fill();
  brush.fillStyle = camera.slot < SMALL ? small(ink, face.level) : tint(ink, face.level);
  brush.fill();
  const line = face.current || face.busy ? ink.focus : face.lit || face.found ? `rgb(${ink.hue})` : face.marked ? ink.text : ink.line;
  if (camera.slot >= SMALL || face.current || face.lit || face.found) {
    brush.strokeStyle = line;
    brush.lineWidth = face.current || face.lit ? 2.5 : 1;
    brush.setLineDash(face.busy ? [4, 3] : []);
    brush.stroke();
    brush.setLineDash([]);
  }
  if (face.unread && camera.slot >= 6) {
    brush.fillStyle = ink.focus;
    brush.beginPath();
    brush.arc(left + width - 6, top + height / 2, 2.5, 0, 2 * Math.PI);
    brush.fill();
  }
  if (camera.slot >= READABLE) drawWords(brush, ink, face, here, [left, top, width, height]);
}

function drawWords(brush: CanvasRenderingContext2D, ink: Ink, face: Face, here: Place, [left, top, width, height]: readonly number[]): void {
  const [x, y, wide] = [left ?? 0, top ?? 0, width ?? 0];
  const more = here.folded > 0 ? ` ▸${here.folded}` : "";
  const letter = brush.measureText("0").width || 7;
  const room = Math.max(0, Math.floor((wide - 12 - (face.unread ? 8 : 0)) / letter) - more.length);
  const text = face.text();
  const letters = Array.from(text);
  const words = letters.length > room ? `${letters.slice(0, Math.max(0, room - 1)).join("")}…` : text;
  brush.save();
  brush.beginPath();
  brush.rect(x, y, wide, height ?? 0);
  brush.clip();
  brush.fillStyle = ink.text;
  brush.font = `${face.written ? "italic " : ""}${face.unread ? "700 " : ""}11px ${ink.font}`;
  brush.fillText(words + more, x + 6, y + (height ?? 0) / 2 + 0.5);
  if (face.found) brush.fillRect(x + 6, y + (height ?? 0) - 3, Math.max(0, wide - 12), 1.5);
  brush.restore();
}
