// The tooltip of a point of the map.

import { get, latest } from "./api.js";
import { debounced, el, fill, number } from "./dom.js";
import { brief } from "./long.js";
import { caption, face, kindOf, origin } from "./rows.js";

/**
 * Creates the tooltip of a stage. `show(row, at, wanted)` requests the row and shows it beside the screen position that `at()`
 * returns, if `wanted()` is still true; `announce(text)`, if given, receives the description for screen readers. `say(text, at)` shows a text at a
 * screen position, `hide()` hides the tooltip.
 */
export function rowTip(eye) {
  const newest = latest();
  const node = el("div.tip", { hidden: true, role: "tooltip" });
  const hide = () => { node.hidden = true; };
  const place = ([x, y]) => {
    node.hidden = false;
    node.style.left = `${Math.max(4, Math.min(x + 14, eye.width - node.offsetWidth - 4))}px`;
    node.style.top = `${Math.max(4, Math.min(y + 14, eye.height - node.offsetHeight - 4))}px`;
  };
  const show = debounced(async (row, at, wanted, announce) => {
    if (!wanted()) return;
    let hit;
    try {
      hit = await newest((signal) => get(`/api/rows/${row}`, signal));
    } catch {
      return hide();
    }
    if (!hit || !wanted()) return;
    fill(node, el("div.face", {}, face(hit, 128)), el("p", {}, brief(caption(hit))), origin(hit) ? el("p.origin", {}, brief(origin(hit), 80)) : null,
      el("p.facts", {}, kindOf(hit), ` · depth ${number(hit.depth)}`));
    announce?.(`${kindOf(hit)}: ${brief(caption(hit))}, depth ${number(hit.depth)}`);
    place(at());
  }, 70);
  const say = (text, at) => {
    fill(node, el("p", {}, text));
    place(at);
  };
  return { node, show, say, hide };
}
