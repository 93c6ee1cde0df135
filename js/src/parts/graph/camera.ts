/**
 * Which part of a drawing is in view, and how large. It must not know the page.
 *
 * Slots and depths have sizes of their own: a tree is mostly far higher than it is wide, and seen whole it would be a line.
 */

/** Pixels of a depth and of a slot at scale 1. */
export const COLUMN = 176;
export const SLOT = 24;
const NEAREST = 2.5;
/** A tree of few depths has wide columns. */
const WIDEST = 1.7;
const EDGE = 12;

export class Camera {
  /** What stands at the left upper corner, in depths and slots. */
  x = 0;
  y = 0;
  scale = 1;
  width = 1;
  height = 1;
  depths = 1;
  slots = 1;

  /** Pixels of a depth. */
  get column(): number {
    const whole = (this.width - 2 * EDGE) / Math.max(1, this.depths * COLUMN);
    return COLUMN * Math.max(this.scale, Math.min(WIDEST, whole));
  }

  /** Pixels of a slot. */
  get slot(): number {
    return SLOT * this.scale;
  }

  /** The scale at which everything is in view. */
  get farthest(): number {
    return Math.min(1, (this.height - 2 * EDGE) / Math.max(1, this.slots * SLOT));
  }

  left(depth: number): number {
    return (depth - this.x) * this.column;
  }

  top(slot: number): number {
    return (slot - this.y) * this.slot;
  }

  /** Move by pixels. */
  pan(right: number, down: number): void {
    this.x += right / this.column;
    this.y += down / this.slot;
    this.#hold();
  }

  /** Become larger or smaller; what is at this pixel stays there. */
  zoom(by: number, right = this.width / 2, down = this.height / 2): void {
    const [depth, slot] = [this.x + right / this.column, this.y + down / this.slot];
    this.scale = Math.max(this.farthest, Math.min(NEAREST, this.scale * by));
    this.x = depth - right / this.column;
    this.y = slot - down / this.slot;
    this.#hold();
  }

  /** Everything in view. */
  fit(): void {
    this.scale = this.farthest;
    this.x = this.y = 0;
    this.#hold();
  }

  /** A place in view, with something around it. */
  show(depth: number, y: number): void {
    const [margin, rows] = [0.3, Math.min(1.5, this.height / this.slot / 4)];
    const across = this.width / this.column;
    if (depth + 1 + margin > this.x + across) this.x = depth + 1 + margin - across;
    if (depth - margin < this.x) this.x = depth - margin;
    if (y + rows > this.y + this.height / this.slot) this.y = y + rows - this.height / this.slot;
    if (y - rows < this.y) this.y = y - rows;
    this.#hold();
  }

  /** The drawing stays in view; a smaller one stands in the middle. */
  #hold(): void {
    const [across, down] = [this.width / this.column, this.height / this.slot];
    const [side, above] = [EDGE / this.column, EDGE / this.slot];
    this.x = Math.max(-side, Math.min(this.x, Math.max(-side, this.depths + side - across)));
    this.y = this.slots <= down ? (this.slots - down) / 2 : Math.max(-above, Math.min(this.y, this.slots + above - down));
  }
}
