// The search box: query terms as chips, text input, and photos by button, drop or paste.

import { get, latest, thumbnail, upload } from "./api.js";
import { el, fill, icon } from "./dom.js";
import { brief } from "./long.js";
import { caption, kindOf } from "./rows.js";
import { current, START, update } from "./state.js";

/** Previews of the photos that were added on this page, by token. */
const previews = new Map();
/** Names of rows by row number. */
const names = new Map();
/** Rows that are known to have a picture. */
const pictures = new Set();
/** Rows whose names were requested. */
const asked = new Set();
/** Maximum number of terms in a query, as on the server. */
const MAX_TERMS = 8;

/** Stores the name of a row for its chip. */
export function nameRow(row, name) {
  names.set(row, name);
}

/** Returns true if a row is known to have a picture. */
export function pictured(row) {
  return pictures.has(row);
}

/** Requests the names of rows that have none yet, then calls `done`. */
async function learn(terms, done) {
  const rows = terms.filter((it) => it.kind === "row" && !asked.has(it.value)).map((it) => it.value);
  if (!rows.length) return;
  rows.forEach((row) => asked.add(row));
  await Promise.all(rows.map(async (row) => {
    try {
      const hit = await get(`/api/rows/${row}`);
      names.set(row, titleOf(hit));
      if (hit.thumbnail) pictures.add(row);
    } catch {
      // The search itself shows the error of this row.
    }
  }));
  done();
}

/** The name of a row on a chip: its kind and the beginning of its text. */
export function titleOf(hit) {
  const text = caption(hit);
  return `${kindOf(hit)} “${text.length > 28 ? `${text.slice(0, 27)}…` : text}”`;
}

/** The text of a chip. */
export function describe(term) {
  if (term.kind === "photo") return "photo";
  if (term.kind === "row") return names.get(term.value) ?? `row ${term.value}`;
  return term.kind === "id" ? `id ${brief(term.value)}` : `“${brief(term.value)}”`;
}

