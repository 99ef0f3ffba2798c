// The selection: rows selected on cards, and their export as CSV or JSON.

import { el, fill } from "./dom.js";
import { saveBlob } from "./picture.js";
import { caption, kindOf } from "./rows.js";

/** Selected rows by row number, in the order of selection. */
const picked = new Map();
const listeners = [];

/** Returns true if all of these rows are selected. */
export function isPicked(hits) {
  return hits.length > 0 && hits.every((hit) => picked.has(hit.row));
}

/** Selects rows, or deselects them if all of them are selected. */
export function togglePicked(hits) {
  const off = isPicked(hits);
  for (const hit of hits) {
    if (off) picked.delete(hit.row);
    else picked.set(hit.row, hit);
  }
  changed();
}

/** Adds rows to the selection. */
export function addPicked(hits) {
  hits.forEach((hit) => picked.set(hit.row, hit));
  changed();
}

/** Clears the selection. */
export function clearPicked() {
  picked.clear();
  changed();
}

/** Calls `listener` after every change. */
export function onPicked(listener) {
  listeners.push(listener);
}

function changed() {
  listeners.forEach((listener) => listener());
}

/** The exported fields of a row. */
const FIELDS = [
  ["row", (hit) => hit.row],
  ["id", (hit) => hit.id],
  ["kind", (hit) => kindOf(hit)],
  ["title", (hit) => caption(hit)],
  ["label", (hit) => hit.columns?.label ?? ""],
  ["sample", (hit) => hit.columns?.sample ?? ""],
];

/** Rows as CSV (RFC 4180): a header line, then one line per row. */
export function toCsv(hits) {
  const cell = (value) => (/[",\r\n]/.test(String(value)) ? `"${String(value).replaceAll('"', '""')}"` : String(value));
  const lines = [FIELDS.map(([name]) => name), ...hits.map((hit) => FIELDS.map(([, of]) => of(hit)))];
  return lines.map((line) => `${line.map(cell).join(",")}\r\n`).join("");
}

/** Rows as a JSON list of objects. */
export function toJson(hits) {
  return `${JSON.stringify(hits.map((hit) => Object.fromEntries(FIELDS.map(([name, of]) => [name, of(hit)]))), null, 2)}\n`;
}

function save(name, type, text) {
  saveBlob(name, new Blob([text], { type }));
}

/** Creates the selection bar in `node`. `shown()` returns the rows on the page. */
export function selectionBar(node, { shown }) {
  const count = el("b");
  const button = (id, text, title, onclick, name = "") => el(`button${name}`, { type: "button", id, title, onclick }, text);
  fill(node, count,
    button("export-csv", "Export selection as CSV", "A table: row, id, kind, title, label, sample",
      () => save("selection.csv", "text/csv;charset=utf-8", toCsv([...picked.values()])), ".solid"),
    button("export-json", "as JSON", "The same as a JSON list",
      () => save("selection.json", "application/json", toJson([...picked.values()])), ".solid"),
    button("select-shown", "Select all shown", "All results on the page", () => addPicked(shown())),
    button("select-none", "Clear", "Clear the selection", clearPicked, ".plain"));
  onPicked(() => {
    node.hidden = picked.size === 0;
    document.body.classList.toggle("picking", picked.size > 0);
    count.textContent = `${picked.size} selected`;
    for (const card of document.querySelectorAll(".card[data-rows]")) {
      const on = card.dataset.rows.split(",").every((row) => picked.has(Number(row)));
      card.classList.toggle("picked", on);
      const mark = card.querySelector(".pick");
      mark?.setAttribute("aria-checked", String(on));
    }
  });
}
