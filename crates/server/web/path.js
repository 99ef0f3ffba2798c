// The view of a path: the rows along the way from the query or a row to the root or to another row, or the chain of texts
// that a widening ball around the root retrieves.

import { latest, post, thumbnail } from "./api.js";
import { el, fill, svg } from "./dom.js";
import { card, missing, notice, trouble } from "./rows.js";
import { describe, pictured } from "./search.js";
import { isPicked, togglePicked } from "./selection.js";
import { current, PICTURES, TEXTS, toQueries, toQuery, update } from "./state.js";

/** The kinds of stops: value in the URL, modalities, label. */
const ALONG = { texts: [TEXTS, "texts"], pictures: [PICTURES, "photos"], all: [null, "all kinds"], chain: [["text"], "texts by radius"] };

/** Creates the path view in `node`. */
export function path(node, { info, say, open }) {
  const newest = latest(node);
  let shown = "";
  let named = "";    // names of the rows, which may arrive after the path
  let answer = null;

  async function render(state, again = false) {
    const start = state.from ? toQuery(state.from) : state.terms.length ? toQueries(state.terms) : null;
    const asked = JSON.stringify([start, state.to, state.steps, along(state), state.not]);
    const names = JSON.stringify([state.from, state.to, ...state.terms, openRow(state)].map((it) => it && [describe(it), pictured(it.value)]));
    if (asked === shown && !again) {
      if (names !== named && (answer || !start)) draw(state, names);
      return;
    }
    shown = asked;
    answer = null;
    if (!start) {
      newest.stop();
      draw(state, names);
      return;
    }
    const body = { from: start, steps: state.steps };
    const kinds = ALONG[along(state)][0];
    if (kinds) body.modality = kinds;
    if (state.not.length) body.not = state.not.map(toQuery);
    if (state.to) body.to = toQuery(state.to);
    try {
      const found = await newest(async (signal) => {
        if (along(state) === "chain") {
          const { modality, ...rest } = body;    // by default the captions are the candidates, as on the command line
          return retrieved(await post("/api/hierarchy", { ...rest, protocol: "paper" }, signal));
        }
        const inside = await post("/api/traverse", body, signal);
        if (inside.stops.some((it) => it.hit)) return inside;
        // No cone contains a point of the path. Show the nearest rows instead, with a notice.
        return { ...await post("/api/traverse", { ...body, cone: false }, signal), nearest: true };
      });
      if (!found) return;
      answer = found;
      draw(current(), names);
    } catch (error) {
      shown = "";
      say("");
      fill(node, trouble(missing(error, "paths"), () => render(current(), true)));
    }
  }

  function draw(state, names) {
    named = names;
    if (answer) return walk(state, answer);
    say("");
    fill(node, notice("A path needs a start",
      "Search for something first, or open a row. The path then goes from the specific to the general, up to the root, and shows the texts on the way.",
      ...fromOpen(state, "solid")));
  }

  /** The kind of stops. The kind filter of the results does not apply: a path with photos only would be empty. */
  function along(state) {
    const wanted = state.along ?? (state.to ? "all" : "texts");
    return offered(wanted, state) ? wanted : "all";
  }

  /** True if the set has rows of this kind. A chain of texts has no other end. */
  function offered(name, state) {
    const kinds = ALONG[name][0];
    return (name !== "chain" || !state.to) && (!kinds || kinds.some((it) => info.modalities[it] > 0));
  }

  /** The reply of /api/hierarchy as a path. The position of a text is its radius as a fraction of the largest. */
  function retrieved({ tiers, true_chain: truth = null }) {
    const end = tiers.length ? tiers[tiers.length - 1].radius : 0;
    return { stops: tiers.map(({ radius, hit }) => ({ at: end > 0 ? radius / end : 0, hit })), chain: true, truth };
  }

  /** The open row as a query term, unless the path already starts there; else `null`. */
  function openRow(state) {
    const start = state.from ?? (state.terms.length === 1 ? state.terms[0] : null);
    const row = state.select;
    return row === null || (start?.kind === "row" && start.value === row) ? null : { kind: "row", value: row };
  }

  function fromOpen(state, look = "") {
    const term = openRow(state);
    if (!term) return [];
    return [el(`button${look ? `.${look}` : ""}`, { type: "button", id: "from-open", onclick: () => update({ from: term, to: null }) },
      `Start from the open ${describe(term)}`)];
  }

  function walk(state, { stops, nearest = false, chain = false, truth = null }) {
    const from = state.from ? describe(state.from) : state.terms.map(describe).join(" and ");
    const to = state.to ? describe(state.to) : "the root";
    const rows = stops.filter((it) => it.hit).length;
    const found = `${rows} ${rows === 1 ? "row" : "rows"}`;
    say(chain ? `${found} from general to specific for ${from}.` : `${found} on the way from ${from} to ${to}.`);
    const steps = el("input", { type: "range", min: 2, max: 200, step: 1, value: state.steps, id: "steps",
      oninput: () => { out.value = steps.value; },
      onchange: () => update({ steps: Number(steps.value) }, { replace: true }) });
    const out = el("output", {}, String(state.steps));
    const list = el("ol.walk", { "aria-label": `Path from ${from} to ${to}` }, stops.map((stop) => {
      const at = el("span.at", {}, stop.at.toFixed(2));
      const inner = stop.root
        ? el("div.card.root", {}, el("div.face", { tabIndex: 0 }, el("span.words", {}, el("span", {}, "root"))), el("p.facts", {}, "the most general point"))
        : card(stop.hit, { by: "similarity", open, depth: info.depth, selected: state.select === stop.hit.row, pick: togglePicked, picked: isPicked([stop.hit]) });
      const item = el("li.stop", { dataset: { at: stop.at } }, at, el("ul", {}, inner));
      return item;
    }));
    fill(node,
      el("div.legs", {},
        el("p", {}, picture(state.from ?? (state.terms.length === 1 ? state.terms[0] : null)), el("b", {}, from), " → ", picture(state.to), el("b", {}, to)),
        el("label.line", {}, el("span", {}, "by way of"), kinds(state)),
        fromOpen(state),
        state.to ? el("button", { type: "button", onclick: () => update({ to: null }) }, "To the root instead") : null,
        state.from && state.terms.length ? el("button", { type: "button", onclick: () => update({ from: null }) }, "From the query instead") : null,
        el("div.slider", {}, el("label", { htmlFor: "steps" }, "Steps"), out, steps)),
      chain ? el("p.hint", {}, "From general to specific: at each radius around the root, the text within it that is most similar to the start. The most general one is left out.") : null,
      truth ? el("p.hint", { id: "true-chain" }, `True chain: ${truth.join(" → ")}`) : null,
      nearest && rows ? el("p.hint", {}, "No row of this kind has a cone that contains the path, so the model places none above the start. These are the nearest rows.") : null,
      rows ? null : notice("No row lies on this path", "There are no rows of this kind. Choose another kind above."),
      rule(stops, list, chain ? ["root", "closest text"] : ["0", "1"]), list);
  }

  /** A small picture of an end of the path, if it is a row with a picture; else `null`. */
  function picture(term) {
    if (term?.kind !== "row" || !pictured(term.value)) return null;
    const image = el("img.preview", { alt: "" });
    image.addEventListener("error", () => image.remove(), { once: true });
    thumbnail(image, term.value, 128);
    return image;
  }

  function kinds(state) {
    const names = Object.keys(ALONG).filter((it) => offered(it, state));
    return el("select", { id: "along", onchange: (event) => update({ along: event.target.value }, { replace: true }) },
      names.map((it) => el("option", { value: it, selected: it === along(state) }, ALONG[it][1])));
  }

  /** A ruler of the path from 0 to 1, with a mark at the first point where each row is the nearest. */
  function rule(stops, list, [first, last]) {
    const width = Math.max(300, node.clientWidth);
    const marks = stops.map((stop, i) => {
      const mark = svg("circle", { cx: 20 + stop.at * (width - 40), cy: 18, r: 5, class: stop.root ? "root" : stop.hit.modality });
      mark.addEventListener("click", () => list.children[i].scrollIntoView({ behavior: "smooth", block: "center" }));
      mark.addEventListener("pointerenter", () => list.children[i].classList.add("lit"));
      mark.addEventListener("pointerleave", () => list.children[i].classList.remove("lit"));
      return mark;
    });
    const ticks = Array.from({ length: 11 }, (_, i) => svg("line", { x1: 20 + i * (width - 40) / 10, x2: 20 + i * (width - 40) / 10, y1: 12, y2: 24 }));
    const words = [[20, "start", first], [width - 20, "end", last]].map(([x, anchor, text]) => {
      const word = svg("text", { x, y: 40, "text-anchor": anchor });
      word.textContent = text;
      return word;
    });
    return svg("svg", { viewBox: `0 0 ${width} 46`, class: "rule", "aria-hidden": "true" },
      svg("line", { x1: 20, x2: width - 20, y1: 18, y2: 18 }), ...ticks, ...marks, ...words);
  }

  return { render };
}
