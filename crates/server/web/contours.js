// Lines of equal density of the points of the map.

/** Number of cells on each side of the density grid. */
const SIDE = 160;
/** Levels of the lines, as fractions of the highest density. */
const LEVELS = [0.02, 0.06, 0.15, 0.35, 0.7];
/** Number of passes of the box blur, and its reach in cells: together nearly a Gaussian with a deviation of 2.4 cells. */
const PASSES = 3;
const REACH = 2;

/**
 * The lines of equal density of the points whose depths are within `range`: segments of four numbers each, in the
 * coordinates of the points, which lie from -1 to 1.
 */
export function contours({ x, y, depth }, [low, high]) {
  const density = new Float32Array(SIDE * SIDE);
  const cell = (value) => Math.min(SIDE - 1, Math.max(0, Math.floor((value + 1) / 2 * SIDE)));
  for (let i = 0; i < x.length; i++) {
    if (depth[i] >= low && depth[i] <= high) density[cell(y[i]) * SIDE + cell(x[i])]++;
  }
  for (let pass = 0; pass < PASSES; pass++) {
    blur(density, 1, SIDE);
    blur(density, SIDE, 1);
  }
  let most = 0;
  for (const value of density) most = Math.max(most, value);
  const ends = [];
  if (most > 0) LEVELS.forEach((level) => trace(density, level * most, ends));
  return Float32Array.from(ends);
}

/** Replaces each cell by the mean of the cells within `REACH` along one direction; cells outside the grid are empty. */
function blur(density, step, across) {
  const line = new Float32Array(SIDE);
  for (let at = 0; at < SIDE; at++) {
    for (let i = 0; i < SIDE; i++) line[i] = density[at * across + i * step];
    let sum = 0;
    for (let i = -REACH; i < SIDE; i++) {
      sum += line[i + REACH] ?? 0;
      sum -= line[i - REACH - 1] ?? 0;
      if (i >= 0) density[at * across + i * step] = sum / (2 * REACH + 1);
    }
  }
}

/** Marching squares between the centres of the cells. Appends the ends of each segment. */
function trace(density, level, ends) {
  const at = (i) => (i + 0.5) / SIDE * 2 - 1;
  for (let row = 0; row + 1 < SIDE; row++) {
    for (let column = 0; column + 1 < SIDE; column++) {
      const corner = row * SIDE + column;
      const [a, b, c, d] = [density[corner], density[corner + 1], density[corner + SIDE + 1], density[corner + SIDE]];
      const crossed = [];
      const edge = (from, to, x0, y0, x1, y1) => {
        if (from >= level === to >= level) return;
        const share = (level - from) / (to - from);
        crossed.push(at(column + x0 + share * (x1 - x0)), at(row + y0 + share * (y1 - y0)));
      };
      edge(a, b, 0, 0, 1, 0);
      edge(b, c, 1, 0, 1, 1);
      edge(d, c, 0, 1, 1, 1);
      edge(a, d, 0, 0, 0, 1);
      // Four crossings are two segments: a saddle point.
      for (let i = 0; i + 3 < crossed.length; i += 4) ends.push(crossed[i], crossed[i + 1], crossed[i + 2], crossed[i + 3]);
    }
  }
}
