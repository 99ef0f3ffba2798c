// The colours of the points of the map: by kind, by depth or by the values of a column, with their legend.

import { number } from "./dom.js";
import { brief } from "./long.js";
import { channels, ramp, word } from "./paint.js";
import { COLUMN, MODALITIES } from "./state.js";
import { BEHIND } from "./webgl.js";

const KINDS = Object.keys(MODALITIES);
/** Colours that colour-blind readers can tell apart, as in the maps of `conifer project`. */
const PALETTE = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#a6761d", "#7570b3"];
const OTHER = "#a3a8ad";
const OTHER_CODE = 255;
const STOPS = [[52, 90, 190], [46, 158, 142], [226, 176, 60], [205, 66, 52]];
const SCALE = ramp(STOPS);

/** The column that a state colours by, or `null`. */
export function columnOf(state) {
  return state.colour.startsWith(COLUMN) ? state.colour.slice(COLUMN.length) : null;
}

/**
 * The colours of the points as `words`, `behind` (true if some points have the colour of other values) and `legend`:
 * { entries: [[colour, text], ...] }, or { min, max } for numbers. `coded` are the codes of the column that `by` names,
 * from `loadCodes`.
 */
export function colourPoints(data, by, coded, info, theme) {
  const { depth, modality } = data;
  if (by === "depth") return scaled(depth.length, (i) => depth[i], info.depth);
  if (by.startsWith(COLUMN) && coded) {
    const { codes, names, min, max } = coded;
    if (!names.length && min !== null) return scaled(codes.length, (i) => (codes[i] === OTHER_CODE ? NaN : min + codes[i] / 254 * (max - min)), { min, max });
    const words = new Uint32Array(256).fill(other());
    names.forEach((_, i) => { words[i] = word(channels(PALETTE[i])); });
    const others = codes.includes(OTHER_CODE);
    return { words: Uint32Array.from(codes, (code) => words[code]), behind: others,
      legend: { entries: [...names.map((name, i) => [PALETTE[i], name === "" ? "(empty)" : brief(name, 28)]), ...(others ? [[OTHER, "other"]] : [])] } };
  }
  const words = KINDS.map((name) => word(channels(theme[name])));
  const there = KINDS.filter((name) => info.modalities[name]);
  return { words: Uint32Array.from(modality, (kind) => words[kind]), behind: false, legend: { entries: there.map((name) => [theme[name], MODALITIES[name][1]]) } };
}

function scaled(count, value, { min, max }) {
  const words = new Uint32Array(count);
  const unknown = other();
  for (let i = 0; i < count; i++) {
    const share = (value(i) - min) / (max - min || 1);
    words[i] = Number.isNaN(share) ? unknown : SCALE[Math.max(0, Math.min(255, Math.round(255 * share)))];
  }
  return { words, behind: words.includes(unknown), legend: { min, max } };
}

/** The word of a point without an own colour. */
function other() {
  return ((word(channels(OTHER)) & 0xffffff) | (BEHIND << 24)) >>> 0;
}

/** The entries of a legend as [colour, text] pairs. */
export function legendEntries({ entries, min, max }) {
  if (entries) return entries;
  const css = ([r, g, b]) => `rgb(${r}, ${g}, ${b})`;
  return STOPS.map((stop, i) => [css(stop), number(min + i / (STOPS.length - 1) * (max - min), 2)]);
}
