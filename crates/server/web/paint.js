// Colours, and dots for browsers without WebGL: written directly to image memory, because 100,000 canvas calls are too
// slow.

import { moveAll } from "./disc.js";

/** Parses a CSS colour, `#rrggbb` or `rgb(r, g, b)`, into three numbers. */
export function channels(text) {
  const hex = /^#([0-9a-f]{6})$/i.exec(text.trim());
  if (hex) return [0, 2, 4].map((at) => parseInt(hex[1].slice(at, at + 2), 16));
  return (text.match(/[\d.]+/g) ?? [128, 128, 128]).slice(0, 3).map(Number);
}

/** Packs red, green, blue into one word of image memory (little endian: alpha, blue, green, red). */
export function word([r, g, b]) {
  return ((255 << 24) | (Math.round(b) << 16) | (Math.round(g) << 8) | Math.round(r)) >>> 0;
}

/** A colour ramp of 256 words, interpolated between evenly spaced colours. */
export function ramp(stops) {
  return Uint32Array.from({ length: 256 }, (_, i) => {
    const at = i / 255 * (stops.length - 1);
    const low = Math.min(Math.floor(at), stops.length - 2);
    return word([0, 1, 2].map((c) => stops[low][c] + (at - low) * (stops[low + 1][c] - stops[low][c])));
  });
}

/** A round dot of a radius in pixels: the offset and coverage (0 to 1) of each pixel. */
export function stamp(radius) {
  const reach = Math.ceil(radius);
  const pixels = [];
  for (let dy = -reach; dy <= reach; dy++) {
    for (let dx = -reach; dx <= reach; dx++) {
      const cover = Math.min(1, Math.max(0, radius + 0.5 - Math.hypot(dx, dy)));
      if (cover > 0.1) pixels.push([dx, dy, cover]);
    }
  }
  return { reach, pixels };
}

/**
 * Draws point i at (centreX + scale x[i], centreY - scale y[i]) in `colours[i]` over `back`, if `depth[i]` is within
 * `range`. Large dots have smooth edges. Small dots are squares of 2 x 2 pixels, because the difference is not visible.
 */
export function dots(image, { x, y, depth, range: [low, high], colours, back, radius, centreX, centreY, scale }) {
  const { width, height } = image;
  const memory = new Uint32Array(image.data.buffer);
  memory.fill(back);
  const { reach, pixels } = stamp(radius);
  const small = radius < 1.5;
  for (let i = 0; i < x.length; i++) {
    if (!(depth[i] >= low && depth[i] <= high)) continue;
    const px = Math.round(centreX + scale * x[i]);
    const py = Math.round(centreY - scale * y[i]);
    if (px < reach || py < reach || px >= width - reach || py >= height - reach) continue;
    const colour = colours[i];
    const at = py * width + px;
    if (small) {
      memory[at] = memory[at + 1] = memory[at + width] = memory[at + width + 1] = colour;
      continue;
    }
    for (const [dx, dy, cover] of pixels) {
      const to = at + dy * width + dx;
      memory[to] = cover === 1 ? colour : mix(memory[to], colour, cover);
    }
  }
}

function mix(under, over, share) {
  const channel = (shift) => {
    const low = (under >>> shift) & 255;
    return (low + share * (((over >>> shift) & 255) - low)) << shift;
  };
  return (channel(0) | channel(8) | channel(16) | (255 << 24)) >>> 0;
}

/** Returns a renderer with the functions of `pointRenderer` of webgl.js that draws on a 2D canvas. */
export function plainRenderer(canvas) {
  let [x, y, depth, colours] = [new Float32Array(0), new Float32Array(0), new Float32Array(0), new Uint32Array(0)];
  let [movedX, movedY] = [x, y];
  return {
    draw: (eye, { back, range, radius }) => {
      const image = new ImageData(canvas.width, canvas.height);
      const ratio = canvas.width / eye.width;
      moveAll(x, y, eye.ax, eye.ay, movedX, movedY);
      dots(image, { x: movedX, y: movedY, depth, range, colours, back: word(back), radius,
        centreX: ratio * eye.centreX, centreY: ratio * eye.centreY, scale: ratio * eye.scale });
      canvas.getContext("2d").putImageData(image, 0, 0);
    },
    points: (allX, allY, allDepth) => {
      [x, y, depth, colours] = [allX, allY, allDepth, new Uint32Array(allX.length)];
      [movedX, movedY] = [x.slice(), y.slice()];
    },
    colours: (words) => { colours = words; },
    lines: () => {}, // The map draws them among its marks.
  };
}
