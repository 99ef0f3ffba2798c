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

/**
 * The circle that `moved(., ax, ay)` maps to the circle with this centre and radius, as `[x, y, radius]`; `null` if it
 * is not the outline of a bounded region. The isometry maps circles to circles, and the point that mirrors its pole at
 * the circle to the centre of the image.
 */
export function circleBefore(x, y, radius, ax, ay) {
  if (ax === 0 && ay === 0) return [x, y, radius];
  const size = ax * ax + ay * ay;
  const [toPoleX, toPoleY] = [-ax / size - x, -ay / size - y];
  const far = toPoleX * toPoleX + toPoleY * toPoleY;
  if (!(far > radius * radius * 1.0001)) return null;
  const share = radius * radius / far;
  const [cx, cy] = moved(x + share * toPoleX, y + share * toPoleY, -ax, -ay);
  const [ex, ey] = moved(x + radius, y, -ax, -ay);
  return [cx, cy, Math.hypot(ex - cx, ey - cy)];
}

/** Returns the smallest rectangle around points; infinite if there are none. */
export function boundingBox(x, y) {
  const box = { left: Infinity, right: -Infinity, low: Infinity, high: -Infinity };
  for (let i = 0; i < x.length; i++) {
    if (x[i] < box.left) box.left = x[i];
    if (x[i] > box.right) box.right = x[i];
    if (y[i] < box.low) box.low = y[i];
    if (y[i] > box.high) box.high = y[i];
  }
  return box;
}

/**
 * A spatial index of points, to find the point under the pointer without a scan of all points. It indexes the positions
 * that the server sent, so that a move of the map needs no new index.
 */
export class Grid {
  /** Sorts the points into `side` x `side` cells of their bounding box. */
  constructor(x, y, side = Math.min(512, Math.max(16, Math.ceil(Math.sqrt(x.length) / 2)))) {
    const { left, right, low, high } = boundingBox(x, y);
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

  /**
   * The points that `moved(., ax, ay)` takes into the circle, or `null` if there are more than `most`. Only points for
   * which `shown` is true count.
   */
  within(x, y, radius, ax, ay, shown, most) {
    const circle = circleBefore(x, y, radius, ax, ay);
    if (!circle) return null;
    const [cx, cy, reach] = circle;
    const found = [];
    const end = this.line(cy + reach);
    for (let line = this.line(cy - reach); line <= end; line++) {
      const to = this.starts[this.column(cx + reach) + this.side * line + 1];
      for (let at = this.starts[this.column(cx - reach) + this.side * line]; at < to; at++) {
        const i = this.order[at];
        if (Math.hypot(this.x[i] - cx, this.y[i] - cy) > reach || !shown(i)) continue;
        if (found.length === most) return null;
        found.push(i);
      }
    }
    return found;
  }

  /**
   * The point that `moved(., ax, ay)` takes nearest to (x, y), or -1 if none is within `radius`. Only points for which
   * `shown` is true count.
   */
  nearest(x, y, radius, ax = 0, ay = 0, shown = null) {
    const circle = Number.isFinite(radius) ? circleBefore(x, y, radius, ax, ay) : null;
    const [cx, cy, reach] = circle ?? [0, 0, Infinity];
    const [first, last] = [this.column(cx - reach), this.column(cx + reach)];
    const end = this.line(cy + reach);
    let best = -1;
    let least = radius * radius;
    for (let line = this.line(cy - reach); line <= end; line++) {
      const to = this.starts[last + this.side * line + 1];
      for (let at = this.starts[first + this.side * line]; at < to; at++) {
        const i = this.order[at];
        if (shown && !shown(i)) continue;
        const [px, py] = ax === 0 && ay === 0 ? [this.x[i], this.y[i]] : moved(this.x[i], this.y[i], ax, ay);
        const far = (px - x) ** 2 + (py - y) ** 2;
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
 * `forward`, after `moved(., ax, ay)`; -1 if there is none. Only points for which `shown` is true count. Points with
 * equal coordinates are visited in the order of their indices, so that each of them can be reached.
 */
export function towards(x, y, from, axis, forward, ax = 0, ay = 0, shown = null) {
  const sign = forward ? 1 : -1;
  const [fromX, fromY] = moved(x[from], y[from], ax, ay);
  let best = -1;
  let least = Infinity;
  for (let i = 0; i < x.length; i++) {
    if (shown && !shown(i)) continue;
    const [px, py] = moved(x[i], y[i], ax, ay);
    const [right, up] = [sign * (px - fromX), sign * (py - fromY)];
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
