// The side bar with the ranking and the filters: angle, depth, modality, columns and the class tree.

import { depthSlider } from "./depth.js";
import { count, debounced, degrees, el, fill, number } from "./dom.js";
import { brief } from "./long.js";
import { describe } from "./search.js";
import { current, filtered, kept, limitOf, MODALITIES, START, update } from "./state.js";

const MODES = [
  ["near", "Nearest", "Most similar first."],
  ["narrower", "Narrower", "Special cases of the query, which are more specific: from “animal” to “dog”."],
  ["broader", "Broader", "More general than the query: from “dog” to “animal”."],
  ["general", "General → specific", "Rows below the query, most general first."],
];

/** Number of values of a column shown before the button "more". */
const LISTED = 8;

/** Creates the side bar. `render` updates it to a state; `limited` sets the limit that was chosen from the data. */
export function filterBar(node, info, tree) {
  const set = (change) => update(change, { replace: false });
  // Sliders replace the URL, so that a drag does not add history entries.
  const slide = debounced((change) => update(change, { replace: true }), 60);

  const modes = el("div.modes", { role: "radiogroup", "aria-label": "Ranking" }, MODES.map(([value, name, title]) =>
    choice("mode", value, name, title, () => set({ mode: value }))));
  const measure = el("label.line", {}, el("span", {}, "by"), el("select", {
    id: "measure", onchange: (event) => set({ measure: event.target.value }),
  }, [["distance", "distance"], ["similarity", "similarity"], ["inner", "inner product"]].map(([value, name]) =>
    el("option", { value }, name))));
  const said = el("p.said", { id: "mode-said" });
  const gate = el("label.line.tick", { title: "Only rows within an angle of the query, as seen from the root; ordered by similarity" },
    el("input", { type: "checkbox", id: "gate", onchange: (event) => set({ gate: event.target.checked }) }),
    el("span", {}, "only within an angle, most similar first"));
  const limit = el("div.line.limits", { role: "radiogroup", "aria-label": "Which rows to order" },
    choice("limit", "angle", "below it", "Rows below the query, within the angle: 0° is directly behind it as seen from the root", () => set({ limit: "angle" })),
    choice("limit", "distance", "around it", "Rows within the distance of the query", () => set({ limit: "distance" })));
  const angle = slider("angle", "Angle", 0, 180, 0.5, (v) => slide({ angle: v * Math.PI / 180 }), (v) => `${v.toFixed(1)}°`);
  const reach = Math.max(2 * info.depth.max, 0.1);
  const within = slider("within", "Distance", 0, reach, reach / 400, (v) => slide({ within: v }), (v) => number(v));

  const first = el("p.said", { id: "limit-said" });
  // The limit chosen from the data, used if the state has none.
  let chosen = null;

  const depth = depthSlider(info.depth, slide);
  // Without a checked kind there is no filter, so one click selects a single kind.
  const kinds = el("div.kinds", { role: "group", "aria-label": "Only these kinds of rows" }, Object.keys(MODALITIES)
    .filter((name) => info.modalities[name] > 0).map((name) => el("label.pill", { title: `Only ${MODALITIES[name][1]}` },
      el("input", { type: "checkbox", value: name, onchange: () =>
        set({ modality: [...kinds.querySelectorAll("input:checked")].map((it) => it.value) }) }),
      el("span", {}, MODALITIES[name][1], " ", el("small", {}, count(info.modalities[name]))))));
  const facets = info.columns.filter((it) => it.distinct > 1 && it.values.length > 1 && it.distinct <= 500 && it.distinct <= info.rows / 10).map((it) => facet(it, set));
  const active = el("div.active");

  fill(node,
    section("Order", modes, said, measure, gate, limit, angle.node, within.node, first),
    section("Kind", kinds),
    section("Depth", depth.node),
    tree ? section("Classes", tree.node) : null,
    facets.map((it) => section(it.title, it.node, false)),
    active);

  /** Shows the limit of the ranking: that of the state, or else the one chosen from the data. */
  function showLimit(state) {
    const needed = limitOf(state);
    angle.node.hidden = needed !== "angle";
    within.node.hidden = needed !== "within";
    const own = needed && state[needed] !== null;
    const found = chosen?.kind === needed ? chosen : null;
    const value = needed ? state[needed] ?? found?.value ?? null : null;
    if (needed === "angle") angle.set(value === null ? null : value * 180 / Math.PI);
    if (needed === "within") within.set(value);
    first.hidden = !needed || (!own && !found);
    fill(first, own
      ? el("button.plain.more", { type: "button", id: "auto-limit", onclick: () => set({ [needed]: null }) }, "Choose from the data again")
      : found ? `Chosen from the data: it keeps ${count(found.rows)} rows. Move it to keep more or fewer.` : null);
  }

  function render(state) {
    for (const input of node.querySelectorAll("input[type=radio]")) input.checked = state[input.name] === input.value;
    measure.hidden = state.mode !== "near";
    measure.querySelector("select").value = state.measure;
    gate.hidden = !["narrower", "broader"].includes(state.mode);
    gate.querySelector("input").checked = state.gate;
    limit.hidden = state.mode !== "general";
    said.textContent = MODES.find(([value]) => value === state.mode)[2];
    showLimit(state);
    depth.set(state.depth);
    for (const input of kinds.querySelectorAll("input")) {
      input.checked = state.modality.includes(input.value);
    }
    facets.forEach((it) => it.render(state));
    tree?.render(state);
    fill(active,
      state.inside ? chip("only below ", describe(state.inside), () => set({ inside: null })) : null,
      filtered(state) ? el("button.plain", { type: "button", id: "clear", onclick: () => set({
        modality: [], columns: {}, depth: null, inside: null, not: [], subtree: null,
      }) }, "Clear all filters") : null);
  }
  return { render, limited: (limit) => {
    chosen = limit;
    showLimit(current());
  } };
}

