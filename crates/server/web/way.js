// The cone of a row and its path to the root, for layers in which neither has a simple shape.

import { getBytes, post } from "./api.js";
import { channels, word } from "./paint.js";
import { indexOf, parsePoints } from "./points.js";
import { BEHIND } from "./webgl.js";

/**
 * Requests the cone and the path of a row. Returns `inside`, the indices of the points inside the cone of the whole space
 * without the row itself, and `path`, the indices of the points along the path to the root, which begins at the row. `nearest`
 * is true if these are the nearest rows along the path, because no other row has a cone that contains a point of it.
 */
export async function loadWay(data, row, signal) {
  const steps = async (cone) => (await post("/api/traverse", { from: { row }, cone }, signal)).stops.filter((it) => it.hit);
  const [cone, direct] = await Promise.all([getBytes(`/api/map/cone/${row}`, signal), steps(true)]);
  const nearest = direct.every((it) => it.hit.row === row);
  const stops = nearest ? await steps(false) : direct;
  const along = [row, ...stops.map((it) => it.hit.row)];
  const path = [...new Set(along)].map((it) => indexOf(data.rows, it)).filter((i) => i >= 0);
  return { inside: common(data.rows, parsePoints(cone).arrays.row, row), path, nearest };
}

/** The indices in `rows` of the numbers that are also in `others`, without `left`. Both are ascending. */
export function common(rows, others, left) {
  const found = new Uint32Array(Math.min(rows.length, others.length));
  let count = 0;
  for (let i = 0, j = 0; i < rows.length && j < others.length;) {
    if (rows[i] < others[j]) i++;
    else if (rows[i] > others[j]) j++;
    else {
      if (rows[i] !== left) found[count++] = i;
      i++;
      j++;
    }
  }
  return found.slice(0, count);
}

/** The colours of the points with some of them in the colour `css`, which are drawn over the others. */
export function markInside(words, inside, css) {
  const marked = words.map((it) => ((it & 0xffffff) | (BEHIND << 24)) >>> 0);
  const colour = word(channels(css));
  for (const i of inside) marked[i] = colour;
  return marked;
}

/** The entries of the legend for a cone and a path, as [colour, text] pairs. */
export function wayEntries({ inside, path, nearest }, css) {
  const cone = [css, `${inside.length.toLocaleString("en")} in the cone of the selected row (of the full space)`];
  return path.length > 1 ? [cone, [css, nearest ? "line: the nearest rows along its path to the root" : "line: its path to the root"]] : [cone];
}
