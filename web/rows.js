// How a row looks: in the gallery, on a path, among neighbours.

import { thumbnail } from "./api.js";
import { degrees, el, number } from "./dom.js";
import { brief } from "./long.js";
import { MODALITIES } from "./state.js";

const PHOTO_FILE = /\.(jpe?g|png|webp|gif|bmp|tiff?)$/i;

/** The part of a path after its last stroke. */
const fileName = (path) => path.split(/[/\\]/).at(-1);

/**
 * The title of a row: its text. A photo whose text is no more than the path of a file is called by its class, and only without one by
 * the name of the file.
 */
export function caption(hit) {
  const columns = hit.columns ?? {};
  const text = columns.text || hit.id;
  const isFile = hit.modality === "image" && PHOTO_FILE.test(text);
  if (!isFile) return text;
  return columns.common_name || columns.label || fileName(text);
}

/** The second line of a row: the name of its file, or its id. Empty where the title says it. */
export function origin(hit) {
  const columns = hit.columns ?? {};
  const file = [columns.file, columns.image, columns.text, hit.id]
    .find((it) => hit.modality === "image" && typeof it === "string" && PHOTO_FILE.test(it));
  const name = file ? fileName(file) : hit.id;
  return name === caption(hit) ? "" : name;
}

/** The word for what a row embeds. */
export function kindOf(hit) {
  return MODALITIES[hit.modality]?.[0] ?? hit.modality;
}

/** Rows of the same box of the same photo share a key; of other rows each has its own. */
function boxKey(hit) {
  return hit.modality === "box_image" && hit.box && hit.columns?.sample
    ? JSON.stringify([hit.columns.sample, hit.box]) : `row ${hit.row}`;
}

/** Rows in groups, in the order of the first row of each: the rows of one box are one group, whatever phrases it has. */
export function boxGroups(hits) {
  const groups = new Map();
  for (const hit of hits) {
    const key = boxKey(hit);
    if (groups.has(key)) groups.get(key).push(hit);
    else groups.set(key, [hit]);
  }
  return [...groups.values()];
}

/** The picture of a row, or its words where it has none. */
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
  factor: (hit) => `reaches ${number(hit.score)}`,
};

/** The score of a hit with its unit. */
export function scoreOf(hit, by) {
  return hit.score === undefined || hit.score === null ? "" : (SCORES[by] ?? SCORES.distance)(hit);
}

/**
 * A row as a card, or a group of rows of one box, of which `hit` is the first. `actions` are [label, title, run] triples, shown while the
 * card is pointed at or has the focus. `pick` marks the rows of the card; `picked` says whether they are marked.
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
    pictured ? words(titles) : null,
    second ? el("p.origin", { title: brief(second) }, brief(second, 80)) : null,
    el("p.facts", {}, el(`span.kind.${hit.modality}`, {}, kindOf(hit)), el("span", {}, scoreOf(hit, by))),
    meter);
}

/** The title below a picture; of a box with several phrases, each of them. */
function words(titles) {
  if (titles.length === 1) return el("p.caption", { title: brief(titles[0]) }, brief(titles[0]));
  return el("ul.caption.phrases", { "aria-label": "Phrases of this box" }, titles.map((it) => el("li", { title: brief(it) }, brief(it, 120))));
}

/** A message in place of results: what is the case, and what to do. */
export function notice(title, text, ...buttons) {
  return el("div.notice", { role: "note" }, el("h2", {}, title), text ? el("p", {}, text) : null,
    buttons.length ? el("p.buttons", {}, buttons) : null);
}

/** A view that the server does not have: a front over shards answers searches only. */
export function missing(error, what) {
  if (error.status === 404 && /openapi/.test(error.message)) {
    error.advice = `This server has no ${what}: a front over shards answers searches only. Open a server of the whole set, or one of the shards.`;
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
