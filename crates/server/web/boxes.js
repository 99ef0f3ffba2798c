// Draws the boxes of a photo on the photo.

import { el } from "./dom.js";
import { thumbnail } from "./api.js";
import { brief } from "./long.js";

/** Requested size of the shorter side of the photo in pixels. */
const SIZE = 512;
/** Maximum height of the photo in CSS pixels. */
const MAX_HEIGHT = 420;

/**
 * Creates the photo of a row with its boxes; `null` if the row has no picture or the photo has no boxes. `boxes` come
 * from `/api/rows/{row}/boxes`. A click on a box calls `chosen` with a row of the box.
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
  // Small boxes are on top of large ones, so that each can be clicked.
  marks.sort((a, b) => b.area - a.area);
  const photo = el("div.boxed", {}, image, marks.map((it) => it.mark));
  const count = marks.length === 1 ? "1 box" : `${marks.length} boxes`;
  const toggle = el("button.plain.boxes-off", { type: "button", "aria-pressed": "true", onclick: () => {
    const on = photo.classList.toggle("plain-photo");
    toggle.setAttribute("aria-pressed", String(!on));
    toggle.textContent = on ? `Show ${count}` : `Hide ${count}`;
  } }, `Hide ${count}`);
  const stage = el("div.large", {}, photo, toggle);
  // Scale even a small photo to the available space, because its boxes would be too close together.
  image.addEventListener("load", () => {
    const scale = Math.min((stage.clientWidth || 320) / image.naturalWidth, MAX_HEIGHT / image.naturalHeight);
    image.style.width = `${Math.round(scale * image.naturalWidth)}px`;
  });
  image.addEventListener("error", () => stage.remove(), { once: true });
  thumbnail(image, hit.row, SIZE, true);
  return stage;
}
