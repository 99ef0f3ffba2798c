// The view of a product space: the depth of the query in each factor, and the deepest rows in a selected factor.

import { get, latest } from "./api.js";
import { el, fill, number } from "./dom.js";
import { card, missing, notice, trouble } from "./rows.js";
import { current, update } from "./state.js";

const ROWS = 24;
const STEPS = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };

/** Creates the view in `node`. `activation()` returns the depth of the query in each factor, or null. */
export function factors(node, { info, say, open, activation }) {
  const newest = latest();
  let all = null;    // promise of the summary of all factors, requested once
  let shown = "";
  let buttons = [];
  const bars = el("div.bars", { role: "radiogroup", "aria-label": "Factors", onkeydown: step });
  const top = el("div");

  async function render(state) {
    if (info.space.factors < 2) {
      say("");
      return fill(node, notice("This space has one factor", "Product spaces, as in PHyCLIP, have several factors, one for each family of concepts."));
    }
    if (!node.contains(bars)) {
      fill(node, el("p.hint", {}, "Each factor is a separate hierarchy. A bar shows how far the query is from the root in that factor; the line across it is the mean of all rows. Choose a factor to see its deepest rows."), bars, top);
    }
    try {
      all ??= get("/api/factors");
      const { factors: list } = await all;
      if (state !== current()) return; // the newer state is drawn by its own call
      draw(state, list);
      const asked = JSON.stringify([state.factor, state.modality]);
      if (state.factor === null || state.factor >= list.length) {
        newest.stop();
        shown = "";
        fill(top);
        return;
      }
      if (asked === shown) return;
      shown = asked;
      const kinds = state.modality.length ? state.modality : ["image"];
      const lists = await newest((signal) => Promise.all(kinds.map((it) =>
        get(`/api/factors/${state.factor}?k=${ROWS}&modality=${it}`, signal))));
      if (!lists) return;
      const hits = lists.flatMap((it) => it.hits).sort((a, b) => b.score - a.score).slice(0, ROWS);
      fill(top, el("h2", {}, `Deepest rows in factor ${state.factor + 1}`),
        hits.length ? el("ul.grid", {}, hits.map((hit) => card(hit, { by: "factor", open, depth: info.depth })))
          : notice("No rows", "There are no rows of the chosen kinds."));
    } catch (error) {
      if (!buttons.length) all = null;
      shown = "";
      fill(top, trouble(missing(error, "factors"), () => render(current())));
    }
  }

  function draw(state, list) {
    const query = activation();
    say(query ? `Depth of the query in ${list.length} factors.` : `${list.length} factors; search for something to see its depth in each.`);
    if (!buttons.length) {
      buttons = list.map((_, i) => el("button", { type: "button", role: "radio",
        onclick: () => update({ factor: current().factor === i ? null : i }) },
      el("span.fill"), el("span.tick"), el("small", {}, String(i + 1))));
      fill(bars, buttons);
    }
    // Roving tabindex: Tab stops at one factor, and the arrow keys move to the others.
    const stop = state.factor !== null && state.factor < list.length ? state.factor : 0;
    const most = Math.max(...list.map((it) => it.max), ...(query ?? []), 1e-9);
    list.forEach((it, i) => {
      const value = query ? query[i] : it.mean;
      const title = `Factor ${i + 1}: ${query ? `query ${number(value)}, ` : ""}mean ${number(it.mean)}, largest ${number(it.max)}, curvature −${number(it.curv, 2)}`;
      const bar = buttons[i];
      bar.className = query ? "factor" : "factor mean";
      bar.title = title;
      bar.setAttribute("aria-label", title);
      bar.setAttribute("aria-checked", String(state.factor === i));
      bar.tabIndex = i === stop ? 0 : -1;
      bar.style.setProperty("--value", `${100 * value / most}%`);
      bar.style.setProperty("--mean", `${100 * it.mean / most}%`);
    });
  }

  /** Arrows, Home and End choose a factor, as in a radio group, without a new history entry. */
  function step(event) {
    const here = buttons.indexOf(event.target);
    if (here < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    const to = { Home: 0, End: buttons.length - 1 }[event.key] ?? (here + STEPS[event.key] + buttons.length) % buttons.length;
    if (Number.isNaN(to)) return;
    event.preventDefault();
    event.stopPropagation();
    update({ factor: to }, { replace: true });
    buttons[to].focus();
  }

  return { render };
}
