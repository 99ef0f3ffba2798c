// The limit at which a gated ranking starts: the angle or the distance that keeps a tenth of the rows.

import { post } from "./api.js";
import { limitOf } from "./state.js";

/** Of the rows that pass the filters the limit keeps this share, */
const SHARE = 0.1;
/** but at least and at most so many of them. */
const LEAST = 30;
const MOST = 2000;

/** How many of `passing` rows the first limit keeps. */
export function keeps(passing) {
  return Math.min(passing, Math.max(LEAST, Math.min(MOST, Math.round(SHARE * passing))));
}

/**
 * The limit for a query with these filters, and how many rows it keeps: `{ kind, value, rows }`. Where no row passes there is none: `null`.
 * The server ranks by the same angle or distance without a limit; the score of the last row that is kept is the limit.
 */
export async function firstLimit(state, query, filter, signal) {
  const kind = limitOf(state);
  const by = kind === "within" ? "distance" : state.mode === "broader" ? "broader" : "narrower";
  const ask = (offset) => post("/api/search", { query, by, k: 1, offset, ...filter }, signal);
  const first = await ask(0);
  const rows = keeps(first.rows_passing);
  if (!first.hits.length || rows === 0) return null;
  const last = rows > 1 ? (await ask(rows - 1)).hits[0] : first.hits[0];
  const score = (last ?? first.hits[0]).score;
  // A little more than the score, which is rounded on its way.
  return { kind, value: by === "distance" ? score * (1 + 1e-6) : Math.min(Math.PI, score + 1e-5), rows };
}
