// Keyboard shortcuts, and the help dialog that lists them.

import { el, fill, icon } from "./dom.js";
import { nameRow, searchFrom } from "./search.js";
import { current, update } from "./state.js";

const LIST = [
  ["/", "search for a text"],
  ["arrows", "move among the results, or the factors"],
  ["Enter", "search from the result"],
  ["Space", "open the result"],
  ["x", "select the result, for export"],
  ["t", "path from the result, or the query, to the root"],
  ["m", "the map"],
  ["arrows, Enter", "on the map: go to the nearest row on that side, open it; Shift with arrows moves the map"],
  ["l", "on the map: draw around points to list their rows"],
  ["Esc", "close, go back to the results"],
  ["?", "this help"],
];

/** Sets up the help button and the help dialog. */
export function helper(dialog, button) {
  const close = () => dialog.close();
  fill(dialog,
    el("header", {}, el("h2", {}, "How to explore"), el("button.plain", { type: "button", "aria-label": "Close", onclick: close }, icon("close"))),
    el("p", {}, "Photos and texts are points in a space with a root at its centre. General things are near the root, specific things far from it. Points behind a point, as seen from the root, are special cases of it."),
    el("ul", {},
      el("li", {}, el("b", {}, "Nearest"), " shows the most similar rows."),
      el("li", {}, el("b", {}, "Narrower"), " shows special cases of the query, ", el("b", {}, "broader"), " shows more general rows. Both rank by an angle: 0° is directly behind the query, or directly in front of it."),
      el("li", {}, el("b", {}, "General → specific"), " shows the rows within an angle or a distance, most general first. The initial limit is chosen from the data."),
      el("li", {}, el("b", {}, "Path to the root"), " shows the texts on the path from a photo to the most general point: “a red car”, “a car”, “a vehicle”."),
      el("li", {}, el("b", {}, "+ and"), " adds to the query; ", el("b", {}, "− not"), " excludes something and its special cases."),
      el("li", {}, "Select results with their round button or ", el("kbd", {}, "x"), ", then export their ids."),
      el("li", {}, "Drop or paste a photo anywhere. The address of the page is a link to the current view.")),
    el("h3", {}, "Keyboard"),
    el("dl.keys", {}, LIST.flatMap(([key, what]) => [el("dt", {}, el("kbd", {}, key)), el("dd", {}, what)])));
  button.addEventListener("click", () => dialog.showModal());
  dialog.addEventListener("click", (event) => event.target === dialog && close());
}

/** Sets up the keyboard shortcuts of the page. */
export function keys({ hits, name }) {
  const focused = () => document.activeElement?.closest?.(".card")?.dataset.row;
  const hitOf = (row) => hits().find((it) => it.row === Number(row));

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    const typing = event.target.matches?.("input:not([type=checkbox], [type=radio], [type=range]), textarea, select");
    if (event.key === "Escape") return escape(event);
    if (typing) return;
    const row = focused();
    const acts = {
      "/": () => document.getElementById("text").focus(),
      "?": () => document.getElementById("helper").showModal(),
      x: () => {
        const card = document.activeElement?.closest?.(".card[data-rows]");
        card?.querySelector(".pick")?.click();
      },
      m: () => update({ view: current().view === "map" ? "results" : "map" }),
      t: () => {
        const from = row ?? current().select;
        if (from !== null && from !== undefined) {
          const hit = hitOf(from);
          if (hit) nameRow(hit.row, name(hit));
          update({ view: "path", from: { kind: "row", value: Number(from) }, to: null });
        } else update({ view: "path", from: null, to: null });
      },
    };
    if (acts[event.key]) {
      event.preventDefault();
      return acts[event.key]();
    }
    if (event.key === "Enter" && row !== undefined && document.activeElement.matches(".face")) {
      const hit = hitOf(row);
      event.preventDefault();
      if (hit) searchFrom(hit, name(hit));
      else update({ terms: [{ kind: "row", value: Number(row) }], view: "results" });
      return;
    }
    if (event.key.startsWith("Arrow") && event.target.type !== "range" && event.target.type !== "radio") walk(event);
  });

  function escape(event) {
    if (document.body.classList.contains("filtering")) document.getElementById("open-filters").click();
    else if (current().select !== null) update({ select: null }, { replace: true });
    else if (current().view !== "results") update({ view: "results" });
    else document.activeElement?.blur();
    event.preventDefault();
  }

  /** Moves the focus to the next card in the direction of the arrow key. */
  function walk(event) {
    const cards = [...document.querySelectorAll("main .pane:not([hidden]) .card .face")].filter((it) => it.offsetParent);
    if (!cards.length) return;
    const here = cards.indexOf(document.activeElement);
    event.preventDefault();
    if (here < 0) return cards[0].focus();
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step) return cards[here + step]?.focus();
    const from = cards[here].getBoundingClientRect();
    const down = event.key === "ArrowDown" ? 1 : -1;
    let best = null;
    let least = Infinity;
    for (const other of cards) {
      const to = other.getBoundingClientRect();
      const ahead = down * (to.top - from.top);
      if (ahead < from.height / 2) continue;
      const far = ahead * 4 + Math.abs(to.left - from.left);
      if (far < least) [best, least] = [other, far];
    }
    best?.focus();
  }
}
