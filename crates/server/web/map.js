// The map: all rows in the Poincare disc, or in another projection, with the cone of the selected row.

import { get, latest, post } from "./api.js";
import { besideStage } from "./beside.js";
import { colourPoints, columnOf, legendEntries } from "./colours.js";
import { contours } from "./contours.js";
import { depthSlider } from "./depth.js";
import { Grid, moved, towards } from "./disc.js";
import { count, debounced, el, fill, number } from "./dom.js";
import { Eye } from "./eye.js";
import { foundRows } from "./found.js";
import { placeLabels, pointLabels, withDistances } from "./labels.js";
import { pointsInside } from "./lasso.js";
import { brief } from "./long.js";
import { markShapes, textMeasure } from "./marks.js";
import { newLayer } from "./newlayer.js";
import { channels, plainRenderer } from "./paint.js";
import { savePng, saveSvg } from "./picture.js";
import { dotSize, mover } from "./moving.js";
import { followPointer } from "./pointer.js";
import { indexOf, loadCodes, loadPoints, shrinkPoint } from "./points.js";
import { caption, missing, trouble } from "./rows.js";
import { savePage } from "./savedpage.js";
import { drawShapes } from "./scene.js";
import { COLUMN, current, START, update } from "./state.js";
import { rowTip } from "./tip.js";
import { loadWay, markInside, wayEntries } from "./way.js";
import { pointRenderer } from "./webgl.js";

/** Maximum number of points with WebGL, and without. */
const LIMIT = 1_000_000;
const PLAIN_LIMIT = 100_000;
/** Maximum distance between the pointer and a point, in CSS pixels. */
const NEAR = 8;
/** Maximum number of points on the stage that are named one by one. */
const NAMED = 40;
/** Finite, because a shader may not compare infinity. */
const EVERY_DEPTH = [-1e30, 1e30];
const NO_LINES = new Float32Array(0);
const SAID = {
  disc: "The distance from the centre is the distance from the root: general inside, specific outside. Directions are projected from many dimensions to two, so neighbours on the map need not be neighbours in the space. The cone has its true opening.",
  other: "Depths and the depth range are those of the set, also where the map shows only one factor. The cone of the selected row is that of the full space: its rows have the colour of the cone, wherever this map places them.",
};

