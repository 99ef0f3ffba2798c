// The state of the page as one immutable value. It is stored in the URL fragment, so that every view has a link and the
// back and forward buttons work. A term is { kind: "text" | "photo" | "row" | "id", value }.

/**
 * The state without a URL fragment. If `angle` or `within` is `null`, the limit is chosen from the data (gate.js). If
 * `along` is `null`, the kind of stops depends on the path (path.js).
 */
export const START = Object.freeze({
  terms: [], not: [], inside: null,
  mode: "near", measure: "distance", gate: false, limit: "angle", angle: null, within: null,
  depth: null, modality: [], columns: {}, subtree: null,
  view: "results", from: null, to: null, steps: 50, along: null,
  select: null, factor: null,
  layer: "disc", colour: "modality", labels: true, contours: false,
});

const MODES = ["near", "narrower", "broader", "general"];
const VIEWS = ["results", "path", "map", "factors"];
const KINDS = { t: "text", p: "photo", r: "row", i: "id" };
/** Before the name of a column in the field `colour`. */
export const COLUMN = "column:";
/** A whole number that a `Number` represents exactly. */
const WHOLE = /^\d{1,15}$/;

let state = START;
const listeners = [];

/** The current state; it is never changed in place. */
export function current() {
  return state;
}

/** Calls `listener(now, before)` after every change. */
export function onChange(listener) {
  listeners.push(listener);
}

/** Changes some fields. `replace` overwrites the current history entry, for sliders and selections. */
export function update(change, { replace = false } = {}) {
  const before = state;
  state = { ...state, ...change };
  const address = `#${write(state)}`;
  if (address !== (location.hash || "#")) {
    history[replace ? "replaceState" : "pushState"](null, "", address);
  }
  listeners.forEach((listener) => listener(state, before));
}

/** Reads the state from the URL, at the start and on "back" and "forward". */
export function follow() {
  const read = () => {
    const before = state;
    state = parse(location.hash.slice(1));
    listeners.forEach((listener) => listener(state, before));
  };
  window.addEventListener("popstate", read);
  read();
}

const term = {
  write: (it) => `${it.kind[0]}:${it.value}`,
  parse: (text) => {
    const kind = KINDS[text[0]];
    const value = text.slice(2);
    if (!kind || text[1] !== ":" || value === "") return null;
    if (kind !== "row") return { kind, value };
    return WHOLE.test(value) ? { kind, value: Number(value) } : null;
  },
};

/** Writes a state as a URL fragment, with only the fields that differ from `START`. */
export function write(it) {
  const out = new URLSearchParams();
  const put = (name, value, start) => {
    if (value !== start && value !== null && value !== "") out.append(name, value);
  };
  it.terms.forEach((t) => out.append("q", term.write(t)));
  it.not.forEach((t) => out.append("not", term.write(t)));
  for (const name of ["inside", "from", "to"]) if (it[name]) out.append(name, term.write(it[name]));
  for (const name of ["mode", "measure", "limit", "subtree", "view", "select", "factor", "layer", "colour", "steps", "along"]) {
    put(name, it[name], START[name]);
  }
  for (const name of ["angle", "within"]) put(name, it[name] === null ? null : Number(it[name].toFixed(4)), START[name]);
  if (it.gate) out.append("gate", "1");
  if (!it.labels) out.append("labels", "0");
  if (it.contours) out.append("contours", "1");
  if (it.depth) out.append("depth", it.depth.map((v) => Number(v.toFixed(5))).join(","));
  if (it.modality.length) out.append("modality", it.modality.join(","));
  for (const [name, values] of Object.entries(it.columns)) values.forEach((v) => out.append("col", `${name}=${v}`));
  return out.toString();
}

