// Entry point: requests the description of the set, then updates all parts of the page when the state in the URL
// changes.

import { get, hasToken, setToken } from "./api.js";
import { el, fill } from "./dom.js";
import { details } from "./details.js";
import { factors } from "./factors.js";
import { filterBar } from "./filters.js";
import { gallery } from "./gallery.js";
import { helper, keys } from "./keys.js";
import { map } from "./map.js";
import { path } from "./path.js";
import { notice, trouble } from "./rows.js";
import { nameRow, searchBox, startAnew, titleOf } from "./search.js";
import { selectionBar } from "./selection.js";
import { current, follow, onChange, update } from "./state.js";
import { theme } from "./theme.js";
import { classTree } from "./tree.js";

const $ = (id) => document.getElementById(id);
const VIEWS = [["results", "Results"], ["path", "Path"], ["map", "Map"], ["factors", "Factors"]];

const say = (text) => { $("status").textContent = text; };

async function start() {
  fill($("main"), el("p.busy", {}, "…"));
  try {
    run(await get("/api/info"));
  } catch (error) {
    if (error.status === 401) return askToken();
    fill($("main"), trouble(error, start));
  }
}

function run(info) {
  document.title = info.model ? `${info.model} · conifer explorer` : "conifer explorer";
  let answer = null;
  const fail = (error, again) => {
    say("");
    const box = trouble(error, again ? () => { box.remove(); again(); } : null);
    $("status").after(box);
    setTimeout(() => box.isConnected && box.addEventListener("click", () => box.remove()), 0);
  };
  const open = (hit) => {
    if (hit.id) nameRow(hit.row, name(hit));
    update({ select: hit.row }, { replace: true });
  };
  const name = titleOf;

  const panes = Object.fromEntries(VIEWS.map(([view, title]) => [view,
    el(`section.pane.${view}`, { role: "tabpanel", id: `pane-${view}`, "aria-label": title, hidden: true })]));
  fill($("main"), Object.values(panes));
  const shown = VIEWS.filter(([view]) => view !== "factors" || info.space.factors > 1);
  fill($("tabs"), shown.map(([view, title]) => el("button", { type: "button", role: "tab", id: `tab-${view}`,
    "aria-controls": `pane-${view}`, onclick: () => update({ view }) }, title)));
  $("tabs").addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const at = shown.findIndex(([view]) => view === current().view);
    const [view] = shown[(at + step + shown.length) % shown.length];
    update({ view });
    $(`tab-${view}`).focus();
    event.preventDefault();
    event.stopPropagation();
  });

  // Each view has its own status line, shown while the view is open.
  const statuses = {};
  const quiet = (view) => (text) => {
    statuses[view] = text;
    if (current().view === view) say(text);
  };
  const results = gallery(panes.results, { info, say: quiet("results"), open, name, limited: (it) => filters.limited(it), answered: (it) => {
    answer = it;
    panel(current());
    if (current().view === "factors") views.factors.render(current());
    if (current().view === "map") views.map.render(current(), current());
  } });
  const panel = details($("details"), { info, name,
    scores: (row) => (current().terms.length ? results.hits().find((it) => it.row === row) : undefined) });
  const views = {
    path: path(panes.path, { info, say: quiet("path"), open }),
    map: map(panes.map, { info, say: quiet("map"), open, hits: results.hits }),
    factors: factors(panes.factors, { info, say: quiet("factors"), open,
      activation: () => (current().terms.length ? answer?.query?.factors ?? null : null) }),
  };
  const tree = info.can.tree || info.columns.some((it) => it.name === "label" && it.distinct > 1) ? classTree(info.can.tree, fail) : null;
  const filters = filterBar($("filters"), info, tree);
  selectionBar($("selection"), { shown: results.hits });
  const parts = [
    searchBox({ can: info.can, say, fail, again: () => render(current(), current()) }),
    filters.render,
    panel,
  ];

  const render = (state, before) => {
    document.querySelectorAll("#status ~ .trouble").forEach((it) => it.remove());
    document.body.dataset.view = state.view;
    for (const [view] of VIEWS) {
      panes[view].hidden = view !== state.view;
      $(`tab-${view}`)?.setAttribute("aria-selected", String(view === state.view));
      if ($(`tab-${view}`)) $(`tab-${view}`).tabIndex = view === state.view ? 0 : -1;
    }
    if (before && before.view !== state.view) say(statuses[state.view] ?? "");
    parts.forEach((part) => part(state));
    // Results are updated even if another view is open: the map marks them, and the factors show their query.
    results.render(state);
    views[state.view]?.render(state, before);
  };
  onChange(render);
  keys({ open, hits: results.hits, name });
  $("home").addEventListener("click", startAnew);
  $("open-filters").addEventListener("click", () => {
    const wide = document.body.classList.toggle("filtering");
    $("open-filters").setAttribute("aria-expanded", String(wide));
  });
  follow();
}

function askToken() {
  const input = el("input", { type: "password", id: "token", autocomplete: "off" });
  const form = el("form", { method: "dialog", onsubmit: () => {
    setToken(input.value);
    start();
  } }, el("h2", {}, "This server requires a token"),
  hasToken() ? el("p", {}, "The server rejected the token.") : null, el("label", { htmlFor: "token" }, "Token"), input,
  el("button.solid", { type: "submit" }, "Open"));
  fill($("locked"), form);
  const open = el("button.solid", { type: "button", onclick: askToken }, "Enter the token");
  fill($("main"), notice("This server requires a token", "It was started with --token-file.", open));
  if (!$("locked").open) $("locked").showModal();
}

theme($("theme"));
helper($("helper"), $("help"));
start();
