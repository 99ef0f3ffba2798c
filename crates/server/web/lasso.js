// Finds the points inside an outline that the user has drawn on the map.

import { moved } from "./disc.js";

/**
 * The pixels inside a closed outline, as one byte per pixel of the stage. A pixel is inside if a line from its centre to
 * the left crosses the outline an odd number of times.
 */
export function insideMask(outline, width, height) {
  const mask = new Uint8Array(width * height);
  const crossings = Array.from({ length: height }, () => []);
  outline.forEach(([ax, ay], i) => {
    const [bx, by] = outline[(i + 1) % outline.length];
    const [top, low] = [Math.min(ay, by), Math.max(ay, by)];
    const end = Math.min(height - 1, Math.ceil(low - 0.5) - 1);
    for (let line = Math.max(0, Math.ceil(top - 0.5)); line <= end; line++) {
      crossings[line].push(ax + (line + 0.5 - ay) / (by - ay) * (bx - ax));
    }
  });
  crossings.forEach((found, line) => {
    found.sort((a, b) => a - b);
    for (let i = 0; i + 1 < found.length; i += 2) {
      const from = Math.max(0, Math.ceil(found[i] - 0.5));
      const to = Math.min(width, Math.ceil(found[i + 1] - 0.5));
      if (to > from) mask.fill(1, line * width + from, line * width + to);
    }
  });
  return mask;
}

/** The indices of the points inside the outline whose depths are within `range`, as a Uint32Array in ascending order. */
export function pointsInside({ x, y, depth }, eye, outline, [low, high]) {
  const [width, height] = [Math.ceil(eye.width), Math.ceil(eye.height)];
  const mask = insideMask(outline, width, height);
  const { ax, ay, centreX, centreY, scale } = eye;
  const found = new Uint32Array(x.length);
  let count = 0;
  const still = ax === 0 && ay === 0;
  for (let i = 0; i < x.length; i++) {
    if (!(depth[i] >= low && depth[i] <= high)) continue;
    let mx = x[i];
    let my = y[i];
    if (!still) [mx, my] = moved(mx, my, ax, ay);
    const px = Math.floor(centreX + scale * mx);
    const py = Math.floor(centreY - scale * my);
    if (px < 0 || py < 0 || px >= width || py >= height || !mask[py * width + px]) continue;
    found[count++] = i;
  }
  return found.slice(0, count);
}

/** Number of depth ranges that `shallowest` counts, to sort only as many points as needed. */
const RANGES = 4096;

/** The first `count` of the points by depth, most general first; points of equal depth by index. */
export function shallowest(found, depth, count) {
  let min = Infinity;
  let max = -Infinity;
  for (const i of found) {
    if (depth[i] < min) min = depth[i];
    if (depth[i] > max) max = depth[i];
  }
  const scale = RANGES / (max - min || 1);
  const ranges = new Uint16Array(found.length);
  const counts = new Uint32Array(RANGES);
  for (let at = 0; at < found.length; at++) {
    ranges[at] = Math.min(RANGES - 1, (depth[found[at]] - min) * scale);
    counts[ranges[at]]++;
  }
  let [last, before] = [0, counts[0]];
  while (before < count && last + 1 < RANGES) before += counts[++last];
  const some = [];
  for (let at = 0; at < found.length; at++) {
    if (ranges[at] <= last) some.push(found[at]);
  }
  return some.sort((a, b) => depth[a] - depth[b] || a - b).slice(0, count);
}
