// HTTP client of the server. Responses are JSON. Every error becomes a `Failure` with advice for the user.

/** An error with a message and advice for the user. `status` is the HTTP status, or 0 if there is no valid response. */
export class Failure extends Error {
  constructor(status, message, advice) {
    super(message);
    this.status = status;
    this.advice = advice;
  }
}

const KEY = "conifer-token";
let token = sessionStorage.getItem(KEY) ?? "";

/** Stores the access token until the tab is closed. */
export function setToken(value) {
  token = value.trim();
  sessionStorage.setItem(KEY, token);
}

/** Returns true if a token is set. */
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
    throw new Failure(0, "The server does not answer.", "Check that `conifer serve` is running. Start it again with the same command, then try again.");
  }
  if (!response.ok) throw await failure(response);
  return response;
}

async function failure(response) {
  let message = `${response.status} ${response.statusText}`;
  try {
    message = (await response.json()).error.message ?? message;
  } catch {
    // The response is not a JSON error of this server: keep the status line as the message.
  }
  const advice = {
    401: "Enter the token that the server was started with.",
    408: "The upload took longer than the server allows. Try again, or choose a smaller photo.",
    413: "Choose a smaller photo, or start the server with a larger --max-upload.",
    429: "The server is busy. Wait a moment and try again.",
    502: "The embedding endpoint of the server failed. Try again, or search from a row.",
    504: "The embedding endpoint of the server did not answer in time. Try again, or search from a row.",
    503: "The request took too long, the server is busy, or a shard is down. Try again, add a filter, or raise --timeout.",
  }[response.status];
  return new Failure(response.status, message, advice);
}

async function json(response) {
  try {
    return await response.json();
  } catch (error) {
    throw unreadable(error);
  }
}

function unreadable(error) {
  if (error.name === "AbortError") return error;
  return new Failure(0, "The response of the server cannot be read.", "It was cut off, or another program is listening at this address. Try again.");
}

/** Sends a GET request and returns the JSON of the response. */
export async function get(path, signal) {
  return json(await ask(path, { signal }));
}

/** Sends a GET request and returns the bytes of the response as an ArrayBuffer. */
export async function getBytes(path, signal) {
  const response = await ask(path, { signal });
  try {
    return await response.arrayBuffer();
  } catch (error) {
    throw unreadable(error);
  }
}

/** Sends a POST request with a JSON body and returns the JSON of the response. */
export async function post(path, body, signal) {
  const headers = { "Content-Type": "application/json" };
  return json(await ask(path, { method: "POST", body: JSON.stringify(body), headers, signal }));
}

/** Sends a POST request with a JSON body and returns the text of the response. */
export async function postText(path, body, signal) {
  const headers = { "Content-Type": "application/json" };
  const response = await ask(path, { method: "POST", body: JSON.stringify(body), headers, signal });
  try {
    return await response.text();
  } catch (error) {
    throw unreadable(error);
  }
}

/** Sends a DELETE request and returns the JSON of the response. */
export async function remove(path) {
  return json(await ask(path, { method: "DELETE" }));
}

/** Uploads a photo; returns `{ photo, width, height }`. */
export async function upload(file, signal) {
  const headers = { "Content-Type": file.type || "application/octet-stream" };
  return json(await ask("/api/photos", { method: "POST", body: file, headers, signal }));
}

/**
 * Loads the thumbnail of a row into an image element. With `whole`, a box row shows its whole photo. With a token the
 * picture is fetched by script, because the `src` of an image cannot send the token.
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
 * Returns a function that runs requests of one kind, of which only the latest counts: a new request aborts the previous
 * one, and `stop` aborts without a new one. `latest()(signal => post(...))` returns the response, or `undefined` if the
 * request was aborted or superseded. `node` has `aria-busy` while the latest request runs.
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
