// The second stage of the map: the rows of another set (`conifer serve --beside`), linked to those of the first by id.

import { get, getBytes, latest } from "./api.js";
import { Grid, moved } from "./disc.js";
import { count, el, fill, number } from "./dom.js";
import { Eye } from "./eye.js";
import { placeLabels, withDistances } from "./labels.js";
import { pointsInside } from "./lasso.js";
import { brief } from "./long.js";
import { markShapes, textMeasure } from "./marks.js";
import { dotSize, mover } from "./moving.js";
import { channels, plainRenderer, word } from "./paint.js";
import { followPointer } from "./pointer.js";
import { loadPoints, parsePoints, shrinkPoint } from "./points.js";
import { drawShapes } from "./scene.js";
import { current, MODALITIES } from "./state.js";
import { rowTip } from "./tip.js";
import { BEHIND, pointRenderer } from "./webgl.js";

const LIMIT = 1_000_000;
const PLAIN_LIMIT = 100_000;
const NEAR = 8;
const EVERY_DEPTH = [-1e30, 1e30];
/** In an array of links: the row has none. */
const NONE = 0xffffffff;
const UNLINKED = "#a3a8ad";
const KINDS = Object.values(MODALITIES).map(([one]) => one);

/**
 * Creates the second stage. `on` has `hover(row)` with a row of the first set or `null`, `open(row)`, `outlined(rows, all)` with the
 * linked rows in an outline and the number of its points, `lassoing()`, and `say(text)`. Returns the node, and functions that mark what
 * is marked on the first stage.
 */