/** Sets up the search box. `can` has the features of the server; `say` shows a status message. */
export function searchBox({ can, say, fail, again }) {
  const [form, field, input, chips, file, drop] =
    ["search", "field", "text", "chips", "file", "drop"].map((id) => document.getElementById(id));
  const photo = document.getElementById("photo");
  photo.append(icon("photo"));
  if (!can.text) {
    input.placeholder = "No text encoder: search from a row";
    input.title = "The server cannot embed texts: start it with --checkpoint, and with --embedding-endpoint if the model reads vectors";
    for (const it of [input, ...["go", "and", "not"].map((id) => document.getElementById(id))]) it.disabled = true;
  }
  if (!can.photo) photo.hidden = true;

  const text = () => input.value.trim();
  const typed = () => (text() ? [{ kind: "text", value: text() }] : []);
  const search = (change) => {
    update({ view: current().view === "factors" ? "factors" : "results", ...change });
    input.value = "";
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const now = current();
    if (!text()) return;
    // A query of several terms gets another term; a single term is replaced.
    search({ terms: now.terms.length > 1 ? [...now.terms, ...typed()] : typed() });
  });
  document.getElementById("and").addEventListener("click", () => {
    if (!text()) {
      input.focus();
      say("Type what to add to the query, then press “+ and”.");
    } else if (current().terms.length >= MAX_TERMS) say("A query can have at most eight terms.");
    else search({ terms: [...current().terms, ...typed()] });
  });
  document.getElementById("not").addEventListener("click", () => {
    if (!text()) {
      input.focus();
      say("Type what to exclude, then press “− not”.");
    } else search({ not: [...current().not, ...typed()] });
  });
  input.addEventListener("keydown", (event) => {
    const now = current();
    if (event.key !== "Backspace" || input.value) return;
    if (now.not.length) update({ not: now.not.slice(0, -1) });
    else if (now.terms.length) update({ terms: now.terms.slice(0, -1) });
  });

  const uploads = latest();
  const add = async (blob, together) => {
    if (!can.photo) return say("The server has no encoder of photos: start it with --checkpoint and a model that does not read vectors.");
    if (!/^image\/(jpeg|png|webp)$/.test(blob.type)) return say("The file is not a JPEG, PNG or WebP photo.");
    say("Embedding the photo …");
    // A photo alone replaces the current query, but not a newer query entered during the upload.
    const { terms } = current();
    const late = () => !together && current().terms !== terms;
    const embed = async (signal) => {
      const { photo: token } = await upload(blob, signal);
      previews.set(token, await preview(blob));
      return { kind: "photo", value: token };
    };
    try {
      const term = together ? await embed() : await uploads(embed);
      if (term && !late()) search({ terms: together ? [...current().terms, term] : [term] });
    } catch (error) {
      if (!late()) fail(error, () => add(blob, together));
    }
  };
  photo.addEventListener("click", () => file.click());
  file.addEventListener("change", () => {
    if (file.files[0]) add(file.files[0], false);
    file.value = "";
  });
  window.addEventListener("paste", (event) => {
    const item = [...event.clipboardData.items].find((it) => it.type.startsWith("image/"));
    if (!item) return;
    event.preventDefault();
    add(item.getAsFile(), false);
  });
  const carries = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
  window.addEventListener("dragover", (event) => {
    if (!carries(event)) return;
    event.preventDefault();
    drop.hidden = false;
  });
  window.addEventListener("dragleave", (event) => {
    if (!event.relatedTarget) drop.hidden = true;
  });
  window.addEventListener("drop", (event) => {
    drop.hidden = true;
    if (!carries(event)) return;
    event.preventDefault();
    const dropped = [...event.dataTransfer.files].find((it) => it.type.startsWith("image/"));
    if (dropped) add(dropped, event.shiftKey);
    else say("Drop a JPEG, PNG or WebP photo.");
  });
  field.addEventListener("click", (event) => {
    if (event.target === field) input.focus();
  });

  const small = (row) => {
    const image = el("img.preview", { alt: "" });
    thumbnail(image, row, 64);
    return image;
  };

  return function render(state) {
    const opened = state.select === null ? null : { kind: "row", value: state.select };
    learn([...state.terms, ...state.not, state.inside, state.from, state.to, opened].filter(Boolean), () => again());
    const chip = (term, at, list) => {
      const excluded = list === "not";
      const without = state[list].filter((_, i) => i !== at);
      return el(`li.chip${excluded ? ".out" : ""}`, {},
        excluded ? el("b", {}, "not") : at > 0 ? el("b", {}, "and") : null,
        previews.get(term.value) ? copy(previews.get(term.value)) : null,
        term.kind === "row" && pictured(term.value) ? small(term.value) : null,
        el("span", {}, describe(term)),
        el("button", { type: "button", "aria-label": `Remove ${describe(term)}`, onclick: () => update({ [list]: without }) }, icon("close")));
    };
    fill(chips, state.terms.map((term, i) => chip(term, i, "terms")), state.not.map((term, i) => chip(term, i, "not")));
    document.body.classList.toggle("asked", state.terms.length > 0);
  };
}

/** Makes a row the whole query. */
export function searchFrom(hit, name) {
  nameRow(hit.row, name);
  update({ terms: [{ kind: "row", value: hit.row }], view: "results" });
}

/** Returns true if a term can be added to the query. */
export function joinable(state) {
  return state.terms.length > 0 && state.terms.length < MAX_TERMS;
}

/** Adds a row to the current query, which may be newer than the query for which the row was drawn. */
export function addRow(hit, name) {
  nameRow(hit.row, name);
  const { terms } = current();
  if (terms.length < MAX_TERMS && !holds(terms, hit)) update({ terms: [...terms, { kind: "row", value: hit.row }] });
}

/** Adds a row to the current exclusions: rows inside its cone are left out. */
export function excludeRow(hit, name) {
  nameRow(hit.row, name);
  const { not } = current();
  if (!holds(not, hit)) update({ not: [...not, { kind: "row", value: hit.row }] });
}

const holds = (terms, hit) => terms.some((it) => it.kind === "row" && it.value === hit.row);

/** Resets the query, the filters and the view. */
export function startAnew() {
  update({ ...START });
}

async function preview(blob) {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 56;
  try {
    const picture = await createImageBitmap(blob);
    const side = Math.min(picture.width, picture.height);
    canvas.getContext("2d").drawImage(picture, (picture.width - side) / 2, (picture.height - side) / 2, side, side, 0, 0, 56, 56);
  } catch {
    return null;
  }
  return canvas;
}

function copy(canvas) {
  const made = el("canvas.preview", { width: canvas.width, height: canvas.height, "aria-hidden": "true" });
  made.getContext("2d").drawImage(canvas, 0, 0);
  return made;
}
