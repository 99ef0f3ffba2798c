// The marks over the points of the map: the edge of the disc, cones, rings, labels and the outline of the lasso.

import { cone } from "./disc.js";
import { font } from "./scene.js";

/** Up to this many points are enlarged that are inside a cone or an outline. */
const MOST_DOTS = 2000;

/** The shapes of a view, from back to front. The argument has the fields that `map.js` passes. */
export function markShapes({ eye, theme, data, labels, lines, hits, selected, path, inside, hovered, outline, drawing }) {
  const shapes = [];
  const ring = (at, radius, stroke, width) => shapes.push({ ring: at, radius, stroke, width });
  const point = (i) => eye.screen(data.x[i], data.y[i]);
  if (data.disc) ring(eye.placed(0, 0), eye.scale, theme.line, 1.2);
  if (lines) shapes.push({ segments: onScreen(lines, eye), stroke: theme.ink, width: 0.8 });
  if (data.root) {
    const [x, y] = eye.screen(...data.root);
    for (const [dx, dy] of [[6, 0], [0, 6]]) shapes.push({ path: [[x - dx, y - dy], [x + dx, y + dy]], stroke: theme.ink, width: 1.2 });
  }
  if (selected?.aperture !== undefined) {
    const path = cone(selected.x, selected.y, selected.aperture).map((it) => eye.screen(...it));
    shapes.push({ path, closed: true, fill: theme.accent, alpha: 0.16, stroke: theme.accent, width: 1.2 });
  }
  if (inside.length <= MOST_DOTS) inside.forEach((i) => shapes.push({ dot: point(i), radius: 2.6, fill: theme.accent }));
  if (path.length) {
    const places = path.map(point);
    if (data.root) places.push(eye.screen(...data.root));
    shapes.push({ path: places, stroke: theme.accent, width: 2 });
    path.slice(1).forEach((i) => shapes.push({ dot: point(i), radius: 3.5, fill: theme.accent }));
  }
  hits.forEach((i) => ring(point(i), 4.5, theme.ink, 1.4));
  for (const { label, x, y, size } of labels) {
    shapes.push({ text: label.short, at: [x, y], size, fill: theme.ink, halo: theme.disc, anchor: "middle" });
  }
  if (outline) shapes.push({ path: outline.map((it) => eye.screen(...it)), closed: true, fill: theme.accent, alpha: 0.1, stroke: theme.accent, width: 1.6 });
  if (selected) ring(eye.screen(selected.x, selected.y), 7, theme.accent, 2.5);
  if (hovered >= 0) ring(point(hovered), 6, theme.accent, 2.5);
  if (drawing) shapes.push({ path: drawing, closed: true, fill: theme.accent, alpha: 0.12, stroke: theme.accent, width: 1.6, dash: [5, 4] });
  return shapes;
}

function onScreen(lines, eye) {
  const segments = [];
  for (let i = 0; i < lines.length; i += 2) segments.push(...eye.screen(lines[i], lines[i + 1]));
  return segments;
}

/** Returns a function that measures the width of a text of a size in pixels, and remembers it. */
export function textMeasure() {
  const pen = document.createElement("canvas").getContext("2d");
  const known = new Map();
  return (text, size) => {
    const key = `${size} ${text}`;
    if (!known.has(key)) {
      pen.font = font(size);
      known.set(key, pen.measureText(text).width);
    }
    return known.get(key);
  };
}
