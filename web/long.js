// Texts of any length: what is shown of them, and all of them on demand.
//
// A run of letters without a space is broken anywhere. Where its letters join or kern ("AAAA", Arabic), a browser shapes the rest
// of the run anew for every line, so that a long one stops the page for minutes. It is therefore never laid out as one.

import { count, el, fill } from "./dom.js";

/** Characters of a text that the details show at once. */
const SHOWN = 600;
/** Characters of a text on a card, in a tip and in a label. */
const BRIEF = 300;
/** A longer run without a space is laid out in pieces of so many characters. */
const RUN = /(\S{500})/u;

/** The beginning of a text, never half a character. */
export function brief(text, most = BRIEF) {
  if (text.length <= most) return text;
  const half = /[\uD800-\uDBFF]/.test(text[most - 2]);
  return `${text.slice(0, most - (half ? 2 : 1))}…`;
}

/** A text to read: its beginning, with a button that shows all of it. */
export function readable(text) {
  if (text.length <= SHOWN) return text;
  const node = el("span", { tabIndex: -1 }, brief(text, SHOWN), " ");
  node.append(el("button.all", { type: "button", onclick: () => {
    fill(node, text.split(RUN).map((part, i) => (i % 2 ? el("span.run", {}, part) : part)));
    node.focus();
  } }, `Show all ${count(text.length)} characters`));
  return node;
}