/** A button for empty results that widens the angle just enough to include a row at this angle (radians). */
export function widen(radians) {
  const wider = Math.min(Math.PI, radians + 0.02);
  return el("button.solid", { type: "button", onclick: () => update({ angle: wider }) }, `Widen the angle to ${degrees(wider)}`);
}

function section(title, ...content) {
  const open = content.at(-1) !== false;
  return el("details.section", { open }, el("summary", {}, brief(title)), content.filter((it) => it !== false));
}

function choice(name, value, text, title, onchange) {
  return el("label.choice", { title }, el("input", { type: "radio", name, value, onchange }), el("span", {}, text));
}

function chip(before, text, remove) {
  return el("p.chip", {}, el("b", {}, before), el("span", {}, text),
    el("button", { type: "button", "aria-label": `Remove: ${before}${text}`, onclick: remove }, "×"));
}

function slider(id, label, min, max, step, moved, format) {
  const out = el("output", { htmlFor: id });
  const input = el("input", { type: "range", id, min, max, step, oninput: () => {
    out.value = format(Number(input.value));
    moved(Number(input.value));
  } });
  const node = el("div.slider", {}, el("label", { htmlFor: id }, label), out, input);
  return { node, set: (value) => {
    if (value === null) {
      out.value = "…";
      return;
    }
    if (document.activeElement !== input || Math.abs(Number(input.value) - value) > step) input.value = value;
    out.value = format(value); // the value of the input is rounded to its step
  } };
}

function facet({ name, distinct, values }, set) {
  const box = el("div.facet");
  let all = false;
  const node = el("div", {}, box);
  const render = (state) => {
    const marked = kept(state, name);
    const shown = all ? values : values.filter(([value], i) => i < LISTED || marked.includes(value));
    const toggle = (value, on) => {
      const rest = marked.filter((it) => it !== value);
      set({ columns: { ...current().columns, [name]: on ? [...rest, value] : rest } });
    };
    fill(box,
      shown.map(([value, rows]) => el("label.tick", {},
        el("input", { type: "checkbox", checked: marked.includes(value), onchange: (event) => toggle(value, event.target.checked) }),
        el("span", { title: brief(value) }, value === "" ? "(empty)" : brief(value)), el("small", {}, count(rows)))),
      values.length > LISTED ? el("button.plain.more", { type: "button", onclick: () => {
        all = !all;
        render(current());
      } }, all ? "Fewer" : `${values.length - LISTED} more`) : null,
      all && distinct > values.length ? el("small", {}, `the ${values.length} most frequent of ${count(distinct)}`) : null);
  };
  return { title: name, node, render };
}

/** A state change that removes all filters. */
export const UNFILTERED = { modality: START.modality, columns: START.columns, depth: null, inside: null, not: [], subtree: null };
