// Everything about one row, and its neighbours up and down the hierarchy.

import { get, latest } from "./api.js";
import { degrees, el, fill, icon, number } from "./dom.js";
import { brief, readable } from "./long.js";
import { caption, card, face, kindOf, trouble } from "./rows.js";
import { addRow, excludeRow, joinable, nameRow, searchFrom } from "./search.js";
import { current, update } from "./state.js";

/** Neighbours of each sort. */
const NEIGHBOURS = 6;

/** The panel in `node`; gives the function that shows the selected row. */
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
      const answer = await newest((signal) => Promise.all([
        get(`/api/rows/${number_}/neighbours?k=${NEIGHBOURS}`, signal),
        get(`/api/map/row/${number_}`, signal).catch((error) => {
          if (error.status === 404) return {}; // a front over shards, which has no map
          throw error;
        }),
      ]));
      if (!answer) return;
      draw(...answer);
    } catch (error) {
      fill(node, head("Row " + number_), trouble(error, () => show(number_)));
    }
  }

  const head = (title) => el("header", {}, el("h2", {}, title),
    el("button.plain", { type: "button", "aria-label": "Close", title: "Close (Esc)", onclick: close }, icon("close")));

  function draw({ row: hit, broader, narrower, near }, { aperture }) {
    const state = current();
    // Distances and angles are to the query of the results, where the row is one of them.
    const found = scores(hit.row);
    const term = { kind: "row", value: hit.row };
    const called = name(hit);
    const button = (text, title, onclick) => el("button", { type: "button", title, onclick }, text);
    const act = (text, title, change) => button(text, title, () => {
      nameRow(hit.row, called);
      update(change);
    });
    const asked = state.terms.length > 0;
    const share = depthShare(hit.depth, info.depth.deciles);
    const strip = (title, explained, hits, by) => hits.length ? [
      el("h3", { title: explained }, title),
      el("ul.strip", { "aria-label": title }, hits.map((it) =>
        card(it, { by, open: (one) => update({ select: one.row }, { replace: true }), size: 128 }))),
    ] : [el("h3", { title: explained }, title), el("p.none", {}, "No row.")];
    fill(node,
      head(kindOf(hit)),
      hit.thumbnail ? el("div.large", {}, face(hit, 512)) : null,
      el("p.title", {}, readable(caption(hit))),
      el("div.does", {},
        el("button.solid", { type: "button", onclick: () => searchFrom(hit, called) }, "Search from here"),
        joinable(state) ? button("+ and", "Both at once", () => addRow(hit, called)) : null,
        button("− not", "Leave out rows inside its cone", () => excludeRow(hit, called)),
        act("Path to root", "Walk from here to the root (t)", { view: "path", from: term, to: null }),
        asked ? act("Path to here", "Walk from the query to here", { view: "path", from: null, to: term }) : null,
        act("Inside its cone", "Only rows inside the cone of this one", { inside: term, view: "results" }),
        act("On the map", "Show on the map (m)", { view: "map", select: hit.row })),
      el("dl", {},
        row("depth", `${number(hit.depth)} · deeper than ${share} % of the set`),
        row("half aperture", degrees(aperture)),
        found ? [
          row("distance to the query", number(found.distance)),
          row("angle, query above", degrees(found.angle_down)),
          row("angle, query below", degrees(found.angle_up))] : null,
        hit.box ? row("box", hit.box.map((v) => number(v, 2)).join(", ")) : null,
        row("id", hit.id), row("row", String(hit.row)),
        Object.entries(hit.columns ?? {}).flatMap(([key, value]) => row(key, value))),
      strip("Broader", "Rows above this one: their exterior angle to it is small", broader, "broader"),
      strip("Near", "Rows at a small distance", near, "distance"),
      strip("Narrower", "Rows below this one: small exterior angle from it", narrower, "narrower"));
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
    // Once more when the answer comes that says how far the query is.
    const asked = JSON.stringify([state.select, state.terms, scores(state.select) !== undefined]);
    if (asked === shown) return;
    shown = asked;
    show(state.select);
  };
}

/** Which part of the set is more general than a depth, in percent, from the deciles. */
export function depthShare(depth, deciles) {
  const above = deciles.findIndex((it) => it >= depth);
  if (above < 0) return 100;
  if (above === 0) return 0;
  const [low, high] = [deciles[above - 1], deciles[above]];
  return Math.round(10 * (above - 1 + (high > low ? (depth - low) / (high - low) : 0)));
}
