// The panel with the details of one row and its broader, near and narrower neighbours.

import { get, latest, post } from "./api.js";
import { boxedPhoto } from "./boxes.js";
import { degrees, el, fill, icon, number } from "./dom.js";
import { brief, readable } from "./long.js";
import { boxGroups, caption, card, face, kindOf, origin, trouble } from "./rows.js";
import { addRow, excludeRow, joinable, nameRow, searchFrom } from "./search.js";
import { current, update } from "./state.js";

/** Number of neighbours shown in each list. */
const NEIGHBOURS = 6;
/** Number of neighbours requested for each list, before rows of one box and equal texts are merged. */
const REQUESTED = 24;

/** Creates the panel in `node`; returns a function that shows the selected row of a state. */
export function details(node, { info, name, scores }) {
  const newest = latest();
  let shown = null;

  const close = () => update({ select: null }, { replace: true });
  const row = (term, value) => (value ? [el("dt", {}, brief(term)), el("dd", {}, readable(value))] : []);

  async function show(number_) {
    node.hidden = false;
    document.body.classList.add("split");
    fill(node, el("p.busy", {}, "…"));
    try {
      // A front over shards has no routes for the map and for the boxes of a photo.
      const optional = (path, signal) => get(path, signal).catch((error) => {
        if (error.status === 404) return {};
        throw error;
      });
      const query = { query: { row: number_ } };
      const answer = await newest((signal) => Promise.all([
        get(`/api/rows/${number_}/neighbours?k=${REQUESTED}`, signal),
        optional(`/api/map/row/${number_}`, signal),
        optional(`/api/rows/${number_}/boxes`, signal),
        info.can.predict ? post("/api/predict", query, signal) : null,
      ]));
      if (!answer) return;
      draw(...answer);
    } catch (error) {
      fill(node, head("Row " + number_), trouble(error, () => show(number_)));
    }
  }

  const head = (title) => el("header", {}, el("h2", {}, title),
    el("button.plain", { type: "button", "aria-label": "Close", title: "Close (Esc)", onclick: close }, icon("close")));

  function draw({ row: hit, broader, narrower, near }, { aperture }, { boxes = [] }, prediction) {
    const state = current();
    // The hit of this row, if it is among the results. A hit has the distance and angles to the query.
    const found = scores(hit.row);
    const term = { kind: "row", value: hit.row };
    const called = name(hit);
    nameRow(hit.row, called);
    const button = (text, title, onclick) => el("button", { type: "button", title, onclick }, text);
    const act = (text, title, change) => button(text, title, () => update(change));
    const asked = state.terms.length > 0;
    const share = depthShare(hit.depth, info.depth.deciles);
    const choose = (row) => update({ select: row }, { replace: true });
    const strip = (title, explained, hits, by) => [
      el("h3", {}, title, el("small", {}, ` ${explained}`)),
      hits.length ? el("ul.strip", { "aria-label": title }, once(hits).slice(0, NEIGHBOURS).map((group) =>
        card(group[0], { by, open: (one) => choose(one.row), size: 128, group }))) : el("p.none", {}, "No row."),
    ];
    const second = origin(hit);
    const phrases = boxes.find((it) => it.rows.includes(hit.row))?.texts ?? [];
    fill(node,
      head(kindOf(hit)),
      boxedPhoto(hit, boxes, choose) ?? (hit.thumbnail ? el("div.large", {}, face(hit, 512)) : null),
      el("p.title", {}, readable(caption(hit))),
      phrases.length > 1 ? el("p.same-box", {}, `The same box: ${brief(phrases.filter((it) => it !== caption(hit)).join(" · "))}`) : null,
      second ? el("p.origin", {}, readable(second)) : null,
      el("div.does", {},
        el("button.solid", { type: "button", onclick: () => searchFrom(hit, called) }, "Search from here"),
        joinable(state) ? button("+ and", "Add this to the query", () => addRow(hit, called)) : null,
        button("− not", "Exclude this and everything narrower", () => excludeRow(hit, called)),
        act("Path to the root", "Texts on the path from here to the most general point (t)", { view: "path", from: term, to: null }),
        asked ? act("Path to here", "Path from the query to here", { view: "path", from: null, to: term }) : null,
        act("Only what is below it", "Only rows inside its cone, which the model places below this row", { inside: term, view: "results" }),
        act("On the map", "Show on the map (m)", { view: "map", select: hit.row })),
      el("dl", {},
        row("depth", `${number(hit.depth)} · deeper than ${share} % of the set`),
        row("half aperture", aperture === undefined ? "" : `${degrees(aperture)} · opening of its cone`),
        found ? [
          row("distance to the query", number(found.distance)),
          row("angle below the query", degrees(found.angle_down)),
          row("angle above the query", degrees(found.angle_up))] : null,
        // The threshold was calibrated on photos.
        prediction && hit.modality === "image" ? predicted(prediction).flatMap(([term, value]) => row(term, value)) : null,
        hit.box ? row("box", hit.box.map((v) => number(v, 2)).join(", ")) : null,
        row("id", hit.id), row("row", String(hit.row)),
        Object.entries(hit.columns ?? {}).flatMap(([key, value]) => row(key, value))),
      strip("Broader", "more general than this", broader, "broader"),
      strip("Near", "similar to this", near, "distance"),
      strip("Narrower", "special cases of this", narrower, "narrower"));
    node.scrollTop = 0;
  }

  return function render(state) {
    if (state.select === null) {
      newest.stop();
      node.hidden = true;
      document.body.classList.remove("split");
      shown = null;
      return;
    }
    // Draw again when the results arrive, because they have the distance to the query.
    const asked = JSON.stringify([state.select, state.terms, scores(state.select) !== undefined]);
    if (asked === shown) return;
    shown = asked;
    show(state.select);
  };
}

/** Terms and values of a prediction: the answer, and the path below it that the model is less sure of. */
export function predicted({ answer, probability, path, risk, guarantee }) {
  const step = (it) => `${it.name} (${number(it.probability)})`;
  const below = path.filter((it) => !it.answered).map(step).join(" › ");
  const above = path.filter((it) => it.answered).slice(0, -1).map((it) => it.name).join(" › ");
  return [
    ["predicted class", `${answer} (${number(probability)}) · risk ${Number((100 * risk).toFixed(4))} %`],
    ["above it", above],
    ["less sure", below],
    ["guarantee", guarantee.join("; ")],
  ];
}

/** Groups the rows of one box, and drops texts that repeat an earlier one. */
function once(hits) {
  const groups = new Map();
  for (const group of boxGroups(hits)) {
    const [hit] = group;
    const key = /text$/.test(hit.modality) ? `${hit.modality} ${caption(hit)}` : `row ${hit.row}`;
    if (!groups.has(key)) groups.set(key, group);
  }
  return [...groups.values()];
}

/** Percentage of the rows with a smaller depth, interpolated between the deciles. */
export function depthShare(depth, deciles) {
  const above = deciles.findIndex((it) => it >= depth);
  if (above < 0) return 100;
  if (above === 0) return 0;
  const [low, high] = [deciles[above - 1], deciles[above]];
  return Math.round(10 * (above - 1 + (high > low ? (depth - low) / (high - low) : 0)));
}
