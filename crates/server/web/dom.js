// Helpers that create elements. Texts always become text nodes, so data of a set is never parsed as HTML.

/** Creates an element: `el("button.plain", { type: "button", onclick }, "text", child)`. */
export function el(name, props = {}, ...children) {
  const [tag, ...classes] = name.split(".");
  const node = document.createElement(tag || "div");
  if (classes.length) node.className = classes.join(" ");
  for (const [key, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key === "dataset") Object.assign(node.dataset, value);
    else if (key in node && !key.startsWith("aria") && key !== "list" && key !== "role") node[key] = value;
    else node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

const SVG = "http://www.w3.org/2000/svg";

/** Creates an SVG element. */
export function svg(tag, props = {}, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(props)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

const ICONS = {
  photo: "M3 7h4l2-3h6l2 3h4v12H3zM12 9.2a3.8 3.8 0 1 0 0 7.6 3.8 3.8 0 0 0 0-7.6",
  sun: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8M12 2v3M12 19v3M2 12h3M19 12h3M5 5l2 2M17 17l2 2M19 5l-2 2M7 17l-2 2",
  moon: "M20 14.5A8.5 8.5 0 1 1 9.5 4 7 7 0 0 0 20 14.5",
  close: "M6 6l12 12M18 6 6 18",
  find: "M10.5 4a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13M15.5 15.5 20 20",
  path: "M5 19c0-6 14-6 14-14M5 19h.01M19 5h.01",
};

/** Creates an icon; `name` is a key of `ICONS`. */
export function icon(name) {
  const path = svg("path", { d: ICONS[name], fill: "none", stroke: "currentColor", "stroke-width": "1.8",
    "stroke-linecap": "round", "stroke-linejoin": "round" });
  return svg("svg", { viewBox: "0 0 24 24", class: "icon", "aria-hidden": "true" }, path);
}

/** Replaces the children of an element. */
export function fill(node, ...children) {
  node.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** Formats a number with a fixed number of digits; a dash if it is missing. */
export function number(value, digits = 3) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  return value.toFixed(digits);
}

/** Formats radians as degrees; a dash if they are missing. */
export function degrees(radians) {
  return radians === null || radians === undefined ? "–" : `${(radians * 180 / Math.PI).toFixed(1)}°`;
}

/** 4744 -> "4,744". */
export function count(value) {
  return value.toLocaleString("en");
}

/** Calls `run` once, `wait` milliseconds after the last call. */
export function debounced(run, wait) {
  let timer = 0;
  return (...args) => {
    clearTimeout(timer);
    timer = setTimeout(() => run(...args), wait);
  };
}