/** Parses a URL fragment; invalid parts are ignored. */
export function parse(text) {
  const from = new URLSearchParams(text);
  const terms = (name) => from.getAll(name).map(term.parse).filter(Boolean);
  const one = (name, allowed) => (allowed.includes(from.get(name)) ? from.get(name) : START[name]);
  const within = (name, low, high) => {
    const value = Number(from.get(name));
    return from.has(name) && value >= low && value <= high ? value : START[name];
  };
  const whole = (name) => (WHOLE.test(from.get(name) ?? "") ? Number(from.get(name)) : null);
  // Column names come from an untrusted link, so the object has no prototype: `__proto__` and `constructor` are
  // ordinary names.
  const columns = Object.create(null);
  for (const pair of from.getAll("col")) {
    const cut = pair.indexOf("=");
    if (cut > 0) (columns[pair.slice(0, cut)] ??= []).push(pair.slice(cut + 1));
  }
  const depth = (from.get("depth") ?? "").split(",").map(Number);
  return {
    terms: terms("q"), not: terms("not"), inside: terms("inside")[0] ?? null,
    mode: one("mode", MODES), measure: one("measure", ["distance", "similarity", "inner"]),
    gate: from.get("gate") === "1", limit: one("limit", ["angle", "distance"]),
    angle: within("angle", 0, Math.PI), within: within("within", 0, 1e6),
    depth: depth.length === 2 && depth.every(Number.isFinite) ? depth : null,
    modality: [...new Set((from.get("modality") ?? "").split(","))].filter((it) => Object.hasOwn(MODALITIES, it)),
    columns, subtree: from.get("subtree"),
    view: one("view", VIEWS), from: terms("from")[0] ?? null, to: terms("to")[0] ?? null,
    steps: Math.round(within("steps", 2, 200)), along: one("along", ["texts", "pictures", "all", "chain"]), select: whole("select"), factor: whole("factor"),
    layer: from.get("layer") || START.layer,
    colour: from.get("colour")?.startsWith(COLUMN) ? from.get("colour") : one("colour", ["modality", "depth"]),
    labels: from.get("labels") !== "0", contours: from.get("contours") === "1",
  };
}

/** The four modalities: name in the API, singular label, plural label. */
export const MODALITIES = {
  image: ["photo", "photos"],
  text: ["text", "texts"],
  box_image: ["box", "boxes"],
  box_text: ["phrase", "phrases"],
};

/** Modalities that are texts, and modalities that are pictures. */
export const TEXTS = ["text", "box_text"];
export const PICTURES = ["image", "box_image"];

/** The values that a column is filtered by. */
export function kept(it, column) {
  return Object.hasOwn(it.columns, column) ? it.columns[column] : [];
}

/** A term as a query of the API. */
export function toQuery(it) {
  return { [it.kind]: it.value };
}

/** Several terms as one query: their factor-wise maximum. */
export function toQueries(terms) {
  return terms.length === 1 ? toQuery(terms[0]) : { all: terms.map(toQuery) };
}

/** The filter fields of a request. */
export function toFilter(it) {
  const out = {};
  if (it.modality.length) out.modality = it.modality;
  const columns = Object.fromEntries(Object.entries(it.columns).filter(([, values]) => values.length));
  if (Object.keys(columns).length) out.columns = columns;
  if (it.depth) out.depth = it.depth;
  if (it.inside) out.inside = toQuery(it.inside);
  if (it.not.length) out.not = it.not.map(toQuery);
  if (it.subtree) out.subtree = it.subtree;
  return out;
}

/** The limit that a ranking needs: "angle", "within" or `null`. */
export function limitOf(it) {
  if (it.mode === "general") return it.limit === "angle" ? "angle" : "within";
  return it.mode !== "near" && it.gate ? "angle" : null;
}

/** The ranking fields of a request. `chosen` is the limit to use if the state has none. */
export function toRanking(it, chosen = null) {
  const limit = limitOf(it);
  const by = { near: it.measure, general: "general" }[it.mode] ?? (it.gate ? `gated_${it.mode}` : it.mode);
  return limit ? { by, [limit]: it[limit] ?? chosen } : { by };
}

/** Returns true if any filter is set. */
export function filtered(it) {
  return Object.keys(toFilter(it)).length > 0;
}
