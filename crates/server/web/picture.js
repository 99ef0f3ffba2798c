// Saves what the map shows, with its legend, as PNG or SVG.

import { el } from "./dom.js";
import { drawShapes, svgShapes } from "./scene.js";

/** Pixels of the PNG file per CSS pixel. */
const RATIO = 2;
/** Height of the legend below the map, in CSS pixels. */
const STRIP = 40;
/** Maximum number of dots that the SVG file has as shapes; more are one picture. Dots at the same place count once. */
const MOST_DOTS = 60_000;

/** The legend below the picture: `entries` are [colour, text] pairs, `title` is at the left. */
function strip({ eye, theme }, { title, entries }) {
  const y = eye.height + STRIP / 2;
  const shapes = [{ text: title, at: [12, y], size: 13, fill: theme.ink, anchor: "start" }];
  let x = 12 + Math.min(eye.width / 2, title.length * 7.4) + 18;
  for (const [colour, text] of entries) {
    shapes.push({ dot: [x, y], radius: 4.5, fill: colour }, { text, at: [x + 9, y], size: 12, fill: theme.ink, anchor: "start" });
    x += 26 + text.length * 7;
  }
  return shapes;
}

/**
 * Saves a PNG. `view` is { eye, theme }, `paint(ratio)` draws the dots at a resolution and returns their canvas, and
 * `shapes` are the marks over them.
 */
export async function savePng(view, legend, paint, shapes) {
  const { eye, theme } = view;
  const canvas = el("canvas", { width: Math.round(eye.width * RATIO), height: Math.round((eye.height + STRIP) * RATIO) });
  const pen = canvas.getContext("2d");
  pen.fillStyle = theme.disc;
  pen.fillRect(0, 0, canvas.width, canvas.height);
  pen.drawImage(paint(RATIO), 0, 0, Math.round(eye.width * RATIO), Math.round(eye.height * RATIO));
  pen.scale(RATIO, RATIO);
  pen.save();
  pen.rect(0, 0, eye.width, eye.height);
  pen.clip();
  drawShapes(pen, shapes);
  pen.restore();
  drawShapes(pen, strip(view, legend));
  const blob = await new Promise((done) => canvas.toBlob(done, "image/png"));
  saveBlob("map.png", blob);
}

/**
 * Saves an SVG. `dots` are the visible points, { x, y, colours } with arrays, and colours packed as by `word` of paint.js;
 * see `savePng` for the rest.
 */
export function saveSvg(view, legend, paint, shapes, dots, radius) {
  const { eye, theme } = view;
  const [width, height] = [Math.round(eye.width), Math.round(eye.height)];
  const back = `<rect width="${width}" height="${height + STRIP}" fill="${theme.disc}"/>`;
  const groups = grouped(dots);
  const points = groups
    ? [...groups].map(([colour, places]) => `<path d="${places.join("")}" fill="none" stroke="${css(colour)}" stroke-width="${2 * radius}" stroke-linecap="round"/>`).join("\n")
    : `<image width="${width}" height="${height}" href="${paint(RATIO).toDataURL("image/png")}"/>`;
  const text = `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height + STRIP}" viewBox="0 0 ${width} ${height + STRIP}">
<clipPath id="stage"><rect width="${width}" height="${height}"/></clipPath>
${back}
<g clip-path="url(#stage)">
${points}
${svgShapes(shapes)}
</g>
${svgShapes(strip(view, legend))}
</svg>
`;
  saveBlob("map.svg", new Blob([text], { type: "image/svg+xml" }));
}

function css(word) {
  return `rgb(${word & 255}, ${(word >>> 8) & 255}, ${(word >>> 16) & 255})`;
}

/** The dots by colour as path steps, each half pixel once; `null` if there are too many. */
function grouped({ x, y, colours }) {
  const groups = new Map();
  const taken = new Set();
  // The last dot at a place covers the others.
  for (let i = x.length - 1; i >= 0; i--) {
    const [px, py] = [Math.round(2 * x[i]), Math.round(2 * y[i])];
    const key = px * 65536 + py;
    if (taken.has(key)) continue;
    taken.add(key);
    if (taken.size > MOST_DOTS) return null;
    const colour = colours[i];
    if (!groups.has(colour)) groups.set(colour, []);
    groups.get(colour).push(`M${px / 2} ${py / 2}h0`);
  }
  return groups;
}

/** Lets the user save a file. */
export function saveBlob(name, blob) {
  const address = URL.createObjectURL(blob);
  const link = el("a", { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  // Revoke the URL after the download has started.
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
