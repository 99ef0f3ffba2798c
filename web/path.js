// Traversals: from the query (or a row) to the root, or to another row, with what is met on the way.

import { latest, post } from "./api.js";
import { el, fill, svg } from "./dom.js";
import { card, missing, notice, trouble } from "./rows.js";
import { describe } from "./search.js";
import { current, toFilter, toQueries, toQuery, update } from "./state.js";

/** A path view in `node`. */
export function path(node, { info, say, open }) {
  const newest = latest(node);
  let shown = "";

  async function render(state, again = false) {
    const start = state.from ? toQuery(state.from) : state.terms.length ? toQueries(state.terms) : null;
    const asked = JSON.stringify([start, state.to, state.steps, toFilter(state)]);
    if (asked === shown && !again) return;
    shown = asked;
    if (!start) {
      newest.stop();
      say("");
      return fill(node, notice("A path needs a start",
        "Search for something first, or open a row and choose “Path to root”. The path then goes from the specific to the general, and names what lies on the way."));
    }
    const body = { from: start, steps: state.steps, ...toFilter(state) };
    if (state.to) body.to = toQuery(state.to);
    try {
      const answer = await newest((signal) => post("/api/traverse", body, signal));
      if (answer) draw(state, answer.stops);
    } catch (error) {
      shown = "";
      say("");
      fill(node, trouble(missing(error, "paths"), () => render(current(), true)));
    }
  }

  function draw(state, stops) {
    const from = state.from ? describe(state.from) : state.terms.map(describe).join(" and ");
    const to = state.to ? describe(state.to) : "the root";
    const rows = stops.filter((it) => it.hit).length;
    say(`${rows} ${rows === 1 ? "row" : "rows"} on the way from ${from} to ${to}.`);
    const steps = el("input", { type: "range", min: 2, max: 200, step: 1, value: state.steps, id: "steps",
      oninput: () => { out.value = steps.value; },
      onchange: () => update({ steps: Number(steps.value) }, { replace: true }) });
    const out = el("output", {}, String(state.steps));
    const list = el("ol.walk", { "aria-label": `Path from ${from} to ${to}` }, stops.map((stop) => {
      const at = el("span.at", {}, stop.at.toFixed(2));
      const inner = stop.root
        ? el("div.card.root", {}, el("div.face", { tabIndex: 0 }, el("span.words", {}, el("span", {}, "root"))), el("p.facts", {}, "the most general point"))
        : card(stop.hit, { by: "similarity", open, depth: info.depth, selected: state.select === stop.hit.row });
      const item = el("li.stop", { dataset: { at: stop.at } }, at, el("ul", {}, inner));
      return item;
    }));
    fill(node,
      el("div.legs", {},
        el("p", {}, el("b", {}, from), " → ", el("b", {}, to)),
        state.to ? el("button", { type: "button", onclick: () => update({ to: null }) }, "To the root instead") : null,
        state.from && state.terms.length ? el("button", { type: "button", onclick: () => update({ from: null }) }, "From the query instead") : null,
        el("div.slider", {}, el("label", { htmlFor: "steps" }, "Steps"), out, steps)),
      rows ? null : notice("No row has this path in its cone", "With fewer filters, or with texts among the kinds of rows, there may be some."),
      rule(stops, list), list);
  }

  /** The whole path from 0 to 1, with a mark where each row was first the nearest. */
  function rule(stops, list) {
    const width = Math.max(300, node.clientWidth);
    const marks = stops.map((stop, i) => {
      const mark = svg("circle", { cx: 20 + stop.at * (width - 40), cy: 18, r: 5, class: stop.root ? "root" : stop.hit.modality });
      mark.addEventListener("click", () => list.children[i].scrollIntoView({ behavior: "smooth", inline: "center", block: "nearest" }));
      mark.addEventListener("pointerenter", () => list.children[i].classList.add("lit"));
      mark.addEventListener("pointerleave", () => list.children[i].classList.remove("lit"));
      return mark;
    });
    const ticks = Array.from({ length: 11 }, (_, i) => svg("line", { x1: 20 + i * (width - 40) / 10, x2: 20 + i * (width - 40) / 10, y1: 12, y2: 24 }));
    const words = [[20, "start", "0"], [width - 20, "end", "1"]].map(([x, anchor, text]) => {
      const word = svg("text", { x, y: 40, "text-anchor": anchor });
      word.textContent = text;
      return word;
    });
    return svg("svg", { viewBox: `0 0 ${width} 46`, class: "rule", "aria-hidden": "true" },
      svg("line", { x1: 20, x2: width - 20, y1: 18, y2: 18 }), ...ticks, ...marks, ...words);
  }

  return { render };
}
