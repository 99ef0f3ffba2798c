// The server. Every answer is JSON; every error becomes a `Failure` that says what to do.

/** What went wrong, in words for a person. */
export class Failure extends Error {
  constructor(status, message, advice) {
    super(message);
    this.status = status;
    this.advice = advice;
  }
}

const KEY = "conifer-token";
let token = sessionStorage.getItem(KEY) ?? "";

/** Keeps the access token until the tab is closed. */
export function setToken(value) {
  token = value.trim();
  sessionStorage.setItem(KEY, token);
}

/** Whether a token is in use; pictures must then be fetched with it. */
export function hasToken() {
  return token !== "";
}

async function ask(path, options = {}) {
  const headers = new Headers(options.headers);
  if (token) headers.set("Authorization", `Bearer ${token}`);
  let response;
  try {
    response = await fetch(path, { ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Failure(0, "The server does not answer.", "Is `conifer serve` still running? Start it again with the same command, then try again.");
  }
  if (!response.ok) throw await failure(response);
  return response;
}

async function failure(response) {
  let message = `${response.status} ${response.statusText}`;
  try {
    message = (await response.json()).error.message ?? message;
  } catch {
    // Not our server's words, so there are none.
  }
  const advice = {
    401: "Enter the token that the server was started with.",
    408: "The search took longer than the server allows. Narrow it down with a filter, or raise --timeout.",
    413: "Choose a smaller photo, or start the server with a larger --max-upload.",
    429: "The server has as much to do as it takes on. Wait a moment and try again.",
    503: "The server is busy or a part of it is away. Wait a moment and try again.",
  }[response.status];
  return new Failure(response.status, message, advice);
}

async function json(response) {
  try {
    return await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Failure(0, "The answer of the server cannot be read.", "Is something else than conifer listening at this address, or was the answer cut off? Try again.");
  }
}

/** GET as JSON. */
export async function get(path, signal) {
  return json(await ask(path, { signal }));
}

/** POST of a JSON body. */
export async function post(path, body, signal) {
  const headers = { "Content-Type": "application/json" };
  return json(await ask(path, { method: "POST", body: JSON.stringify(body), headers, signal }));
}

/** Uploads a photo; gives `{ photo, width, height }`. */
export async function upload(file, signal) {
  const headers = { "Content-Type": file.type || "application/octet-stream" };
  return json(await ask("/api/photos", { method: "POST", body: file, headers, signal }));
}

/**
 * A thumbnail into an image element; with `whole`, of a box the photo around it. With a token it is fetched, because an address cannot
 * carry one.
 */
export async function thumbnail(image, row, size, whole = false) {
  const path = `/api/rows/${row}/thumbnail?size=${size}${whole ? "&whole=true" : ""}`;
  if (!token) {
    image.src = path;
    return;
  }
  try {
    const address = URL.createObjectURL(await (await ask(path)).blob());
    image.addEventListener("load", () => URL.revokeObjectURL(address), { once: true });
    image.src = address;
  } catch {
    image.dispatchEvent(new Event("error"));
  }
}

/**
 * Of requests of one kind only the latest answer counts: a new one aborts the one before, `stop` aborts without a new one.
 * `latest()(signal => post(...))` gives the answer, or `undefined` when it was overtaken. `node` is busy as long as the latest runs.
 */
export function latest(node = null) {
  let running = null;
  const done = () => {
    running = null;
    node?.removeAttribute("aria-busy");
  };
  const start = async (request) => {
    running?.abort();
    const mine = new AbortController();
    running = mine;
    node?.setAttribute("aria-busy", "true");
    try {
      const answer = await request(mine.signal);
      return running === mine ? answer : undefined;
    } catch (error) {
      if (error.name === "AbortError" || running !== mine) return undefined;
      throw error;
    } finally {
      if (running === mine) done();
    }
  };
  start.stop = () => {
    running?.abort();
    done();
  };
  return start;
}
