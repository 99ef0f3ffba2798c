// The gallery: results as a grid, from the best (or the most general) on, with more on demand.

import { get, latest, post } from "./api.js";
import { count, el, fill, number } from "./dom.js";
import { UNFILTERED, widen } from "./filters.js";
import { caption, card, notice, trouble } from "./rows.js";
import { addRow, excludeRow, joinable, searchFrom } from "./search.js";
import { current, filtered, MODALITIES, toFilter, toQueries, toRanking, update } from "./state.js";

/** Rows that are asked for at a time. */
const PAGE = 60;

/** The fields of the state on which the results depend. */
const ASKED = ["terms", "not", "inside", "mode", "measure", "gate", "limit", "angle", "within", "depth", "modality", "columns", "subtree"];

/** A gallery in `node`. `answered` gets every answer, `open` a row that was clicked. */
export function gallery(node, { info, say, answered, open, name }) {
  const newest = latest(node);
  let shown = "";
  let hits = [];

  /** Asks anew if what is asked has changed. */
  async function render(state, again = false) {
    const asked = JSON.stringify(ASKED.map((it) => state[it]));
    if (asked === shown && !again) return mark(state);
    shown = asked;
    const request = body(state);
    if (!request) return welcome(state);
    try {
      const answer = await newest((signal) => post("/api/search", request, signal));
      if (!answer) return;
      hits = answer.hits;
      answered(answer, request);
      await draw(state, answer, request);
    } catch (error) {
      shown = "";
      hits = [];
      answered(null);
      say("");
      fill(node, trouble(lost(error, state), () => render(current(), true)));
    }
  }

  function body(state) {
    if (state.terms.length) {
      return { query: toQueries(state.terms), ...toRanking(state), k: PAGE, ...toFilter(state) };
    }
    // Without a query: what passes, the most general rows first; photos, unless something else is asked for.
    const origin = info.root === "origin" && info.space.kind !== "sphere";
    if (!origin) return null;
    const photos = !filtered(state) && info.modalities.image > 0 ? { modality: ["image"] } : {};
    return { query: { point: new Array(info.space.dim).fill(0) }, by: "distance", k: PAGE, ...photos, ...toFilter(state) };
  }

  async function draw(state, answer, request) {
    const asked = state.terms.length > 0;
    const passing = answer.rows_passing;
    const among = passing === info.rows ? `all ${count(info.rows)} rows` : `the ${count(passing)} of ${count(info.rows)} rows that pass`;
    const first = request.modality?.length === 1 && !asked ? `The most general ${MODALITIES[request.modality[0]][1]} first, of` : "The most general first, of";
    say(`${asked ? "Among" : first} ${among} · ${number(answer.took_ms, 1)} ms`);
    if (!hits.length) {
      const why = await nothing(state, answer);
      return why && fill(node, why);
    }
    const mine = shown;
    const by = request.by;
    const list = el("ul.grid", { "aria-label": "Results" });
    const add = (some) => list.append(...stacked(some, some.map((hit) => make(hit, by, state, asked))));
    add(hits);
    const more = el("button.plain.wide", { type: "button", id: "more", onclick: async () => {
      // Another question is under way: its answer takes the place of these rows.
      if (shown !== mine) return;
      more.disabled = true;
      try {
        const next = await newest((signal) => post("/api/search", { ...request, offset: hits.length }, signal));
        if (!next) return;
        hits = [...hits, ...next.hits];
        add(next.hits);
        more.hidden = next.hits.length < PAGE;
      } catch (error) {
        list.after(trouble(error));
      }
      more.disabled = false;
    } }, "Show more");
    more.hidden = hits.length < PAGE;
    fill(node, asked && !ordered(by) ? null : ruler(), list, more);
    mark(state);
  }

  function make(hit, by, state, asked) {
    const actions = [["search", "Search from here (Enter)", (it) => searchFrom(it, name(it))]];
    if (asked && joinable(state)) actions.push(["and", "Also this: add to the query", (it) => addRow(it, name(it))]);
    actions.push(["not", "Leave out what lies in the cone of this", (it) => excludeRow(it, name(it))]);
    return card(hit, { by: asked ? by : "general", open, actions, depth: info.depth, selected: state.select === hit.row });
  }

  /** Why nothing was found, and one step that changes it; nothing if something else was asked meanwhile. */
  async function nothing(state, answer) {
    if (!info.rows) return notice("The set has no rows", "Embed something with `conifer embed`, then serve that.");
    const clear = filtered(state)
      ? el("button.solid", { type: "button", onclick: () => update(UNFILTERED) }, "Clear all filters")
      : null;
    if (answer.rows_passing === 0 || !state.terms.length) {
      return notice("No row passes the filters", "Every filter has to hold at once. Take one away, or clear them all.", clear);
    }
    const gated = state.mode !== "near" && (state.mode === "general" ? state.limit === "angle" : state.gate);
    if (gated) {
      const by = state.mode === "broader" ? "broader" : "narrower";
      const nearest = await newest((signal) =>
        post("/api/search", { query: toQueries(state.terms), by, k: 1, ...toFilter(state) }, signal));
      if (!nearest) return null;
      if (nearest.hits.length) {
        return notice("No row lies within the angle", "The limit on the angle leaves nothing over.", widen(nearest.hits[0].score), clear);
      }
    }
    if (state.mode === "general") {
      return notice("No row lies within the distance", "Move the slider “Distance” to the right.", clear);
    }
    return notice("Nothing was found", "Take a filter away, or ask for something else.", clear);
  }

  async function welcome(state) {
    // The root is no point with known coordinates here: rows from all over the set stand for it.
    newest.stop();
    hits = [];
    answered(null);
    if (!info.rows) return fill(node, await nothing(state, { rows_passing: 0 }));
    if (filtered(state)) {
      say("");
      return fill(node, notice("Ask for something", "Filters narrow down a search: type a text, drop a photo, or search from a row.",
        el("button.solid", { type: "button", onclick: () => update(UNFILTERED) }, "Clear all filters")));
    }
    try {
      const rows = Array.from({ length: Math.min(24, info.rows) }, (_, i) => Math.floor((i + 0.5) * info.rows / Math.min(24, info.rows)));
      const found = await newest((signal) => Promise.all(rows.map((row) => get(`/api/rows/${row}`, signal))));
      if (!found) return;
      hits = found;
      say("Some rows of the set, to start from.");
      fill(node, el("ul.grid", { "aria-label": "Some rows" }, hits.map((hit) => make(hit, "distance", state, false))));
    } catch (error) {
      fill(node, trouble(error, () => render(current(), true)));
    }
  }

  function mark(state) {
    for (const it of node.querySelectorAll(".card")) it.classList.toggle("selected", Number(it.dataset.row) === state.select);
  }

  return { render, hits: () => hits };
}

