// Products of hyperboloids: how far the query reaches in each factor, and which rows reach farthest in one.

import { get, latest } from "./api.js";
import { el, fill, number } from "./dom.js";
import { card, missing, notice, trouble } from "./rows.js";
import { update } from "./state.js";

const ROWS = 24;

/** A view of the factors in `node`. `activation()` is the query's norm per factor, or null. */
export function factors(node, { info, say, open, activation }) {
  const newest = latest();
  let all = null;
  let shown = "";
  const bars = el("div.bars", { role: "radiogroup", "aria-label": "Factors" });
  const top = el("div");

  async function render(state) {
    if (info.space.factors < 2) {
      say("");
      return fill(node, notice("This space has one factor", "Products of hyperboloids, as PHyCLIP makes them, have several: one for each family of concepts."));
    }
    if (!node.contains(bars)) {
      fill(node, el("p.hint", {}, "Each factor of the product is a hierarchy of its own. A bar is how far the query lies from the root in that factor; the line across it is the mean of all rows. Choose a factor to see the rows that reach farthest in it."), bars, top);
    }
    try {
      all ??= (await get("/api/factors")).factors;
      draw(state, all);
      const asked = JSON.stringify([state.factor, state.modality]);
      if (state.factor === null || state.factor >= all.length) {
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
      fill(top, el("h2", {}, `Farthest in factor ${state.factor + 1}`),
        hits.length ? el("ul.grid", {}, hits.map((hit) => card(hit, { by: "factor", open, depth: info.depth })))
          : notice("No such row", "There are no rows of the chosen kinds."));
    } catch (error) {
      shown = "";
      fill(top, trouble(missing(error, "factors"), () => render(state)));
    }
  }

  function draw(state, list) {
    const query = activation();
    say(query ? `The query in ${list.length} factors.` : `${list.length} factors; search for something to see where it reaches.`);
    const most = Math.max(...list.map((it) => it.max), ...(query ?? []), 1e-9);
    fill(bars, list.map((it, i) => {
      const value = query ? query[i] : it.mean;
      const title = `Factor ${i + 1}: ${query ? `query ${number(value)}, ` : ""}mean ${number(it.mean)}, largest ${number(it.max)}, curvature −${number(it.curv, 2)}`;
      const bar = el(`button.factor${query ? "" : ".mean"}`, { type: "button", role: "radio", title, "aria-label": title,
        "aria-checked": String(state.factor === i), onclick: () => update({ factor: state.factor === i ? null : i }) },
      el("span.fill"), el("span.tick"), el("small", {}, String(i + 1)));
      bar.style.setProperty("--value", `${100 * value / most}%`);
      bar.style.setProperty("--mean", `${100 * it.mean / most}%`);
      return bar;
    }));
  }

  return { render };
}
