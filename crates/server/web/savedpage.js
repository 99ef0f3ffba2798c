// Saves the points that the map shows as one HTML file, which the server fills with their texts.

import { postText } from "./api.js";
import { columnOf } from "./colours.js";
import { saveBlob } from "./picture.js";

/** Maximum number of points of a file, as on the server. */
const MOST = 60_000;
/** Maximum number of columns by which the points of the file can be coloured, besides kind and depth. */
const MOST_COLUMNS = 12;
/** Maximum number of different texts of such a column. */
const MOST_VALUES = 200;

/**
 * Saves the points with these indices, or an even sample of them. `data` are the points of `loadPoints`, `eye` is the view, and
 * `state` that of the page. Returns the number of saved points.
 */
export async function savePage({ data, eye, info, state }, seen) {
  const rows = Array.from({ length: Math.min(MOST, seen.length) }, (_, i) => data.rows[seen[Math.floor(i * seen.length / Math.min(MOST, seen.length))]]);
  const { extent } = data;
  const [x, y] = eye.under(eye.width / 2, eye.height / 2);
  const half = Math.min(eye.width, eye.height) / 2 / eye.scale;
  const body = { layer: data.layer, rows, columns: columns(info, state), seen: seen.length,
    view: [extent.x + extent.size * x, extent.y + extent.size * y, extent.size * half] };
  if (data.disc) body.center = [eye.ax, eye.ay];
  saveBlob("map.html", new Blob([await postText("/api/map/page", body)], { type: "text/html;charset=utf-8" }));
  return rows.length;
}

/** The names of what the points can be coloured by, what they are coloured by at present first. */
function columns(info, state) {
  const isNumber = (it) => it.values.every(([value]) => value.trim() !== "" && Number.isFinite(Number(value)));
  const useful = info.columns.filter((it) => it.distinct > 1 && (it.distinct <= MOST_VALUES || isNumber(it)));
  const own = columnOf(state) ?? state.colour;
  return [...new Set([own, "modality", "depth", ...useful.slice(0, MOST_COLUMNS).map((it) => it.name)])];
}