export function besideStage(summary, on) {
  let back = el("canvas.dots", { "aria-hidden": "true" });
  const front = el("canvas.marks", { role: "img", "aria-label": `Map of ${summary.title}: drag to move, wheel to zoom, click a point to select its row` });
  let renderer = pointRenderer(back, () => redraw());
  const limit = renderer ? LIMIT : PLAIN_LIMIT;
  if (!renderer) {
    back = el("canvas.dots", { "aria-hidden": "true" });
    renderer = plainRenderer(back);
  }
  const eye = new Eye();
  const tip = rowTip(eye);
  const stage = el("div.stage", {}, back, front, tip.node);
  const layer = el("select", { "aria-label": "Layer of the second set", onchange: () => load(layer.value) });
  const words = el("p.hint");
  const node = el("section.beside", { "aria-label": `Map of ${summary.title}` }, el("header", {}, el("b", {}, brief(summary.title, 60)), layer, words), stage);
  const measure = textMeasure();
  const newest = latest();
  const move = mover(eye, () => redraw());

  let data = null;
  let grid = null;
  let labels = [];
  let ofFirst = null;  // row of this set by row of the first
  let toFirst = null;  // row of the first set by row of this one
  let places = null;   // index of a point by row of this set
  let drawing = null;
  let outline = null;
  let hovered = -1;
  let marked = { hits: [], selected: null, hovered: null, outlined: new Set(), colour: () => null, accent: "", theme: {} };
  let queued = false;

  async function load(name) {
    try {
      const found = await newest(async (signal) => {
        const [{ layers }, links] = await Promise.all([get("/api/map/layers?beside=true", signal), ofFirst ? null : getBytes("/api/map/links", signal)]);
        const chosen = layers.some((it) => it.name === name) ? name : layers[0].name;
        const fields = new URLSearchParams({ layer: chosen, beside: true });
        const [points, { labels: all }] = await Promise.all([loadPoints(chosen, limit, signal, true), get(`/api/map/labels?${fields}`, signal)]);
        return { layers, links, points, all };
      });
      if (!found) return;
      if (found.links) link(parsePoints(found.links).arrays);
      data = found.points;
      places = filled(summary.rows);
      data.rows.forEach((row, i) => { places[row] = i; });
      grid = new Grid(data.x, data.y);
      labels = withDistances(data.disc ? found.all : found.all.map((it) => {
        const [x, y] = shrinkPoint([it.x, it.y], data.extent);
        return { ...it, x, y, reach: it.reach / data.extent.size };
      }));
      fill(layer, found.layers.map((it) => el("option", { value: it.name }, brief(it.title, 60))));
      layer.value = data.layer;
      layer.hidden = found.layers.length < 2;
      const some = data.rows.length < data.total ? `${count(data.rows.length)} of ${count(data.total)} rows, evenly sampled` : `${count(data.rows.length)} rows`;
      words.textContent = `${some}. The sets share ${count(summary.shared_ids)} ids; ${count(summary.linked_rows)} rows are linked by id and kind and have the colours of the first map, the others are grey.`;
      outline = null;
      renderer.points(data.x, data.y, data.depth);
      resize();
      move.fit(data);
      paint();
      front.dataset.layer = data.layer;
    } catch (error) {
      on.say(error.message);
    }
  }

  function link({ row, beside }) {
    toFirst = filled(summary.rows);
    ofFirst = filled(row.length ? row[row.length - 1] + 1 : 0);
    row.forEach((ours, i) => {
      ofFirst[ours] = beside[i];
      toFirst[beside[i]] = ours;
    });
  }

  const filled = (length) => new Uint32Array(length).fill(NONE);

  /** The index of the point that is linked to a row of the first set, or -1. */
  function pointOf(row) {
    const here = row === null || !ofFirst || row >= ofFirst.length ? NONE : ofFirst[row];
    const i = here === NONE ? NONE : places[here];
    return i === NONE ? -1 : i;
  }

  /** The row of the first set that is linked to a point, or `null`. */
  function firstOf(i) {
    const row = i < 0 ? NONE : toFirst[data.rows[i]];
    return row === NONE ? null : row;
  }

  /** Colours the points as those of the first map. */
  function paint() {
    if (!data) return;
    const grey = ((word(channels(UNLINKED)) & 0xffffff) | (BEHIND << 24)) >>> 0;
    const outlined = marked.outlined.size ? word(channels(marked.accent)) : 0;
    renderer.colours(Uint32Array.from(data.rows, (_, i) => {
      const row = firstOf(i);
      if (row === null) return grey;
      return marked.outlined.has(row) ? outlined : marked.colour(row) ?? grey;
    }), true);
    redraw();
  }

  function resize() {
    const box = front.getBoundingClientRect();
    if (!box.width || !box.height) return;
    eye.resize(box.width, box.height, Math.min(window.devicePixelRatio || 1, 2));
    for (const canvas of [back, front]) Object.assign(canvas, { width: Math.round(eye.width * eye.ratio), height: Math.round(eye.height * eye.ratio) });
    redraw();
  }

  function redraw() {
    if (queued) return;
    queued = true;
    requestAnimationFrame(frame);
  }

  const range = () => current().depth ?? EVERY_DEPTH;
  const shown = (i) => data.depth[i] >= range()[0] && data.depth[i] <= range()[1];

  function frame() {
    queued = false;
    if (!data || !eye.width || !marked.theme.disc) return;
    const { theme } = marked;
    renderer.draw(eye, { back: channels(theme.disc), range: range(), radius: eye.ratio * dotSize(data.rows.length, eye.zoom / move.fitted()), lineColour: channels(theme.ink), lineAlpha: 0.55 });
    const chosen = pointOf(marked.selected);
    const there = hovered >= 0 ? hovered : pointOf(marked.hovered);
    const pen = front.getContext("2d");
    pen.setTransform(eye.ratio, 0, 0, eye.ratio, 0, 0);
    pen.clearRect(0, 0, eye.width, eye.height);
    drawShapes(pen, markShapes({ eye, theme, data, path: [], inside: [], hovered: there, outline, drawing, lines: null,
      selected: chosen >= 0 ? { x: data.x[chosen], y: data.y[chosen] } : null,
      hits: marked.hits.map(pointOf).filter((i) => i >= 0 && shown(i)),
      labels: current().labels ? placeLabels(labels, eye, range(), measure) : [] }));
    front.dataset.hovered = there < 0 ? "" : data.rows[there]; // read by drive.py
    front.dataset.selected = chosen < 0 ? "" : data.rows[chosen];
  }

  function hover(i) {
    if (i === hovered) return;
    hovered = i;
    front.classList.toggle("over", i >= 0);
    tip.hide();
    const row = firstOf(i);
    on.hover(row);
    const at = () => eye.screen(data.x[i], data.y[i]);
    if (row !== null) tip.show(row, at, () => hovered === i);
    else if (i >= 0) tip.say(`${KINDS[data.modality[i]]} · depth ${number(data.depth[i])} · not in the first set`, at());
    redraw();
  }

  const under = (px, py) => grid.nearest(...eye.under(px, py), NEAR / eye.scale, eye.ax, eye.ay, shown);

  followPointer(front, on.lassoing, {
    hover: (here) => hover(here && data ? under(...here) : -1),
    pan: (x, y) => {
      eye.pan(x, y);
      redraw();
    },
    zoom: (factor, px, py) => {
      eye.zoomBy(factor, px, py);
      redraw();
    },
    click: (px, py) => {
      const row = data ? firstOf(under(px, py)) : null;
      if (row !== null) on.open(row);
    },
    centre: (px, py) => {
      if (on.lassoing() || !data) return;
      const [x, y] = eye.under(px, py);
      if (!data.disc) move.glide(data, x, y);
      else if (x * x + y * y < 0.998) move.glide(data, ...moved(x, y, -eye.ax, -eye.ay));
    },
    drawing: (corners) => {
      drawing = corners;
      redraw();
    },
    drawn: (corners) => {
      const found = pointsInside(data, eye, corners, range());
      outline = corners.map(([x, y]) => moved(...eye.under(x, y), -eye.ax, -eye.ay));
      on.outlined([...found].map(firstOf).filter((row) => row !== null).sort((a, b) => a - b), found.length);
    },
  });

  new ResizeObserver(() => data && resize()).observe(stage);

  /**
   * Marks rows of the first set: `hits` (list), `selected` and `hovered` (row or `null`), `outlined` (list); `colour(row)` returns the word
   * of the colour of a row, `accent` and `theme` are colours.
   */
  function mark(change) {
    const repaint = "colour" in change || "outlined" in change || "theme" in change;
    if (change.outlined) change.outlined = new Set(change.outlined);
    marked = { ...marked, ...change };
    if (repaint) paint();
    else redraw();
  }

  return { node, stage, load, mark, fit: () => data && move.fit(data), clear: () => { outline = null; }, isLoaded: () => data !== null };
}
