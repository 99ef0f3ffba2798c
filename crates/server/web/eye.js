// The view of the map: which point of the disc is at the centre, the zoom and the shift, and the size of the stage.

import { moved } from "./disc.js";

const MIN_ZOOM = 0.5;
const MAX_ZOOM = 2000;
/** Space between the disc and the edge of the stage at zoom 1, in CSS pixels. */
const MARGIN = 14;

/**
 * The view. A point of the map is first moved by the isometry that takes (ax, ay) to the centre, then scaled and shifted
 * to the screen. All screen coordinates are CSS pixels from the left upper corner of the stage.
 */
export class Eye {
  ax = 0;
  ay = 0;
  zoom = 1;
  x = 0;
  y = 0;
  width = 0;
  height = 0;
  ratio = 1;
  /** Radius of the disc at zoom 1. */
  radius = 1;

  resize(width, height, ratio) {
    Object.assign(this, { width, height, ratio, radius: Math.max(1, Math.min(width, height) / 2 - MARGIN) });
  }

  /** Pixels per unit of the disc. */
  get scale() {
    return this.radius * this.zoom;
  }

  get centreX() {
    return this.width / 2 + this.x;
  }

  get centreY() {
    return this.height / 2 + this.y;
  }

  /** The screen position of a point that is already moved. */
  placed(x, y) {
    return [this.centreX + this.scale * x, this.centreY - this.scale * y];
  }

  /** The screen position of a point of the map. */
  screen(x, y) {
    const [mx, my] = moved(x, y, this.ax, this.ay);
    return this.placed(mx, my);
  }

  /** The moved point at a screen position; the inverse of `placed`. */
  under(px, py) {
    return [(px - this.centreX) / this.scale, (this.centreY - py) / this.scale];
  }

  /** Number of pixels of a short unit of the map at a point: the isometry enlarges the surroundings of its centre. */
  scaleAt(x, y) {
    const [bx, by] = [1 - (this.ax * x + this.ay * y), this.ay * x - this.ax * y];
    return this.scale * (1 - this.ax * this.ax - this.ay * this.ay) / (bx * bx + by * by);
  }

  pan(x, y) {
    this.x += x;
    this.y += y;
  }

  /** Zooms by a factor; the point at (px, py) stays where it is. */
  zoomBy(factor, px = this.width / 2, py = this.height / 2) {
    const next = Math.min(MAX_ZOOM, Math.max(MIN_ZOOM, this.zoom * factor));
    const grown = next / this.zoom;
    const [cx, cy] = [px - this.width / 2, py - this.height / 2];
    Object.assign(this, { zoom: next, x: cx + (this.x - cx) * grown, y: cy + (this.y - cy) * grown });
  }

  /** Returns true if a screen position is on the stage. */
  sees(px, py) {
    return px >= 0 && py >= 0 && px <= this.width && py <= this.height;
  }
}
