// Moves a view of the map: to all points, or so that a point is in the middle.

import { quantile } from "./disc.js";

/** Duration of a move in milliseconds. */
const DURATION = 300;

/** Returns `fit(data)` and `glide(data, x, y)`, which change `eye` and call `redraw`. `fitted()` is the zoom of the last `fit`. */
export function mover(eye, redraw) {
  let motion = 0;
  let fitted = 1;

  /** Zooms so that nearly all rows are visible, with the centre of the map in the middle. */
  function fit({ x, y }) {
    cancelAnimationFrame(motion);
    const step = Math.ceil(x.length / 100_000);
    const far = [];
    for (let i = 0; i < x.length; i += step) far.push(Math.hypot(x[i], y[i]));
    fitted = Math.min(60, Math.max(1, 0.95 / Math.max(quantile(far, 0.995), 1e-6)));
    Object.assign(eye, { ax: 0, ay: 0, x: 0, y: 0, zoom: fitted });
    redraw();
  }

  /**
   * Moves a point of the map to the middle: in a disc by an isometry, which enlarges its surroundings, in a plane by a
   * shift.
   */
  function glide({ disc }, toX, toY) {
    const { ax, ay, x, y } = eye;
    const [endX, endY] = disc ? [0, 0] : [-eye.scale * toX, eye.scale * toY];
    const [endAx, endAy] = disc ? [toX, toY] : [0, 0];
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    const begun = performance.now();
    cancelAnimationFrame(motion);
    const step = (now) => {
      const t = still ? 1 : Math.min(1, Math.max(0, (now - begun) / DURATION));
      const ease = t * t * (3 - 2 * t);
      const between = (from, to) => from + ease * (to - from);
      Object.assign(eye, { ax: between(ax, endAx), ay: between(ay, endAy), x: between(x, endX), y: between(y, endY) });
      redraw();
      if (t < 1) motion = requestAnimationFrame(step);
    };
    motion = requestAnimationFrame(step);
  }

  return { fit, glide, fitted: () => fitted };
}

/** Radius of a dot in CSS pixels among `count`. Dots grow with the zoom, but more slowly; `grown` is the zoom relative to `fit`. */
export function dotSize(count, grown) {
  const start = count > 400_000 ? 0.5 : count > 40_000 ? 0.7 : count > 8000 ? 1.5 : 2.4;
  return start * Math.min(3, Math.max(1, grown) ** 0.3);
}