/** Creates the map in `node`. `hits()` returns the rows of the results, which are drawn as rings. */
export function map(node, { info, say, open, hits }) {
  const newest = latest();
  const newestNames = latest();
  const newestCone = latest();
  let back = el("canvas.dots", { "aria-hidden": "true" });
  const front = el("canvas.marks", { tabIndex: 0, role: "application",
    "aria-label": "Map of all rows: arrows go to the nearest row on that side, Enter selects it, Shift with arrows moves the map, + and − zoom, 0 shows all, l draws an outline. With a pointer: drag to move, wheel to zoom, click a point to select its row, double click to centre it" });
  let renderer = pointRenderer(back, () => redraw());
  const limit = renderer ? LIMIT : PLAIN_LIMIT;
  if (!renderer) {
    // A canvas that was asked for WebGL gives no 2D context.
    back = el("canvas.dots", { "aria-hidden": "true" });
    renderer = plainRenderer(back);
  }
  front.dataset.renderer = limit === LIMIT ? "webgl" : "2d";
  const eye = new Eye();
  const tip = rowTip(eye);
  const told = el("p.unseen", { role: "status", "aria-live": "polite" });
  const stage = el("div.stage", {}, back, front, tip.node, told);
  const stages = el("div.stages", {}, stage);
  const listed = el("section.found", { hidden: true, "aria-label": "Rows in the outline" });
  const list = foundRows(listed, { info, open, cleared: () => {
    outline = null;
    marked = null;
    beside?.clear();
    beside?.mark({ outlined: [] });
    look();
  } });
  const caveat = el("p.hint");

  let data = null;   // from loadPoints
  let grid = null;
  let labels = [];
  let names = [];    // labels of single points, if only a few are on the stage
  let layers = [];
  let lines = NO_LINES;
  let coded = null;  // from loadCodes, of the column that the state names
  let legend = { entries: [] };
  let colours = new Uint32Array(0); // of the points, as drawn
  let range = EVERY_DEPTH;
  let beside = null; // from besideStage, if the server has a second set
  let loading = null; // name of the layer that is being loaded
  let wanted = null; // the selected row; `selected` also has its position once it is loaded
  let selected = null;
  let way = null;    // from loadWay, of the selected row in a layer other than the built-in disc
  let hovered = -1;  // the point under the pointer or chosen with the arrow keys
  let outline = null; // of the last lasso, in map coordinates; `drawing` is the one in progress, on the screen
  let drawing = null;
  let lassoing = false;
  let drawn = { back: false, front: false };
  let theme = {};
  let marked = null; // indices of the points whose rows are outlined on the second stage
  const move = mover(eye, () => redraw());
  const measure = textMeasure();

  // --- tools

  const picked = (name, options, props) => el("select", { "aria-label": name, ...props }, options.map(([value, text]) => el("option", { value }, text)));
  const layer = picked("Layer", [], { onchange: () => update({ layer: layer.value }) });
  const colour = picked("Colour by", [["modality", "colour by kind"], ["depth", "colour by depth"],
    ...info.columns.filter((it) => it.distinct > 1).map((it) => [COLUMN + it.name, `colour by ${brief(it.name, 40)}`])],
  { onchange: () => update({ colour: colour.value }, { replace: true }) });
  const tick = (field, text) => el("label.tick", {}, el("input", { type: "checkbox", id: `map-${field}`,
    onchange: (event) => update({ [field]: event.target.checked }, { replace: true }) }), el("span", {}, text));
  const lasso = el("button", { type: "button", id: "lasso", "aria-pressed": "false", title: "Draw around points to list their rows (l)", onclick: () => lassoMode(!lassoing) }, "Lasso");
  const keepDepth = debounced((change) => update(change, { replace: true }), 120);
  const slider = depthSlider(info.depth, ({ depth }) => {
    showRange(depth); // at once; the address and the results follow
    keepDepth({ depth });
  });
  const legendNode = el("div.legend");
  const maker = el("details.newlayer");
  const showJob = newLayer(maker, { info, ready: (reply, name) => {
    listLayers(reply.layers);
    if (current().view === "map") update({ layer: name });
  } });
  const tools = el("div.maptools", {}, layer, colour, tick("labels", "labels"), tick("contours", "density"),
    el("button", { type: "button", onclick: () => fit() }, "Fit"),
    el("button", { type: "button", onclick: () => glide(...(data.root ?? [0, 0])), title: "Move the root back to the centre" }, "Root"),
    lasso,
    el("button", { type: "button", id: "in-view", title: "List the rows of all points on the stage", onclick: () =>
      encircled([[0, 0], [eye.width, 0], [eye.width, eye.height], [0, eye.height]]) }, "List view"),
    el("button", { type: "button", id: "save-png", title: "Save what the map shows as PNG", onclick: () => savePicture("png") }, "PNG"),
    el("button", { type: "button", id: "save-svg", title: "Save what the map shows as SVG", onclick: () => savePicture("svg") }, "SVG"),
    el("button", { type: "button", id: "save-html", title: "Save the points on the stage as one HTML file with zoom and texts, which needs no network", onclick: saveHtml }, "HTML"),
    el("div.deep", { title: "Show only points of these depths" }, slider.node), legendNode, maker);

  function listLayers(all) {
    layers = all;
    fill(layer, layers.map((it) => el("option", { value: it.name }, brief(it.title, 60))));
    layer.hidden = layers.length < 2;
    if (data) layer.value = data.layer;
  }

  function openBeside(summary) {
    if (!summary || beside) return;
    beside = besideStage(summary, { say, lassoing: () => lassoing, open: (row) => open({ row }),
      hover: (row) => {
        hovered = row === null ? -1 : indexOf(data.rows, row);
        redraw(false);
      },
      outlined: (rows, all) => {
        outline = null;
        marked = Uint32Array.from(rows.map((row) => indexOf(data.rows, row)).filter((i) => i >= 0));
        list.show(data, marked);
        told.textContent = `${count(marked.length)} of the ${count(all)} rows in the outline are on the first map, listed below it`;
        beside.mark({ outlined: [] });
        lassoMode(false);
        look();
      } });
    stages.append(beside.node);
    stages.classList.add("two");
    beside.load(START.layer);
  }

  async function load(state) {
    fill(node, el("p.busy", {}, "Loading the map …"));
    data = null;
    try {
      const all = await newest(async (signal) => {
        const there = await get("/api/map/layers", signal);
        const name = there.layers.some((it) => it.name === state.layer) ? state.layer : START.layer;
        const [points, words] = await Promise.all([loadPoints(name, limit, signal), get(`/api/map/labels?${new URLSearchParams({ layer: name })}`, signal)]);
        return { there, points, words: words.labels };
      });
      if (!all) return;
      const begun = performance.now();
      listLayers(all.there.layers);
      openBeside(all.there.beside);
      showJob(all.there);
      coded = null;
      way = null;
      marked = null;
      outline = null;
      list.clear();
      accept(all.points, all.words);
      fill(node, tools, stages, caveat, listed);
      resize();
      fit();
      front.dataset.layer = data.layer;
      front.dataset.loadMs = (performance.now() - begun).toFixed(1);
      await paint();
      tell();
      wanted = null;
      beside?.mark({ selected: current().select, hits: hits().map((hit) => hit.row) });
      await select(current().select);
    } catch (error) {
      data = null;
      fill(node, trouble(missing(error, "map"), () => render(current())));
    }
  }

  function accept(points, words) {
    data = points;
    grid = new Grid(data.x, data.y);
    const placed = data.disc ? words : words.map((it) => {
      const [x, y] = shrinkPoint([it.x, it.y], data.extent);
      return { ...it, x, y, reach: it.reach / data.extent.size };
    });
    labels = withDistances(placed);
    names = [];
    renderer.points(data.x, data.y, data.depth);
    range = current().depth ?? EVERY_DEPTH;
    traceLines();
    layer.value = data.layer;
    caveat.textContent = SAID[data.layer === START.layer ? "disc" : "other"];
  }

  function tell() {
    const all = data.rows.length < data.total ? `${count(data.rows.length)} of ${count(data.total)} rows, evenly sampled` : `All ${count(data.rows.length)} rows`;
    const part = data.total < info.rows ? `${all} of this map (${count(info.rows)} in the set)` : all;
    if (range === EVERY_DEPTH) return say(`${part}.`);
    let shown = 0;
    for (const depth of data.depth) if (depth >= range[0] && depth <= range[1]) shown++;
    return say(`${part}; ${count(shown)} within the depth range.`);
  }

  // --- drawing

  function look() {
    const style = getComputedStyle(document.documentElement);
    const value = (name) => style.getPropertyValue(name).trim();
    theme = Object.fromEntries(["disc", "line", "accent", "ink", "image", "text", "box_image", "box_text"]
      .map((name) => [name, value(`--${name.replace("_", "-")}`)]));
    const found = colourPoints(data, current().colour, coded, info, theme);
    legend = found.legend;
    // The rows that were outlined on the second stage hide the cone until the list is closed.
    const some = marked ?? way?.inside;
    colours = some ? markInside(found.words, some, theme.accent) : found.words;
    renderer.colours(colours, found.behind || Boolean(some));
    const entries = (all) => all.map(([css, text]) => {
      const dot = el("i.dot");
      dot.style.background = css;
      return el("span", {}, dot, text);
    });
    beside?.mark({ theme, accent: theme.accent, colour: colourOf(found.words) });
    fill(legendNode, legend.entries ? entries(legend.entries) : [el("span", {}, number(legend.min, 2)), el("i.ramp"), el("span", {}, number(legend.max, 2))],
      way ? entries(wayEntries(way, theme.accent)) : null);
    redraw();
  }

  /** Returns a function from a row to the word of its colour. */
  const colourOf = (words) => {
    const { rows } = data;
    return (row) => words[indexOf(rows, row)];
  };

  /** Colours the points as the state says; requests the codes of a column if needed. */
  async function paint() {
    const column = columnOf(current());
    if (coded?.column !== column) coded = null;
    look();
    if (column === null || coded) return;
    try {
      const points = data;
      const codes = await newest((signal) => loadCodes(points, column, signal));
      if (!codes || data !== points || columnOf(current()) !== column) return;
      coded = codes;
      look();
    } catch (error) {
      say(`${error.message} The map is coloured by kind.`);
    }
  }

  function resize() {
    const box = front.getBoundingClientRect(); // without the border of the stage
    if (!box.width || !box.height) return;
    eye.resize(box.width, box.height, Math.min(window.devicePixelRatio || 1, 2));
    for (const canvas of [back, front]) sized(canvas, eye.ratio);
    redraw();
  }

  function sized(canvas, ratio) {
    canvas.width = Math.round(eye.width * ratio);
    canvas.height = Math.round(eye.height * ratio);
  }

  function redraw(both = true) {
    const idle = !drawn.back && !drawn.front;
    drawn = { back: drawn.back || both, front: true };
    if (both) {
      tip.hide(); // the point under the tooltip has moved
      nameSoon();
    }
    if (idle) requestAnimationFrame(frame);
  }

  function frame() {
    const begun = performance.now();
    if (data && eye.width) {
      if (drawn.back) paintDots(eye.ratio);
      const pen = front.getContext("2d");
      pen.setTransform(eye.ratio, 0, 0, eye.ratio, 0, 0);
      pen.clearRect(0, 0, eye.width, eye.height);
      drawShapes(pen, shapes());
    }
    drawn = { back: false, front: false };
    front.dataset.ms = (performance.now() - begun).toFixed(2); // read by drive.py
  }

  const dotRadius = () => dotSize(data.rows.length, eye.zoom / move.fitted());

  function paintDots(ratio) {
    renderer.draw(eye, { back: channels(theme.disc), range, radius: ratio * dotRadius(), lineColour: channels(theme.ink), lineAlpha: 0.55 });
  }

  function shapes(all = false) {
    const state = current();
    const rings = hits().map((hit) => indexOf(data.rows, hit.row)).filter((i) => i >= 0 && shown(i));
    return markShapes({ eye, theme, data, selected, path: way?.path ?? [], inside: marked ?? way?.inside ?? [], hovered, outline, drawing, hits: rings,
      labels: state.labels ? placeLabels([...labels, ...names], eye, range, measure) : [],
      // WebGL draws these lines itself, except for a saved picture of shapes.
      lines: (all || limit === PLAIN_LIMIT) && lines.length ? lines : null });
  }

  const shown = (i) => data.depth[i] >= range[0] && data.depth[i] <= range[1];

  function traceLines() {
    lines = current().contours ? contours(data, range) : NO_LINES;
    renderer.lines(lines);
    redraw();
  }
  /** Names the points on the stage if they are few: the most specific words of all. */
  const nameSoon = debounced(async () => {
    if (!data || !current().labels || current().view !== "map") return;
    const [x, y] = eye.under(eye.width / 2, eye.height / 2);
    const found = grid.within(x, y, Math.hypot(eye.width, eye.height) / 2 / eye.scale, eye.ax, eye.ay,
      (i) => shown(i) && eye.sees(...eye.screen(data.x[i], data.y[i])), NAMED);
    const points = data;
    if (!found?.length) {
      names = [];
      return redraw(false);
    }
    if (found.join() === names.of) return;
    try {
      const hits = await newestNames((signal) => post("/api/rows/list", { rows: found.map((i) => points.rows[i]) }, signal));
      if (!hits || data !== points) return;
      names = Object.assign(pointLabels(points, found.map((i, at) => [i, caption(hits[at])])), { of: found.join() });
      redraw(false);
    } catch {
      // Words are optional.
    }
  }, 250);
  const traceSoon = debounced(() => data && traceLines(), 150);

  function showRange(depth) {
    range = depth ?? EVERY_DEPTH;
    if (!data) return;
    if (current().contours) traceSoon();
    tell();
    redraw();
  }

  function savePicture(kind) {
    const view = { eye, theme };
    const title = layers.find((it) => it.name === data.layer)?.title ?? data.layer;
    const words = { title: `${brief(title, 60)} · ${count(data.rows.length)} rows`, entries: [...legendEntries(legend), ...(way ? wayEntries(way, theme.accent) : [])] };
    const painted = (ratio) => {
      sized(back, ratio);
      paintDots(ratio);
      return back;
    };
    if (kind === "png") savePng(view, words, painted, shapes());
    else {
      const dots = { x: [], y: [], colours: [] };
      for (const i of seen()) {
        const [x, y] = eye.screen(data.x[i], data.y[i]);
        dots.x.push(x);
        dots.y.push(y);
        dots.colours.push(colours[i]);
      }
      saveSvg(view, words, painted, shapes(true), dots, dotRadius());
    }
    resize();
  }

  /** The indices of the points on the stage. */
  function seen() {
    const all = [];
    for (let i = 0; i < data.x.length; i++) {
      if (shown(i) && eye.sees(...eye.screen(data.x[i], data.y[i]))) all.push(i);
    }
    return all;
  }

  async function saveHtml() {
    const points = seen();
    if (!points.length) return say("No point is on the stage. Press “Fit”, or widen the depth range.");
    say("Saving the page …");
    try {
      const saved = await savePage({ data, eye, info, state: current() }, points);
      say(saved < points.length ? `Saved a sample of ${count(saved)} of the ${count(points.length)} points on the stage.` : `Saved the ${count(saved)} points on the stage.`);
    } catch (error) {
      say(error.message);
    }
  }

  // --- moving

  const fit = () => {
    move.fit(data);
    beside?.fit();
  };
  const glide = (x, y) => move.glide(data, x, y);

  function zoom(factor, px, py) {
    eye.zoomBy(factor, px, py);
    redraw();
  }

  function pan(x, y) {
    eye.pan(x, y);
    redraw();
  }

  function under(px, py, reach = NEAR) {
    const begun = performance.now();
    const i = grid.nearest(...eye.under(px, py), reach / eye.scale, eye.ax, eye.ay, range === EVERY_DEPTH ? null : shown);
    front.dataset.hoverMs = (performance.now() - begun).toFixed(2);
    return i;
  }

  followPointer(front, () => lassoing, {
    hover: (here) => point(here && data ? under(...here) : -1),
    pan,
    zoom,
    click: (px, py) => {
      const i = under(px, py);
      point(-1);
      if (i >= 0) open({ row: data.rows[i] });
    },
    centre: (px, py) => {
      if (lassoing) return;
      const [x, y] = eye.under(px, py);
      if (!data.disc) glide(x, y);
      else if (x * x + y * y < 0.998) glide(...moved(x, y, -eye.ax, -eye.ay));
    },
    drawing: (corners) => {
      drawing = corners;
      redraw(false);
    },
    drawn: encircled,
  });

  function lassoMode(on) {
    lassoing = on;
    lasso.setAttribute("aria-pressed", String(on));
    stages.classList.toggle("lassoing", on);
    if (on) front.focus({ preventScroll: true });
  }

  /** Lists the rows inside an outline on the screen. */
  function encircled(corners) {
    const begun = performance.now();
    const found = pointsInside(data, eye, corners, range);
    outline = corners.map(([x, y]) => {
      const [mx, my] = eye.under(x, y);
      return moved(mx, my, -eye.ax, -eye.ay);
    });
    marked = null;
    beside?.clear();
    beside?.mark({ outlined: Array.from(found, (i) => data.rows[i]) });
    list.show(data, found);
    front.dataset.lassoMs = (performance.now() - begun).toFixed(2);
    told.textContent = `${count(found.length)} rows in the outline, listed below the map`;
    lassoMode(false);
    redraw(false);
  }

  front.addEventListener("keydown", (event) => {
    const arrow = (axis, forward, x, y) => () => (event.shiftKey ? pan(x, y) : walk(axis, forward));
    const nearer = (factor) => () => zoom(factor, ...(hovered >= 0 ? eye.screen(data.x[hovered], data.y[hovered]) : []));
    const choose = () => hovered >= 0 && open({ row: data.rows[hovered] });
    const keys = { "+": nearer(1.25), "=": nearer(1.25), "-": nearer(0.8), 0: fit, Enter: choose, " ": choose, l: () => lassoMode(!lassoing),
      ArrowLeft: arrow("x", false, 40, 0), ArrowRight: arrow("x", true, -40, 0),
      ArrowUp: arrow("y", true, 0, 40), ArrowDown: arrow("y", false, 0, -40) };
    if (lassoing) keys.Escape = () => lassoMode(false);
    if (!keys[event.key] || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    event.stopPropagation();
    keys[event.key]();
  });
  front.addEventListener("blur", () => point(-1));

  /** Goes to the nearest point in a direction; at first to the selected row or the point nearest to the view centre. */
  function walk(axis, forward) {
    const seen = (i) => i >= 0 && shown(i) && eye.sees(...eye.screen(data.x[i], data.y[i]));
    const first = [indexOf(data.rows, wanted), under(eye.width / 2, eye.height / 2, Infinity)].find(seen) ?? -1;
    const next = seen(hovered) ? towards(data.x, data.y, hovered, axis, forward, eye.ax, eye.ay, shown) : first;
    if (next < 0) {
      told.textContent = "No row on this side.";
      return;
    }
    if (!seen(next)) {
      const [x, y] = eye.screen(data.x[next], data.y[next]);
      pan(eye.width / 2 - x, eye.height / 2 - y);
    }
    point(next, true);
  }

  // --- hovering and selection

  /** Marks a point and shows its tooltip; with `aloud`, also announces it to screen readers. */
  function point(i, aloud = false) {
    if (i === hovered) return;
    hovered = i;
    front.classList.toggle("over", i >= 0);
    tip.hide();
    told.textContent = "";
    if (i >= 0) tip.show(data.rows[i], () => eye.screen(data.x[i], data.y[i]), () => hovered === i, aloud ? (text) => { told.textContent = text; } : undefined);
    beside?.mark({ hovered: i >= 0 ? data.rows[i] : null });
    redraw(false);
  }

  async function select(row) {
    wanted = row;
    selected = null;
    if (way) {
      way = null;
      look();
    }
    if (row === null) {
      newestCone.stop();
      return redraw(false);
    }
    if (data.layer !== START.layer) {
      const i = indexOf(data.rows, row);
      if (i >= 0) selected = { row, x: data.x[i], y: data.y[i] };
      redraw(false);
      const points = data;
      try {
        const found = await newestCone((signal) => loadWay(points, row, signal));
        if (!found || data !== points) return;
        way = found;
        look();
      } catch (error) {
        say(`${error.message} The cone of the selected row is not shown.`);
      }
      return;
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
    if (!colour.value) colour.value = START.colour; // a column that the set does not have
    for (const field of ["labels", "contours"]) tools.querySelector(`#map-${field}`).checked = state[field];
    slider.set(state.depth);
    const known = !data || data.layer === state.layer || !layers.some((it) => it.name === state.layer);
    if (!data || !known) {
      if (loading === state.layer) return;
      loading = state.layer;
      await load(state);
      if (loading === state.layer) loading = null;
      return;
    }
    if (!node.contains(stages)) fill(node, tools, stages, caveat, listed);
    const depth = state.depth ?? EVERY_DEPTH;
    const narrowed = depth[0] !== range[0] || depth[1] !== range[1];
    range = depth;
    if (!before || state.contours !== before.contours || (narrowed && state.contours)) traceLines();
    if (!before || state.colour !== before.colour) await paint();
    tell();
    beside?.mark({ selected: state.select, hits: hits().map((hit) => hit.row) });
    if (wanted !== state.select) await select(state.select);
    redraw();
  }

  return { render };
}
