// The gallery: results as a grid, best (or most general) first, with a button for more. A query by text shows photos
// and boxes first, and the best texts below them.

import { get, latest, post } from "./api.js";
import { count, degrees, el, fill, number } from "./dom.js";
import { UNFILTERED, widen } from "./filters.js";
import { firstLimit } from "./gate.js";
import { boxGroups, caption, card, notice, trouble } from "./rows.js";
import { addRow, excludeRow, joinable, searchFrom } from "./search.js";
import { isPicked, togglePicked } from "./selection.js";
import { current, filtered, limitOf, MODALITIES, PICTURES, TEXTS, toFilter, toQueries, toRanking, update } from "./state.js";

/** Number of rows per request. */
const PAGE = 60;
/** Number of text cards below the pictures, and of rows requested for them. Several rows may have the same text. */
const TEXT_CARDS = 12;
const TEXT_ROWS = 48;

/** The state fields that determine the results. */
const QUERY_FIELDS = ["terms", "not", "inside", "mode", "measure", "gate", "limit", "angle", "within", "depth", "modality", "columns", "subtree"];

/**
 * Creates the gallery in `node`. `answered` is called with every response, `open` with a clicked row, and `limited`
 * with the limit that was chosen from the data, or `null`.
 */
export function gallery(node, { info, say, answered, open, name, limited }) {
  const newest = latest(node);
  let shown = "";
  let hits = [];

  /** Sends a new search if the query has changed, or if `again` is set. */
  async function render(state, again = false) {
    const asked = JSON.stringify(QUERY_FIELDS.map((it) => state[it]));
    if (asked === shown && !again) return mark(state);
    shown = asked;
    try {
      const found = await newest((signal) => ask(state, signal));
      if (!found) return;
      if (!found.request) return await welcome(state);
      limited(found.limit);
      hits = [...found.best.hits, ...(found.texts?.hits ?? [])];
      answered(found.best);
      await draw(state, found);
    } catch (error) {
      shown = "";
      hits = [];
      limited(null);
      answered(null);
      say("");
      fill(node, trouble(lost(error, state), () => render(current(), true)));
    }
  }

  /** Returns `{ request, best, texts, limit }`, with `texts` only below pictures; `{}` if there is no request to send. */
  async function ask(state, signal) {
    const kinds = split(state);
    const filter = { ...toFilter(state), ...(kinds ? { modality: kinds } : {}) };
    if (!state.terms.length) {
      const request = browse(state);
      return request ? { request, best: await post("/api/search", request, signal) } : {};
    }
    const query = toQueries(state.terms);
    const missing = limitOf(state);
    const limit = missing && state[missing] === null ? await firstLimit(state, query, filter, signal) : null;
    // If no row passes the filters, there is no limit from the data, and any value gives an empty result.
    const request = { query, ...toRanking(state, limit?.value ?? 1), k: PAGE, ...filter };
    const best = post("/api/search", request, signal);
    const texts = kinds ? post("/api/search", { ...request, k: TEXT_ROWS, modality: of(TEXTS) }, signal) : null;
    const [pictures, words] = await Promise.all([best, texts]);
    return { request, best: pictures, texts: words ? { ...words, hits: different(words.hits, TEXT_CARDS) } : null, limit };
  }

  /** Keeps the kinds that occur in the set. */
  const of = (kinds) => kinds.filter((it) => info.modalities[it] > 0);

  /**
   * The picture kinds, if a query by text shows pictures and texts separately; else `null`. The user must not have
   * chosen a kind. The broader rows of a text are mostly texts, so they are not separated.
   */
  function split(state) {
    const words = state.terms.length > 0 && state.terms.every((it) => it.kind === "text");
    const pictures = of(PICTURES);
    return words && state.mode !== "broader" && !state.modality.length && pictures.length && of(TEXTS).length ? pictures : null;
  }

  /** The request without a query: rows that pass the filters, most general first; only photos if there is no filter. */
  function browse(state) {
    const origin = info.root === "origin" && info.space.kind !== "sphere";
    if (!origin) return null;
    const photos = !filtered(state) && info.modalities.image > 0 ? { modality: ["image"] } : {};
    return { query: { point: new Array(info.space.dim).fill(0) }, by: "distance", k: PAGE, ...photos, ...toFilter(state) };
  }

  async function draw(state, { request, best, texts, limit }) {
    const asked = state.terms.length > 0;
    say(`${summary(state, request, best, texts)}${limit ? ` · ${limitWords(state, limit)}` : ""} · ${number(best.took_ms, 1)} ms`);
    if (!hits.length) {
      const why = await nothing(state, { rows_passing: best.rows_passing + (texts?.rows_passing ?? 0) });
      return why && fill(node, why);
    }
    const mine = shown;
    const by = request.by;
    const list = el("ul.grid.best", { "aria-label": "Results" });
    let found = best.hits;
    let groups = [];
    const add = () => {
      const all = boxGroups(found);
      // Redraw the card of a box that gets more phrases from the new page.
      groups.forEach((group, i) => {
        if (all[i].length > group.length) list.querySelector(`[data-row="${group[0].row}"]`)?.replaceWith(make(all[i], by, state, asked));
      });
      const fresh = all.slice(groups.length);
      list.append(...stacked(fresh.map(([hit]) => hit), fresh.map((group) => make(group, by, state, asked))));
      groups = all;
    };
    add();
    const more = el("button.plain.wide", { type: "button", id: "more", onclick: async () => {
      // A new search is running and will replace these rows.
      if (shown !== mine) return;
      more.disabled = true;
      try {
        const next = await newest((signal) => post("/api/search", { ...request, offset: found.length }, signal));
        if (!next) return;
        found = [...found, ...next.hits];
        hits = [...hits, ...next.hits];
        add();
        more.hidden = next.hits.length < PAGE;
      } catch (error) {
        list.after(trouble(error));
      }
      more.disabled = false;
    } }, "Show more");
    more.hidden = found.length < PAGE;
    const words = texts?.hits.length ? el("section.aside", {},
      el("header", {}, el("h2", {}, "Texts"),
        el("button.plain", { type: "button", id: "only-texts", onclick: () => update({ modality: of(TEXTS) }) }, "Show only texts")),
      el("ul.grid.texts", { "aria-label": "Texts" }, stacked(texts.hits, texts.hits.map((hit) => make([hit], by, state, asked))))) : null;
    const flat = asked && best.flat ? el("p.flat", { role: "note" }, best.flat.replace(/^./, (it) => it.toUpperCase()), ".") : null;
    fill(node, flat, asked && !ordered(by) ? null : ruler(), found.length ? list : null, more, words);
    mark(state);
  }

  /** The status line: what is shown, and out of how many rows. */
  function summary(state, request, best, texts) {
    const passing = best.rows_passing + (texts?.rows_passing ?? 0);
    const among = passing === info.rows ? `all ${count(info.rows)} rows` : `the ${count(passing)} of ${count(info.rows)} rows that pass the filters`;
    if (texts) return `${request.modality.map((it) => MODALITIES[it][1]).join(" and ")} first, then texts · among ${among}`.replace(/^./, (it) => it.toUpperCase());
    if (state.terms.length) return `Among ${among}`;
    return request.modality?.length === 1
      ? `The most general ${MODALITIES[request.modality[0]][1]} first, of ${among}` : `The most general first, of ${among}`;
  }

  function limitWords(state, { value, rows }) {
    const what = limitOf(state) === "angle" ? `within ${degrees(value)}` : `within a distance of ${number(value)}`;
    return `${count(rows)} rows lie ${what}, a limit chosen from the data`;
  }

  function make(group, by, state, asked) {
    const [hit] = group;
    const actions = [["search", "Search from here (Enter)", (it) => searchFrom(it, name(it))]];
    if (asked && joinable(state)) actions.push(["and", "Add this to the query", (it) => addRow(it, name(it))]);
    actions.push(["not", "Exclude this and everything narrower", (it) => excludeRow(it, name(it))]);
    return card(hit, { by: asked ? by : "general", open, actions, depth: info.depth, selected: state.select === hit.row,
      group, pick: togglePicked, picked: isPicked(group) });
  }

  /** A notice with the reason for empty results and a remedy; `null` if a newer search is running. */
  async function nothing(state, answer) {
    if (!info.rows) return notice("The set has no rows", "Create a set with `conifer embed`, then serve it.");
    const clear = filtered(state)
      ? el("button.solid", { type: "button", onclick: () => update(UNFILTERED) }, "Clear all filters")
      : null;
    if (answer.rows_passing === 0 || !state.terms.length) {
      return notice("No row passes the filters", "A row must pass all filters. Remove one, or clear them all.", clear);
    }
    const gated = state.mode !== "near" && (state.mode === "general" ? state.limit === "angle" : state.gate);
    if (gated && state.angle !== null) {
      const by = state.mode === "broader" ? "broader" : "narrower";
      const nearest = await newest((signal) =>
        post("/api/search", { query: toQueries(state.terms), by, k: 1, ...toFilter(state), ...(split(state) ? { modality: split(state) } : {}) }, signal));
      if (!nearest) return null;
      if (nearest.hits.length) {
        return notice("No row lies within the angle", "All rows are outside the angle limit.", widen(nearest.hits[0].score), clear);
      }
    }
    if (state.mode === "general") {
      return notice("No row lies within the distance", "Move the slider “Distance” to the right.", clear);
    }
    return notice("Nothing was found", "Remove a filter, or search for something else.", clear);
  }

  async function welcome(state) {
    // The coordinates of the root are not known here, so a search from the root is not possible. Show evenly spaced
    // rows instead.
    newest.stop();
    hits = [];
    limited(null);
    answered(null);
    if (!info.rows) return fill(node, await nothing(state, { rows_passing: 0 }));
    if (filtered(state)) {
      say("");
      return fill(node, notice("Search for something", "Filters narrow down a search: type a text, drop a photo, or search from a row.",
        el("button.solid", { type: "button", onclick: () => update(UNFILTERED) }, "Clear all filters")));
    }
    try {
      const rows = Array.from({ length: Math.min(24, info.rows) }, (_, i) => Math.floor((i + 0.5) * info.rows / Math.min(24, info.rows)));
      const found = await newest((signal) => Promise.all(rows.map((row) => get(`/api/rows/${row}`, signal))));
      if (!found) return;
      hits = found;
      say("Some rows of the set to start from.");
      fill(node, el("ul.grid", { "aria-label": "Some rows" }, hits.map((hit) => make([hit], "distance", state, false))));
    } catch (error) {
      fill(node, trouble(error, () => render(current(), true)));
    }
  }

  function mark(state) {
    for (const it of node.querySelectorAll(".card")) it.classList.toggle("selected", Number(it.dataset.row) === state.select);
  }

  return { render, hits: () => hits };
}

/** Returns true if two rows are texts with the same words. */
const alike = (a, b) => a.modality === b.modality && TEXTS.includes(a.modality) && caption(a) === caption(b);

/** The beginning of a list, up to `most` cards of different texts. */
function different(hits, most) {
  let cards = 0;
  const end = hits.findIndex((hit, i) => (i > 0 && alike(hits[i - 1], hit) ? false : ++cards > most));
  return end < 0 ? hits : hits.slice(0, end);
}

/** Collapses consecutive texts with the same words into one card with a button that shows the others. */
function stacked(hits, cards) {
  for (let i = 0; i < hits.length;) {
    let end = i + 1;
    while (end < hits.length && alike(hits[end], hits[i])) end++;
    const others = cards.slice(i + 1, end);
    if (others.length) {
      others.forEach((it) => { it.hidden = true; });
      const title = `${others.length + 1} consecutive rows with the same words: show all`;
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

/** Adds advice to the error for a photo that has expired on the server. */
function lost(error, state) {
  const photo = state.terms.some((it) => it.kind === "photo");
  if (photo && [404, 410, 422].includes(error.status) && /photo/i.test(error.message)) {
    error.advice = "The server keeps photos only for a while. Remove the chip “photo” above and add the photo again.";
  }
  return error;
}
