// The map: all rows in the Poincare disc with the root at the centre, and the cone of the selected row.

import { get, latest } from "./api.js";
import { cone, Grid, moveAll, moved, quantile, towards } from "./disc.js";
import { count, debounced, el, fill, number } from "./dom.js";
import { brief } from "./long.js";
import { channels, dots, ramp, word } from "./paint.js";
import { caption, face, kindOf, missing, origin, trouble } from "./rows.js";
import { current, MODALITIES, update } from "./state.js";

const LIMIT = 100000;
const LETTERS = { i: "image", t: "text", b: "box_image", p: "box_text" };
/** Maximum distance between the pointer and a point, in CSS pixels. */
const NEAR = 8;

/** Creates the map in `node`. `hits()` returns the rows of the results, which are drawn as rings. */
export function map(node, { info, say, open, hits }) {
  const newest = latest();
  const newestCone = latest();
  const back = el("canvas.dots", { "aria-hidden": "true" });
  const front = el("canvas.marks", { tabIndex: 0, role: "application",
    "aria-label": "Map of all rows: arrows go to the nearest row on that side, Enter selects it, Shift with arrows moves the map, + and − zoom, 0 shows all. With a pointer: drag to move, wheel to zoom, click a point to select its row, double click to centre it" });
  const tip = el("div.tip", { hidden: true, role: "tooltip" });
  const told = el("p.unseen", { role: "status", "aria-live": "polite" });
  const legend = el("div.legend");
  const stage = el("div.stage", {}, back, front, tip, told);
  const colour = el("select", { "aria-label": "Colour by", onchange: () => update({ colour: colour.value }, { replace: true }) },
    el("option", { value: "modality" }, "colour by kind"), el("option", { value: "depth" }, "colour by depth"));
  const tools = el("div.maptools", {}, colour,
    el("button", { type: "button", onclick: () => fit() }, "Fit"),
    el("button", { type: "button", onclick: () => glide(0, 0), title: "Move the root back to the centre" }, "Centre the root"),
    legend);
  const caveat = el("p.hint", {}, "The distance from the centre is the distance from the root: general inside, specific outside. Directions are projected from many dimensions to two, so neighbours on the map need not be neighbours in the space. The cone has its true opening.");

  let data = null;   // { rows, x, y, depth, modality } as typed arrays
  let grid = null;
  let place = new Map();
  let eye = { ax: 0, ay: 0, zoom: 1, x: 0, y: 0 };
  let loading = null;
  let wanted = null; // the selected row; `selected` also has its position once it is loaded
  let selected = null;
  let hovered = -1;  // the point under the pointer or chosen with the arrow keys
  let drawn = { back: false, front: false };
  let shape = { width: 0, height: 0, ratio: 1, radius: 1 };
  let image = null;
  let colours = null;
  let theme = {};
  let motion = 0;
  let fitted = 1;    // the zoom at which nearly all rows are visible

  async function load() {
    fill(node, el("p.busy", {}, "Loading the map …"));
    try {
      const answer = await newest((signal) => get(`/api/map?limit=${LIMIT}`, signal));
      if (!answer) return;
      const [x, y] = [Float64Array.from(answer.x), Float64Array.from(answer.y)];
      data = { rows: answer.rows, trueX: x, trueY: y, x: x.slice(), y: y.slice(), depth: answer.depth, modality: answer.modality };
      place = new Map(answer.rows.map((row, i) => [row, i]));
      grid = new Grid(data.x, data.y);
      fill(node, tools, stage, caveat);
      look();
      resize();
      fit();
      tell();
      await select(current().select);
    } catch (error) {
      data = null;
      fill(node, trouble(missing(error, "map"), () => render(current())));
    }
  }

  function tell() {
    say(data.rows.length < info.rows
      ? `${count(data.rows.length)} of ${count(info.rows)} rows, evenly sampled.`
      : `All ${count(data.rows.length)} rows.`);
  }

  // --- drawing

  function look() {
    const style = getComputedStyle(document.documentElement);
    const value = (name) => style.getPropertyValue(name).trim();
    theme = Object.fromEntries(["disc", "line", "accent", "ink", "image", "text", "box_image", "box_text"]
      .map((name) => [name, value(`--${name.replace("_", "-")}`)]));
    const by = current().colour;
    if (by === "depth") {
      const { min, max } = info.depth;
      const scale = ramp([[52, 90, 190], [46, 158, 142], [226, 176, 60], [205, 66, 52]]);
      colours = Uint32Array.from(data.depth, (v) => scale[Math.max(0, Math.min(255, Math.round(255 * (v - min) / (max - min || 1))))]);
      fill(legend, el("span", {}, `${number(min, 2)}`), el("i.ramp"), el("span", {}, `${number(max, 2)}`));
    } else {
      const words = Object.fromEntries(Object.entries(LETTERS).map(([letter, name]) => [letter, word(channels(theme[name]))]));
      colours = Uint32Array.from(data.modality, (letter) => words[letter]);
      fill(legend, Object.entries(MODALITIES).filter(([name]) => info.modalities[name])
        .map(([name, [, several]]) => el("span", {}, el(`i.dot.${name}`), several)));
    }
    redraw();
  }

  function resize() {
    const box = stage.getBoundingClientRect();
    if (!box.width || !box.height) return;
    const ratio = Math.min(window.devicePixelRatio || 1, 2);
    shape = { width: box.width, height: box.height, ratio, radius: Math.min(box.width, box.height) / 2 - 14 };
    for (const canvas of [back, front]) {
      canvas.width = Math.round(box.width * ratio);
      canvas.height = Math.round(box.height * ratio);
    }
    image = new ImageData(back.width, back.height);
    redraw();
  }

  function redraw(both = true) {
    const idle = !drawn.back && !drawn.front;
    drawn = { back: drawn.back || both, front: true };
    if (both) tip.hidden = true; // the point under the tooltip has moved
    if (idle) requestAnimationFrame(frame);
  }

  function frame() {
    const begun = performance.now();
    if (drawn.back && image) {
      const ratio = shape.ratio;
      // Dots grow with the zoom, but more slowly.
      const grown = Math.min(2, Math.max(1, eye.zoom / fitted) ** 0.3);
      const radius = ratio * grown * (data.rows.length > 40000 ? 0.7 : data.rows.length > 8000 ? 1.5 : 2.4);
      dots(image, { x: data.x, y: data.y, colours, back: word(channels(theme.disc)), radius,
        centreX: ratio * (shape.width / 2 + eye.x), centreY: ratio * (shape.height / 2 + eye.y), scale: ratio * shape.radius * eye.zoom });
      back.getContext("2d").putImageData(image, 0, 0);
    }
    marks();
    drawn = { back: false, front: false };
    front.dataset.ms = (performance.now() - begun).toFixed(2); // read by drive.py
  }

  const screen = ([x, y]) => [shape.width / 2 + eye.x + shape.radius * eye.zoom * x, shape.height / 2 + eye.y - shape.radius * eye.zoom * y];
  const disc = (px, py) => [(px - shape.width / 2 - eye.x) / (shape.radius * eye.zoom), (shape.height / 2 + eye.y - py) / (shape.radius * eye.zoom)];

  function marks() {
    const pen = front.getContext("2d");
    pen.setTransform(shape.ratio, 0, 0, shape.ratio, 0, 0);
    pen.clearRect(0, 0, shape.width, shape.height);
    const [cx, cy] = screen([0, 0]);
    pen.strokeStyle = theme.line;
    pen.lineWidth = 1.2;
    pen.beginPath();
    pen.arc(cx, cy, shape.radius * eye.zoom, 0, 2 * Math.PI);
    pen.stroke();
    const cross = screen(moved(0, 0, eye.ax, eye.ay));
    pen.strokeStyle = theme.ink;
    pen.beginPath();
    pen.moveTo(cross[0] - 6, cross[1]);
    pen.lineTo(cross[0] + 6, cross[1]);
    pen.moveTo(cross[0], cross[1] - 6);
    pen.lineTo(cross[0], cross[1] + 6);
    pen.stroke();
    if (selected) outline(pen, selected);
    pen.strokeStyle = theme.ink;
    pen.lineWidth = 1.4;
    for (const hit of hits()) {
      const i = place.get(hit.row);
      if (i !== undefined) ring(pen, screen([data.x[i], data.y[i]]), 4.5);
    }
    pen.strokeStyle = theme.accent;
    pen.lineWidth = 2.5;
    if (selected) ring(pen, screen(moved(selected.x, selected.y, eye.ax, eye.ay)), 7);
    if (hovered >= 0) ring(pen, screen([data.x[hovered], data.y[hovered]]), 6);
  }

  function ring(pen, [x, y], radius) {
    pen.beginPath();
    pen.arc(x, y, radius, 0, 2 * Math.PI);
    pen.stroke();
  }

  function outline(pen, { x, y, aperture }) {
    pen.beginPath();
    for (const point of cone(x, y, aperture)) pen.lineTo(...screen(moved(...point, eye.ax, eye.ay)));
    pen.closePath();
    pen.fillStyle = theme.accent;
    pen.globalAlpha = 0.16;
    pen.fill();
    pen.globalAlpha = 0.9;
    pen.strokeStyle = theme.accent;
    pen.lineWidth = 1.2;
    pen.stroke();
    pen.globalAlpha = 1;
  }

  // --- moving

  /** Zooms so that nearly all rows are visible, with the root at the centre. */
  function fit() {
    cancelAnimationFrame(motion);
    centre(0, 0);
    const far = quantile(data.trueX.map((x, i) => Math.hypot(x, data.trueY[i])), 0.995);
    fitted = Math.min(60, Math.max(1, 0.95 / Math.max(far, 1e-6)));
    eye = { ...eye, x: 0, y: 0, zoom: fitted };
    redraw();
  }

  function centre(ax, ay) {
    eye = { ...eye, ax, ay };
    moveAll(data.trueX, data.trueY, ax, ay, data.x, data.y);
    grid = null;
  }

  /** Moves a point of the original disc to the centre by an isometry, which enlarges its surroundings. */
  function glide(toX, toY) {
    const { ax, ay, x, y } = eye;
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    const begun = performance.now();
    cancelAnimationFrame(motion);
    const step = (now) => {
      const t = still ? 1 : Math.min(1, Math.max(0, (now - begun) / 300));
      const ease = t * t * (3 - 2 * t);
      centre(ax + ease * (toX - ax), ay + ease * (toY - ay));
      eye = { ...eye, x: x * (1 - ease), y: y * (1 - ease) };
      redraw();
      if (t < 1) motion = requestAnimationFrame(step);
    };
    motion = requestAnimationFrame(step);
  }

  function zoom(factor, px = shape.width / 2, py = shape.height / 2) {
    const next = Math.min(2000, Math.max(0.5, eye.zoom * factor));
    const grown = next / eye.zoom;
    const [cx, cy] = [px - shape.width / 2, py - shape.height / 2];
    eye = { ...eye, zoom: next, x: cx + (eye.x - cx) * grown, y: cy + (eye.y - cy) * grown };
    redraw();
  }

  function under(px, py, reach = NEAR) {
    grid ??= new Grid(data.x, data.y);
    return grid.nearest(...disc(px, py), reach / (shape.radius * eye.zoom));
  }

  const fingers = new Map();
  let travelled = 0;
  const at = (event) => {
    const box = front.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  front.addEventListener("pointerdown", (event) => {
    front.setPointerCapture(event.pointerId);
    fingers.set(event.pointerId, at(event));
    travelled = 0;
  });
  front.addEventListener("pointermove", (event) => {
    const here = at(event);
    const before = fingers.get(event.pointerId);
    if (!before) return hover(here);
    const others = [...fingers].filter(([id]) => id !== event.pointerId);
    fingers.set(event.pointerId, here);
    travelled += Math.hypot(here[0] - before[0], here[1] - before[1]);
    if (others.length === 1) {
      const [ox, oy] = others[0][1];
      const span = (p) => Math.max(1, Math.hypot(p[0] - ox, p[1] - oy));
      zoom(span(here) / span(before), (here[0] + ox) / 2, (here[1] + oy) / 2);
    } else {
      pan(here[0] - before[0], here[1] - before[1]);
    }
    hover(null);
  });
  front.addEventListener("pointerup", (event) => {
    fingers.delete(event.pointerId);
    if (travelled > 4) return;
    const i = under(...at(event));
    hover(null);
    if (i >= 0) open({ row: data.rows[i] });
  });
  front.addEventListener("pointercancel", (event) => fingers.delete(event.pointerId));
  front.addEventListener("pointerleave", () => hover(null));
  front.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0018)), ...at(event));
  }, { passive: false });
  front.addEventListener("dblclick", (event) => {
    const [x, y] = disc(...at(event));
    if (x * x + y * y >= 0.998) return;
    glide(...moved(x, y, -eye.ax, -eye.ay));
  });
  front.addEventListener("keydown", (event) => {
    const arrow = (axis, forward, x, y) => () => (event.shiftKey ? pan(x, y) : walk(axis, forward));
    const nearer = (factor) => () => zoom(factor, ...(hovered >= 0 ? screen([data.x[hovered], data.y[hovered]]) : []));
    const choose = () => hovered >= 0 && open({ row: data.rows[hovered] });
    const keys = { "+": nearer(1.25), "=": nearer(1.25), "-": nearer(0.8), 0: fit, Enter: choose, " ": choose,
      ArrowLeft: arrow("x", false, 40, 0), ArrowRight: arrow("x", true, -40, 0),
      ArrowUp: arrow("y", true, 0, 40), ArrowDown: arrow("y", false, 0, -40) };
    if (!keys[event.key] || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    event.stopPropagation();
    keys[event.key]();
  });
  front.addEventListener("blur", () => point(-1));

  function pan(x, y) {
    eye = { ...eye, x: eye.x + x, y: eye.y + y };
    redraw();
  }

  /** Goes to the nearest point in a direction; at first to the selected row or the point nearest to the view centre. */
  function walk(axis, forward) {
    const seen = (i) => {
      const [x, y] = i >= 0 ? screen([data.x[i], data.y[i]]) : [-1, -1];
      return x >= 0 && y >= 0 && x <= shape.width && y <= shape.height;
    };
    const first = [place.get(wanted) ?? -1, under(shape.width / 2, shape.height / 2, Infinity)].find(seen) ?? -1;
    const next = seen(hovered) ? towards(data.x, data.y, hovered, axis, forward) : first;
    if (next < 0) {
      told.textContent = "No row on this side.";
      return;
    }
    if (!seen(next)) {
      const [x, y] = screen([data.x[next], data.y[next]]);
      pan(shape.width / 2 - x, shape.height / 2 - y);
    }
    point(next, true);
  }

  // --- hovering and selection

  const describeRow = debounced(async (row, i, aloud) => {
    if (hovered !== i) return;
    try {
      const hit = await newest((signal) => get(`/api/rows/${row}`, signal));
      if (!hit || hovered !== i) return;
      fill(tip, el("div.face", {}, face(hit, 128)), el("p", {}, brief(caption(hit))), origin(hit) ? el("p.origin", {}, brief(origin(hit), 80)) : null, el("p.facts", {}, kindOf(hit), ` · depth ${number(hit.depth)}`));
      if (aloud) told.textContent = `${kindOf(hit)}: ${brief(caption(hit))}, depth ${number(hit.depth)}`;
      const [x, y] = screen([data.x[i], data.y[i]]);
      tip.hidden = false;
      tip.style.left = `${Math.max(4, Math.min(x + 14, shape.width - tip.offsetWidth - 4))}px`;
      tip.style.top = `${Math.max(4, Math.min(y + 14, shape.height - tip.offsetHeight - 4))}px`;
    } catch {
      tip.hidden = true;
    }
  }, 70);

  function hover(here) {
    point(here && data ? under(...here) : -1);
  }

  /** Marks a point and shows its tooltip; with `aloud`, also announces it to screen readers. */
  function point(i, aloud = false) {
    if (i === hovered) return;
    hovered = i;
    front.classList.toggle("over", i >= 0);
    tip.hidden = true;
    told.textContent = "";
    if (i >= 0) describeRow(data.rows[i], i, aloud);
    redraw(false);
  }

  async function select(row) {
    wanted = row;
    selected = null;
    if (row === null) {
      newestCone.stop();
      return redraw(false);
    }
    try {
      const found = await newestCone((signal) => get(`/api/map/row/${row}`, signal));
      if (!found) return;
      selected = { row, ...found };
    } catch {
      // The details panel shows the error of this row.
    }
    redraw(false);
  }

  new ResizeObserver(() => data && resize()).observe(stage);
  new MutationObserver(() => data && look()).observe(document.documentElement, { attributeFilter: ["data-theme"] });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => data && look());

  async function render(state, before) {
    colour.value = state.colour;
    if (!data) {
      loading ??= load().finally(() => { loading = null; });
      return;
    }
    if (!node.contains(stage)) fill(node, tools, stage, caveat);
    if (!before || state.colour !== before.colour) look();
    tell();
    if (wanted !== state.select) await select(state.select);
    redraw();
  }

  return { render };
}
