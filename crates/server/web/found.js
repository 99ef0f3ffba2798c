// The list of the rows that the user has outlined on the map.

import { latest, post } from "./api.js";
import { count, el, fill } from "./dom.js";
import { shallowest } from "./lasso.js";
import { saveBlob } from "./picture.js";
import { card, trouble } from "./rows.js";
import { addPicked, isPicked, togglePicked } from "./selection.js";
import { current, MODALITIES } from "./state.js";

/** Number of cards added at a time. */
const PAGE = 60;
/** Maximum number of rows that can be selected at once: the maximum of one request. */
const MOST = 1000;
const KINDS = Object.keys(MODALITIES);

/** Creates the list in `node`. `cleared` is called when the user closes it. */
export function foundRows(node, { info, open, cleared }) {
  const newest = latest(node);
  let points = null;
  let found = new Uint32Array(0);

  const rowsOf = (many) => shallowest(found, points.depth, many).map((i) => points.rows[i]);
  const request = (rows) => newest((signal) => post("/api/rows/list", { rows }, signal));

  async function guarded(work) {
    try {
      await work();
    } catch (error) {
      node.append(trouble(error));
    }
  }

  /** Shows the points with these indices, most general first. */
  function show(shown, indices) {
    [points, found] = [shown, indices];
    node.hidden = false;
    const title = found.length === 1 ? "1 row in the outline" : `${count(found.length)} rows in the outline`;
    const list = el("ul.grid.best", { "aria-label": "Rows in the outline" });
    const more = el("button.plain.wide", { type: "button", hidden: true, onclick: () => guarded(add) }, "Show more");
    const select = el("button", { type: "button", id: "found-select", onclick: () => guarded(async () => {
      const hits = await request(rowsOf(MOST));
      if (hits) addPicked(hits);
    }) }, found.length > MOST ? `Select the ${count(MOST)} most general` : "Select all");
    let cards = 0;

    async function add() {
      const rows = rowsOf(cards + PAGE);
      const hits = await request(rows.slice(cards));
      if (!hits) return;
      cards = rows.length;
      list.append(...hits.map((hit) => card(hit, { by: "general", open, depth: info.depth, pick: togglePicked, picked: isPicked([hit]),
        selected: current().select === hit.row })));
      more.hidden = cards >= found.length;
    }

    fill(node,
      el("header", {}, el("h2", {}, title), found.length ? [
        select,
        el("button", { type: "button", id: "found-csv", title: "Row number, kind, depth and position of every row in the outline", onclick: save }, "Export rows as CSV"),
      ] : null, el("button.plain", { type: "button", id: "found-clear", onclick: () => { clear(); cleared(); } }, "Clear")),
      found.length ? el("p.hint", {}, "Most general first.") : el("p.hint", {}, "No visible point is inside. Draw around some points, or widen the depth range."),
      list, more);
    if (found.length) guarded(add);
  }

  function save() {
    const short = (value) => Number(value.toPrecision(8)); // the numbers have the precision of f32
    const lines = ["row,kind,depth,x,y\r\n"];
    const { rows, modality, depth, x, y, extent } = points;
    for (const i of found) {
      // Positions as the layer has them: those of a plane were scaled for the screen.
      const [px, py] = [extent.x + extent.size * x[i], extent.y + extent.size * y[i]];
      lines.push(`${rows[i]},${KINDS[modality[i]]},${[depth[i], px, py].map(short).join(",")}\r\n`);
    }
    saveBlob("rows.csv", new Blob(lines, { type: "text/csv;charset=utf-8" }));
  }

  function clear() {
    newest.stop();
    found = new Uint32Array(0);
    node.hidden = true;
    fill(node);
  }

  return { show, clear };
}
