// Geometry of the Poincare disc, without access to the page.

/** The isometry that moves `a` to the centre: (z - a) / (1 - conj(a) z). */
export function moved(x, y, ax, ay) {
  const [tx, ty] = [x - ax, y - ay];
  const [bx, by] = [1 - (ax * x + ay * y), ay * x - ax * y];
  const size = bx * bx + by * by;
  return [(tx * bx + ty * by) / size, (ty * bx - tx * by) / size];
}

/** Applies `moved` to whole arrays and writes to `outX` and `outY`. */
export function moveAll(x, y, ax, ay, outX, outY) {
  if (ax === 0 && ay === 0) {
    outX.set(x);
    outY.set(y);
    return;
  }
  for (let i = 0; i < x.length; i++) {
    const tx = x[i] - ax;
    const ty = y[i] - ay;
    const bx = 1 - (ax * x[i] + ay * y[i]);
    const by = ay * x[i] - ax * y[i];
    const size = bx * bx + by * by;
    outX[i] = (tx * bx + ty * by) / size;
    outY[i] = (ty * bx - tx * by) / size;
  }
}

/**
 * The outline of the cone at a point, as points of the disc. It consists of the two geodesics that leave the point at
 * the angle `aperture` (radians) from the direction away from the centre, and of the arc of the disc boundary between
 * them. Steps are smaller near the boundary.
 */
export function cone(x, y, aperture, steps = 48) {
  const away = x === 0 && y === 0 ? 0 : Math.atan2(y, x);
  const ray = (angle, far) => moved(far * Math.cos(angle), far * Math.sin(angle), -x, -y);
  const reach = (i) => Math.tanh(4 * i / steps) / Math.tanh(4);
  const outline = [];
  for (let i = 0; i <= steps; i++) outline.push(ray(away - aperture, reach(i)));
  for (let i = 1; i < steps; i++) outline.push(ray(away + aperture * (2 * i / steps - 1), 1));
  for (let i = steps; i >= 0; i--) outline.push(ray(away + aperture, reach(i)));
  return outline;
}

/** A spatial index of points, to find the point under the pointer without a scan of all points. */
export class Grid {
  /** Sorts the points into `side` x `side` cells of their bounding box. */
  constructor(x, y, side = 128) {
    let [left, right, low, high] = [Infinity, -Infinity, Infinity, -Infinity];
    for (let i = 0; i < x.length; i++) {
      left = Math.min(left, x[i]);
      right = Math.max(right, x[i]);
      low = Math.min(low, y[i]);
      high = Math.max(high, y[i]);
    }
    Object.assign(this, { x, y, side, left, low });
    this.across = side / Math.max(right - left, 1e-12);
    this.up = side / Math.max(high - low, 1e-12);
    const cells = new Uint32Array(x.length);
    this.starts = new Uint32Array(side * side + 1);
    for (let i = 0; i < x.length; i++) {
      cells[i] = this.column(x[i]) + side * this.line(y[i]);
      this.starts[cells[i] + 1]++;
    }
    for (let c = 0; c < side * side; c++) this.starts[c + 1] += this.starts[c];
    const next = this.starts.slice();
    this.order = new Uint32Array(x.length);
    for (let i = 0; i < x.length; i++) this.order[next[cells[i]]++] = i;
  }

  column(x) {
    return Math.min(this.side - 1, Math.max(0, Math.floor((x - this.left) * this.across)));
  }

  line(y) {
    return Math.min(this.side - 1, Math.max(0, Math.floor((y - this.low) * this.up)));
  }

  /** The nearest point within `radius`, or -1. */
  nearest(x, y, radius) {
    let best = -1;
    let least = radius * radius;
    const last = this.line(y + radius);
    for (let line = this.line(y - radius); line <= last; line++) {
      const from = this.starts[this.column(x - radius) + this.side * line];
      const to = this.starts[this.column(x + radius) + this.side * line + 1];
      for (let at = from; at < to; at++) {
        const i = this.order[at];
        const far = (this.x[i] - x) ** 2 + (this.y[i] - y) ** 2;
        if (far <= least) {
          least = far;
          best = i;
        }
      }
    }
    return best;
  }
}

/**
 * The nearest point to `from` among the points within 45 degrees of the direction given by `axis` ("x" or "y") and
 * `forward`; -1 if there is none. Points with equal coordinates are visited in the order of their indices, so that each
 * of them can be reached.
 */
export function towards(x, y, from, axis, forward) {
  const sign = forward ? 1 : -1;
  let best = -1;
  let least = Infinity;
  for (let i = 0; i < x.length; i++) {
    const [right, up] = [sign * (x[i] - x[from]), sign * (y[i] - y[from])];
    const [ahead, aside] = axis === "x" ? [right, Math.abs(up)] : [up, Math.abs(right)];
    const here = ahead === 0 && aside === 0;
    if (here ? sign * (i - from) <= 0 : ahead <= 0 || aside > ahead) continue;
    const far = ahead * ahead + aside * aside;
    if (far < least || (far === least && !forward)) [best, least] = [i, far];
  }
  return best;
}

/** The quantile of the values at the fraction `share` (0 to 1); 0 without values. */
export function quantile(values, share) {
  if (!values.length) return 0;
  const sorted = Float64Array.from(values).sort();
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))];
}
