// The initial limit of a gated ranking: the angle or distance that keeps a tenth of the rows, but at least 30 and at
// most 2000.

import { post } from "./api.js";
import { limitOf } from "./state.js";

/** Fraction of the rows passing the filters that the limit keeps. */
const FRACTION = 0.1;
/** Minimum and maximum number of rows that the limit keeps. */
const MIN_ROWS = 30;
const MAX_ROWS = 2000;

/** Number of rows that the initial limit keeps out of `passing` rows. */
export function keeps(passing) {
  return Math.min(passing, Math.max(MIN_ROWS, Math.min(MAX_ROWS, Math.round(FRACTION * passing))));
}

/**
 * The initial limit for a query with these filters, and the number of rows that it keeps: `{ kind, value, rows }`;
 * `null` if no row passes the filters. The server ranks by the same angle or distance without a limit, and the score of
 * the last kept row is the limit.
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
  // Slightly more than the score, because the score is rounded in the response.
  return { kind, value: by === "distance" ? score * (1 + 1e-6) : Math.min(Math.PI, score + 1e-5), rows };
}
