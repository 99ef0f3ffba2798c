// The control that lets the server compute a new layer of the map, and its progress.

import { get, post, remove } from "./api.js";
import { count, el, fill } from "./dom.js";

/** Time between two requests for the progress, in milliseconds. */
const POLL = 1000;
/** Number of rows from which samples are offered, because a projection of all rows takes minutes. */
const MANY = 20_000;
const SAMPLES = [10_000, 50_000, 200_000];

const RUNNING = ["computing", "stopping"];

/**
 * Creates the control in `node`. `ready(reply, name)` is called with the reply of `/api/map/layers` when the layer `name` is
 * computed. Returns a function that shows such a reply.
 */
export function newLayer(node, { info, ready }) {
  const choice = (label, options) => el("select", { "aria-label": label }, options.map(([value, text]) => el("option", { value }, text)));
  const method = el("select", { "aria-label": "Method", onchange: () => fit() });
  const factor = choice("Factor", Array.from({ length: info.space.factors }, (_, i) => [i, `factor ${i + 1}`]));
  const samples = SAMPLES.filter((it) => it < info.rows);
  const sample = choice("Rows", [...samples.map((it) => [it, `${count(it)} random rows`]), ["", `all ${count(info.rows)} rows`]]);
  sample.hidden = info.rows <= MANY;
  const start = el("button.solid", { type: "submit", id: "compute" }, "Compute");
  const form = el("form", { onsubmit: (event) => {
    event.preventDefault();
    compute();
  } }, method, factor, sample, start);
  const bar = el("progress", { max: 1, "aria-label": "Progress" });
  const words = el("span", { role: "status", "aria-live": "polite" });
  const cancel = el("button", { type: "button", id: "cancel-layer", onclick: () => stop() }, "Cancel");
  const progress = el("p.progress", { hidden: true }, bar, words, cancel);
  const reason = el("p.hint", { hidden: true });
  fill(node, el("summary", {}, "New layer"), form, progress, reason);

  let methods = [];
  let job = null;
  let timer = 0;
  let watched = null; // name of the layer whose computation this page has seen

  function fit() {
    const chosen = methods.find((it) => it.by === method.value);
    factor.hidden = info.space.factors < 2 || !chosen?.needs_factor;
    start.disabled = !chosen || RUNNING.includes(job?.state);
  }

  function show(reply) {
    job = reply.job ?? null;
    if (JSON.stringify(methods) !== JSON.stringify(reply.methods ?? [])) {
      methods = reply.methods;
      fill(method, methods.map((it) => el("option", { value: it.by, disabled: Boolean(it.refused), title: it.refused ?? it.title },
        it.refused ? `${it.by}: ${it.refused}` : `${it.by}: ${it.title}`)));
      method.value = methods.find((it) => !it.refused)?.by ?? "";
    }
    form.hidden = Boolean(reply.refused);
    reason.hidden = !reply.refused;
    reason.textContent = reply.refused ?? "";
    report();
    fit();
    clearTimeout(timer);
    if (RUNNING.includes(job?.state)) {
      watched = job.name;
      node.open = true;
      timer = setTimeout(poll, POLL);
    } else if (watched !== null && job?.name === watched) {
      watched = null;
      if (job.state === "done") ready(reply, job.name);
    }
  }

  function report(error = "") {
    const running = RUNNING.includes(job?.state);
    progress.hidden = !error && !running && watched === null;
    bar.hidden = cancel.hidden = !running;
    cancel.disabled = job?.state === "stopping";
    if (running && job.steps) bar.value = job.step / job.steps;
    else bar.removeAttribute("value");
    words.textContent = error || (job ? inWords(job) : "");
  }

  async function guarded(work) {
    try {
      await work();
    } catch (error) {
      report(error.message);
      clearTimeout(timer);
      // After an interruption, the computation may go on.
      if (RUNNING.includes(job?.state)) timer = setTimeout(poll, 5 * POLL);
    }
  }

  const poll = () => guarded(async () => show(await get("/api/map/layers")));
  const stop = () => guarded(async () => {
    await remove(`/api/map/layers/${encodeURIComponent(job.name)}`);
    await poll();
  });
  const compute = () => guarded(async () => {
    const body = { by: method.value };
    if (!factor.hidden) body.factor = Number(factor.value);
    if (!sample.hidden && sample.value) body.sample = Number(sample.value);
    ({ name: watched } = await post("/api/map/layers", body));
    await poll();
  });

  return show;
}

/** The state of a computation in words. */
function inWords({ name, state, stage, step, steps, seconds_left: left, message }) {
  const more = message ? `: ${message}` : "";
  if (state === "stopping") return `${name}: stopping after the current step …`;
  if (state === "cancelled") return `${name}: cancelled`;
  if (state === "failed") return `${name}: failed${more}`;
  if (state === "done") return `${name}: computed${more}`;
  if (!steps) return `${name}: preparing …`;
  const time = left === undefined ? "" : left < 120 ? `, about ${Math.ceil(left)} s left` : `, about ${Math.round(left / 60)} min left`;
  return `${name}: ${stage} ${count(step)} of ${count(steps)}${time}`;
}
