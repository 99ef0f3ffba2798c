// Chooses which words the map shows: general ones from afar, specific ones near, without overlaps.

import { brief } from "./long.js";

/** Distance in pixels at which a label gets its place beside a more general one. */
const APART = 74;
/** Maximum number of labels on the stage. */
const MOST = 48;
/** A class whose points cover more than this many times the stage is too general for the view. */
const COVERS = 0.8;
const SIZES = [15, 13.5, 12.5, 12];
const MAX_LETTERS = 34;
/** Height of the label of a single point above the point, in pixels. */
const LIFT = 13;

/**
 * Prepares the labels of a layer, which are ordered from general to specific: adds `lone`, the distance to the nearest
 * more general label. From afar this distance is short on the screen, so that the specific label waits until the user
 * zooms in.
 */
export function withDistances(labels) {
  return labels.map((label, i) => {
    let least = Infinity;
    for (let j = 0; j < i; j++) {
      const far = (labels[j].x - label.x) ** 2 + (labels[j].y - label.y) ** 2;
      if (far < least) least = far;
    }
    return { ...label, lone: Math.sqrt(least), short: brief(label.text, MAX_LETTERS) };
  });
}

/** Labels for a few points that are alone in the view: `named` are [index, caption] pairs. */
export function pointLabels({ x, y, depth }, named) {
  return named.map(([i, text]) => ({ text, x: x[i], y: y[i], depth: depth[i], reach: 0, level: SIZES.length, inner: false, lone: Infinity, lift: LIFT,
    short: brief(text, MAX_LETTERS) }));
}

/**
 * The labels of a view: `{ label, x, y, size, half }` with the middle of the text, its size in pixels and half its
 * width. `measure(text, size)` returns the width of a text. Labels whose depth is not within `range` are left out.
 */
export function placeLabels(labels, eye, [low, high], measure) {
  const shown = [];
  const wide = COVERS * Math.max(eye.width, eye.height);
  for (const label of labels) {
    if (shown.length >= MOST) break;
    if (label.depth < low || label.depth > high) continue;
    const scale = eye.scaleAt(label.x, label.y);
    if (label.lone * scale < APART) continue;
    // Half the extent: the points of a class are mostly within twice their mean distance from its middle.
    if (label.inner && 2 * label.reach * scale > wide) continue;
    const [x, below] = eye.screen(label.x, label.y);
    const y = below - (label.lift ?? 0);
    if (x < 0 || y < 8 || x > eye.width || y > eye.height - 8) continue;
    const size = SIZES[Math.min(label.level, SIZES.length) - 1] ?? SIZES.at(-1);
    const half = measure(label.short, size) / 2;
    const middle = Math.min(Math.max(x, half + 3), eye.width - half - 3);
    const free = shown.every((it) => Math.abs(it.x - middle) > it.half + half + 6 || Math.abs(it.y - y) > (it.size + size) * 0.62);
    if (free) shown.push({ label, x: middle, y, size, half });
  }
  return shown;
}
