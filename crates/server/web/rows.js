// Draws rows: cards, pictures, captions, scores and notices.

import { thumbnail } from "./api.js";
import { degrees, el, number } from "./dom.js";
import { brief } from "./long.js";
import { MODALITIES } from "./state.js";

const PHOTO_FILE = /\.(jpe?g|png|webp|gif|bmp|tiff?)$/i;

const fileName = (path) => path.split(/[/\\]/).at(-1);

/**
 * The title of a row: its text. If the text of a photo is only a file path, the title is the class of the photo, or
 * without a class the file name.
 */
export function caption(hit) {
  const columns = hit.columns ?? {};
  const text = columns.text || hit.id;
  const isFile = hit.modality === "image" && PHOTO_FILE.test(text);
  if (!isFile) return text;
  return columns.common_name || columns.label || fileName(text);
}

/** The second line of a row: its file name or id; empty if the title is the same. */
export function origin(hit) {
  const columns = hit.columns ?? {};
  const file = [columns.file, columns.image, columns.text, hit.id]
    .find((it) => hit.modality === "image" && typeof it === "string" && PHOTO_FILE.test(it));
  const name = file ? fileName(file) : hit.id;
  return name === caption(hit) ? "" : name;
}

/** The label of the modality of a row. */
export function kindOf(hit) {
  return MODALITIES[hit.modality]?.[0] ?? hit.modality;
}

/** The group key of a row: rows of the same box share a key, other rows have a unique key. */
function boxKey(hit) {
  return hit.modality === "box_image" && hit.box && hit.columns?.sample
    ? JSON.stringify([hit.columns.sample, hit.box]) : `row ${hit.row}`;
}

/** Groups the rows of each box; every other row is a separate group. Groups are in the order of their first rows. */
export function boxGroups(hits) {
  const groups = new Map();
  for (const hit of hits) {
    const key = boxKey(hit);
    if (groups.has(key)) groups.get(key).push(hit);
    else groups.set(key, [hit]);
  }
  return [...groups.values()];
}

/** The picture of a row, or its text if it has no picture. */
export function face(hit, size = 256) {
  const words = () => el("span.words", {}, el("span", {}, brief(caption(hit))));
  if (!hit.thumbnail) return words();
  const image = el("img", { alt: "", loading: "lazy", decoding: "async", draggable: false });
  image.addEventListener("error", () => image.replaceWith(words()), { once: true });
  thumbnail(image, hit.row, size);
  return image;
}

const SCORES = {
  distance: (hit) => `distance ${number(hit.score)}`,
  similarity: (hit) => `similarity ${number(hit.score)}`,
  inner: (hit) => `inner ${number(hit.score)}`,
  narrower: (hit) => `angle ${degrees(hit.score)}`,
  broader: (hit) => `angle ${degrees(hit.score)}`,
  gated_narrower: (hit) => `similarity ${number(hit.score)}`,
  gated_broader: (hit) => `similarity ${number(hit.score)}`,
  general: (hit) => `depth ${number(hit.score)}`,
  factor: (hit) => `depth ${number(hit.score)}`,
};

/** The score of a hit with its name. */
export function scoreOf(hit, by) {
  return hit.score === undefined || hit.score === null ? "" : (SCORES[by] ?? SCORES.distance)(hit);
}

/**
 * A card for a row, or for a group of rows of one box, of which `hit` is the first. `actions` are [label, title, run]
 * triples, shown while the card is hovered or has the focus. `pick` is called to select the rows of the card; `picked`
 * is true if they are selected.
 */
export function card(hit, { by, open, actions = [], depth = null, size = 256, selected = false, group = [hit], pick = null, picked = false }) {
  const titles = [...new Set(group.map(caption))];
  const title = brief(titles.join(" · "));
  const label = `${kindOf(hit)}: ${title}. ${scoreOf(hit, by)}`;
  const main = el("button.face", { type: "button", "aria-label": label, onclick: () => open(hit), dataset: { row: hit.row } },
    face(hit, size));
  const meter = depth && hit.depth !== undefined
    ? el("span.meter", { title: `depth ${number(hit.depth)}: general on the left, specific on the right` }, el("i"))
    : null;
  if (meter) {
    const share = (hit.depth - depth.min) / Math.max(depth.max - depth.min, 1e-12);
    meter.firstChild.style.setProperty("--at", `${Math.min(Math.max(share, 0), 1) * 100}%`);
  }
  const pictured = hit.thumbnail && !/text$/.test(hit.modality);
  const mark = pick ? el("button.pick", { type: "button", role: "checkbox", "aria-checked": String(picked), tabIndex: -1,
    title: "Select (x)", "aria-label": `Select ${title}`, onclick: () => pick(group) }) : null;
  const second = origin(hit);
  return el(`li.card.${hit.modality}${selected ? ".selected" : ""}${picked ? ".picked" : ""}`,
    { dataset: { row: hit.row, rows: group.map((it) => it.row).join(",") } },
    el("div.frame", {}, main, mark, actions.length ? el("div.actions", {}, actions.map(([text, title, run]) =>
      el("button", { type: "button", title, "aria-label": title, tabIndex: -1, onclick: () => run(hit) }, text))) : null),
    pictured || titles.length > 1 ? words(titles) : null,
    second ? el("p.origin", { title: brief(second) }, brief(second, 80)) : null,
    el("p.facts", {}, el(`span.kind.${hit.modality}`, {}, kindOf(hit)), el("span", {}, scoreOf(hit, by))),
    meter);
}

/** The caption below a picture: the title, or a list of the phrases of a box. */
function words(titles) {
  if (titles.length === 1) return el("p.caption", { title: brief(titles[0]) }, brief(titles[0]));
  return el("ul.caption.phrases", { "aria-label": "Phrases of this box" }, titles.map((it) => el("li", { title: brief(it) }, brief(it, 120))));
}

/** A message shown instead of results: a title, an explanation and buttons. */
export function notice(title, text, ...buttons) {
  return el("div.notice", { role: "note" }, el("h2", {}, title), text ? el("p", {}, text) : null,
    buttons.length ? el("p.buttons", {}, buttons) : null);
}

/** Adds advice to the error for a route that does not exist, as on a front over shards. */
export function missing(error, what) {
  if (error.status === 404 && /openapi/.test(error.message)) {
    error.advice = `This server has no ${what}, because it is a front over shards. Open a server of the whole set, or one of the shards.`;
  }
  return error;
}

/** An error with its advice and a button to try again. */
export function trouble(error, again) {
  const retry = again ? el("button.solid", { type: "button", onclick: again }, "Try again") : null;
  const box = notice(brief(error.message), error.advice ?? "", ...(retry ? [retry] : []));
  box.classList.add("trouble");
  box.setAttribute("role", "alert");
  return box;
}