/** Neighbouring texts with the same words as one card, with a button that shows the others. */
function stacked(hits, cards) {
  const words = (hit) => (/text$/.test(hit.modality) ? `${hit.modality} ${caption(hit)}` : null);
  for (let i = 0; i < hits.length;) {
    let end = i + 1;
    while (end < hits.length && words(hits[end]) !== null && words(hits[end]) === words(hits[i])) end++;
    const others = cards.slice(i + 1, end);
    if (others.length) {
      others.forEach((it) => { it.hidden = true; });
      const title = `${others.length + 1} rows with the same words in a row: show them all`;
      const button = el("button.same", { type: "button", title, "aria-label": title, onclick: () => {
        others.forEach((it) => { it.hidden = false; });
        button.remove();
      } }, `×${others.length + 1}`);
      cards[i].querySelector(".frame").append(button);
    }
    i = end;
  }
  return cards;
}

const ordered = (by) => by === "general";

function ruler() {
  return el("p.ruler", { "aria-hidden": "true" }, el("span", {}, "general"), el("i"), el("span", {}, "specific"));
}

/** A photo that the server no longer keeps: the person must add it again. */
function lost(error, state) {
  const photo = state.terms.some((it) => it.kind === "photo");
  if (photo && [404, 410, 422].includes(error.status) && /photo/i.test(error.message)) {
    error.advice = "The server keeps photos for a while only. Remove the chip “photo” above, and add the photo again.";
  }
  return error;
}
