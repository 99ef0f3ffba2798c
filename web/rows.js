// How a row looks: in the gallery, on a path, among neighbours.

import { thumbnail } from "./api.js";
import { degrees, el, number } from "./dom.js";
import { brief } from "./long.js";
import { MODALITIES } from "./state.js";

/** What a person reads of a row: its text (of a photo that is a file, the name of the file), else its name. */
export function caption(hit) {
  const text = hit.columns?.text || hit.id;
  return hit.modality === "image" && /\.(jpe?g|png|webp|gif|bmp)$/i.test(text) ? text.split(/[/\\]/).at(-1) : text;
}

/** The word for what a row embeds. */
export function kindOf(hit) {
  return MODALITIES[hit.modality]?.[0] ?? hit.modality;
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
 * A row as a card. `actions` are [label, title, run] triples, shown while the card is pointed at or has the focus.
 */
export function card(hit, { by, open, actions = [], depth = null, size = 256, selected = false }) {
  const label = `${kindOf(hit)}: ${brief(caption(hit))}. ${scoreOf(hit, by)}`;
  const main = el("button.face", { type: "button", "aria-label": label, onclick: () => open(hit), dataset: { row: hit.row } },
    face(hit, size));
  const meter = depth && hit.depth !== undefined
    ? el("span.meter", { title: `depth ${number(hit.depth)}: general on the left, specific on the right` }, el("i"))
    : null;
  if (meter) {
    const share = (hit.depth - depth.min) / Math.max(depth.max - depth.min, 1e-12);
    meter.firstChild.style.setProperty("--at", `${Math.min(Math.max(share, 0), 1) * 100}%`);
  }
  const pictured = hit.thumbnail && hit.modality !== "text";
  return el(`li.card.${hit.modality}${selected ? ".selected" : ""}`, { dataset: { row: hit.row } },
    el("div.frame", {}, main, actions.length ? el("div.actions", {}, actions.map(([text, title, run]) =>
      el("button", { type: "button", title, "aria-label": title, tabIndex: -1, onclick: () => run(hit) }, text))) : null),
    pictured ? el("p.caption", { title: brief(caption(hit)) }, brief(caption(hit))) : null,
    el("p.facts", {}, el(`span.kind.${hit.modality}`, {}, kindOf(hit)), el("span", {}, scoreOf(hit, by))),
    meter);
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
