// Turns pointer and wheel events on the map into moves, zooms, clicks and outlines.

/** Maximum distance in pixels between press and release of a click. */
const STILL = 4;
/** Minimum distance in pixels between two corners of an outline. */
const STEP = 2;

/**
 * Listens on `node`. `on` has these callbacks, with positions in CSS pixels from the corner of the node: `hover(position
 * or null)`, `pan(x, y)`, `zoom(factor, x, y)`, `click(x, y)`, `centre(x, y)`, `drawing(outline)` while the user draws
 * an outline and `drawn(outline)` at its end. `lassoing()` returns true if a drag with one finger draws an outline.
 */
export function followPointer(node, lassoing, on) {
  const fingers = new Map();
  let travelled = 0;
  let outline = null;
  const at = (event) => {
    const box = node.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const drop = () => {
    if (outline) on.drawing(null);
    outline = null;
  };

  node.addEventListener("pointerdown", (event) => {
    if (event.button > 0) return;
    node.setPointerCapture(event.pointerId);
    fingers.set(event.pointerId, at(event));
    travelled = 0;
    drop();
    // A second finger zooms and ends the outline.
    if (lassoing() && fingers.size === 1) outline = [at(event)];
  });
  node.addEventListener("pointermove", (event) => {
    const here = at(event);
    const before = fingers.get(event.pointerId);
    if (!before) return on.hover(here);
    const others = [...fingers].filter(([id]) => id !== event.pointerId);
    fingers.set(event.pointerId, here);
    travelled += Math.hypot(here[0] - before[0], here[1] - before[1]);
    if (others.length === 1) {
      const [ox, oy] = others[0][1];
      const span = (p) => Math.max(1, Math.hypot(p[0] - ox, p[1] - oy));
      on.zoom(span(here) / span(before), (here[0] + ox) / 2, (here[1] + oy) / 2);
    } else if (outline) {
      const [x, y] = outline.at(-1);
      if (Math.hypot(here[0] - x, here[1] - y) >= STEP) outline.push(here);
      on.drawing(outline);
    } else if (!others.length) {
      on.pan(here[0] - before[0], here[1] - before[1]);
    }
    on.hover(null);
  });
  node.addEventListener("pointerup", (event) => {
    if (!fingers.delete(event.pointerId)) return;
    const done = outline;
    drop();
    if (travelled <= STILL) return on.click(...at(event));
    if (done && done.length > 2) on.drawn(done);
  });
  node.addEventListener("pointercancel", (event) => {
    fingers.delete(event.pointerId);
    drop();
  });
  node.addEventListener("pointerleave", () => on.hover(null));
  node.addEventListener("wheel", (event) => {
    event.preventDefault();
    on.zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0018)), ...at(event));
  }, { passive: false });
  node.addEventListener("dblclick", (event) => on.centre(...at(event)));
}
