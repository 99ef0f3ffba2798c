// Boxes on the photo: where in it the phrases are.

import { el } from "./dom.js";
import { thumbnail } from "./api.js";
import { brief } from "./long.js";

/** Pixels of the shorter side of the photo that is asked for. */
const SIZE = 512;
/** Most pixels of the page that the photo is high. */
const HIGHEST = 420;

/**
 * The photo that a row belongs to, with its boxes on it; `chosen(row)` is called with the row of a box. Nothing where the row has no
 * picture or the photo no boxes. `boxes` are those of `/api/rows/{row}/boxes`.
 */
export function boxedPhoto(hit, boxes, chosen) {
  if (!hit.thumbnail || !boxes.length) return null;
  const image = el("img", { alt: "", decoding: "async", draggable: false });
  const marks = boxes.map((it) => {
    const [x, y, width, height] = it.box;
    const own = it.rows.includes(hit.row);
    const words = brief(it.texts.join(" · ") || "box", 200);
    const mark = el(`button.mark-box${own ? ".own" : ""}`, { type: "button", title: words, "aria-label": `Box: ${words}`,
      "aria-pressed": String(own), onclick: () => chosen(own ? hit.row : it.rows[0]) }, el("span", {}, words));
    for (const [name, value] of Object.entries({ left: x, top: y, width, height })) mark.style[name] = `${100 * Math.min(Math.max(value, 0), 1)}%`;
    return { mark, area: width * height };
  });
  // Small boxes lie on top of large ones, so that each can be pointed at.
  marks.sort((a, b) => b.area - a.area);
  const photo = el("div.boxed", {}, image, marks.map((it) => it.mark));
  const count = marks.length === 1 ? "1 box" : `${marks.length} boxes`;
  const toggle = el("button.plain.boxes-off", { type: "button", "aria-pressed": "true", onclick: () => {
    const on = photo.classList.toggle("plain-photo");
    toggle.setAttribute("aria-pressed", String(!on));
    toggle.textContent = on ? `Show ${count}` : `Hide ${count}`;
  } }, `Hide ${count}`);
  const stage = el("div.large", {}, photo, toggle);
  // As large as there is room for, whatever the size of the file: boxes on a small photo could not be told apart.
  image.addEventListener("load", () => {
    const scale = Math.min((stage.clientWidth || 320) / image.naturalWidth, HIGHEST / image.naturalHeight);
    image.style.width = `${Math.round(scale * image.naturalWidth)}px`;
  });
  image.addEventListener("error", () => stage.remove(), { once: true });
  thumbnail(image, hit.row, SIZE, true);
  return stage;
}
