// Shortens long texts and shows the full text on demand.
//
// A browser breaks a word without spaces at any letter. If its letters join or kern ("AAAA", Arabic), the browser
// shapes the rest of the word again for every line, so that a very long word blocks the page for minutes. Long words
// are therefore laid out in pieces.

import { count, el, fill } from "./dom.js";

/** Maximum number of characters of a text shown in the details at first. */
const SHOWN = 600;
/** Maximum number of characters of a text on a card, in a tooltip and in a label. */
const BRIEF = 300;
/** Matches the pieces in which a longer word is laid out. */
const RUN = /(\S{500})/u;

/** The beginning of a text, without splitting a surrogate pair. */
export function brief(text, most = BRIEF) {
  if (text.length <= most) return text;
  const half = /[\uD800-\uDBFF]/.test(text[most - 2]);
  return `${text.slice(0, most - (half ? 2 : 1))}…`;
}

/** The text, or for a long text its beginning and a button that shows all of it. */
export function readable(text) {
  if (text.length <= SHOWN) return text;
  const node = el("span", { tabIndex: -1 }, brief(text, SHOWN), " ");
  node.append(el("button.all", { type: "button", onclick: () => {
    fill(node, text.split(RUN).map((part, i) => (i % 2 ? el("span.run", {}, part) : part)));
    node.focus();
  } }, `Show all ${count(text.length)} characters`));
  return node;
}
