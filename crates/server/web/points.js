// The points of a map layer as the server sends them: a JSON header and arrays of numbers.

import { getBytes } from "./api.js";
import { boundingBox } from "./disc.js";

const TYPES = { u8: Uint8Array, u32: Uint32Array, f32: Float32Array };

/** Returns true if this machine stores the lower byte of a number first, as the arrays of the server do. */
const LITTLE = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1;

/**
 * Reads a response of `/api/map/points`: 8 bytes with the length of the header, the header, then the arrays. The arrays
 * are views of `buffer`, not copies. Returns the header with the arrays as `arrays`.
 */
export function parsePoints(buffer) {
  const view = new DataView(buffer);
  const length = Number(view.getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, length)));
  const arrays = {};
  for (const [name, { type, offset }] of Object.entries(header.arrays)) {
    const Kind = TYPES[type];
    const at = 8 + length + offset;
    if (!LITTLE && Kind.BYTES_PER_ELEMENT === 4) swap(view, at, header.points);
    arrays[name] = new Kind(buffer, at, header.points);
  }
  return { ...header, arrays };
}

function swap(view, at, count) {
  for (let i = at; i < at + 4 * count; i += 4) view.setUint32(i, view.getUint32(i, false), true);
}

/**
 * Requests the points of a layer, at most `limit`, with `beside` of the second set. Returns `{ rows, x, y, depth, modality, of, disc, root, total }` with
 * x and y from -1 to 1: a plane is shifted and scaled, a disc is not changed. `root` is `[x, y]` or `null`.
 */
export async function loadPoints(layer, limit, signal, beside = false) {
  const { arrays, disc, root, rows_of_layer: total } = parsePoints(await getBytes(`/api/map/points?${query({ layer, limit, beside: beside || null })}`, signal));
  const { row: rows, depth, modality } = arrays;
  const shared = { layer, limit, rows, depth, modality, disc, total };
  if (disc) return { ...shared, x: arrays.x, y: arrays.y, root, extent: { x: 0, y: 0, size: 1 } };
  const extent = extentOf(arrays.x, arrays.y);
  const shrunk = (values, middle) => values.map((it) => (it - middle) / extent.size);
  return { ...shared, extent, x: shrunk(arrays.x, extent.x), y: shrunk(arrays.y, extent.y),
    root: root && shrinkPoint(root, extent) };
}

/** Moves a point of a plane as `loadPoints` moves the points. */
export function shrinkPoint([x, y], extent) {
  return [(x - extent.x) / extent.size, (y - extent.y) / extent.size];
}

function extentOf(x, y) {
  if (!x.length) return { x: 0, y: 0, size: 1 };
  const { left, right, low, high } = boundingBox(x, y);
  return { x: (left + right) / 2, y: (low + high) / 2, size: Math.max(right - left, high - low, 1e-30) / 1.9 };
}

/**
 * Requests the colour codes of a column for the points of a layer. Returns `{ codes, column, names, min, max }`: a code
 * is an index into `names`, or 255 for another value. If all values are numbers, `names` is empty and the codes 0 to 254
 * go from `min` to `max`.
 */
export async function loadCodes({ layer, limit }, column, signal) {
  const { arrays, colour } = parsePoints(await getBytes(`/api/map/points?${query({ layer, limit, column, only: "codes" })}`, signal));
  return { codes: arrays.code, ...colour };
}

function query(fields) {
  return new URLSearchParams(Object.entries(fields).filter(([, value]) => value !== null && value !== undefined));
}

/** The index of a row in the ascending row numbers, or -1. */
export function indexOf(rows, row) {
  let [low, high] = [0, rows.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (rows[middle] < row) low = middle + 1;
    else high = middle;
  }
  return rows[low] === row ? low : -1;
}
