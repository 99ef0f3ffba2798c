// The slider for a range of depths, in the side bar and on the map.

import { el, number } from "./dom.js";

/**
 * A slider with two handles for a range of depths, with the deciles of the set as ticks. `slide({ depth })` is called on
 * every move, with `null` for the whole range.
 */
export function depthSlider({ min, max, deciles }, slide) {
  const step = (max - min) / 500 || 0.001;
  const out = el("output");
  const make = (name) => el("input", { type: "range", min, max, step, "aria-label": name, oninput: moved });
  const low = make("At least this deep");
  const high = make("At most this deep");
  const ticks = el("div.ticks", { "aria-hidden": "true" }, deciles.map((it) => {
    const tick = el("i");
    tick.style.setProperty("--at", `${100 * (it - min) / (max - min || 1)}%`);
    return tick;
  }));
  const node = el("div.slider.two", {}, el("span", {}, "general"), out, el("span", {}, "specific"),
    el("div.track", {}, el("div.span"), low, high), ticks);
  function show() {
    const [a, b] = [Number(low.value), Number(high.value)];
    const share = (v) => `${100 * (v - min) / (max - min || 1)}%`;
    node.style.setProperty("--low", share(a));
    node.style.setProperty("--high", share(b));
    out.value = `${number(a)} – ${number(b)}`;
  }
  function moved(event) {
    // A handle stops at the other one.
    if (Number(low.value) > Number(high.value)) event.target.value = event.target === low ? high.value : low.value;
    show();
    const [a, b] = [Number(low.value), Number(high.value)];
    const whole = a <= min + step / 2 && b >= max - step / 2;
    // A handle at its end means no bound, so that rounding does not exclude the extreme rows.
    slide({ depth: whole ? null : [a <= min + step / 2 ? Math.min(min, 0) : a, b >= max - step / 2 ? 2 * max + 1 : b] });
  }
  return { node, set: (range) => {
    const [a, b] = range ?? [min, max];
    if (document.activeElement !== low) low.value = Math.max(a, min);
    if (document.activeElement !== high) high.value = Math.min(b, max);
    show();
  } };
}
