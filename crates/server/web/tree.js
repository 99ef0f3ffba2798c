// The class hierarchy as a collapsible tree with row counts. A click limits the search to a subtree.

import { get } from "./api.js";
import { count, el, fill } from "./dom.js";
import { brief } from "./long.js";
import { current, update } from "./state.js";

/**
 * Creates the tree, opened at the root. Children are loaded when a node is opened. If the server has no class tree
 * (`real` is false), a click filters by the value of the column `label` instead of by the subtree.
 */
export function classTree(real, fail) {
  const node = el("ul.tree", { role: "tree", "aria-label": "Classes" });
  let root = null;
  const chosen = (state) => (real ? state.subtree : state.columns.label?.length === 1 ? state.columns.label[0] : null);
  function pick(name) {
    const off = chosen(current()) === name || name === root;
    const view = current().view === "map" ? "results" : current().view;
    if (real) return update({ subtree: off ? null : name, view });
    update({ columns: { ...current().columns, label: off ? [] : [name] }, view });
  }

  function item({ name, count: rows, children }, level) {
    const group = children ? el("ul", { role: "group", hidden: true }) : null;
    const twist = el("span.twist", { "aria-hidden": "true", onclick: (event) => {
      event.stopPropagation();
      toggle(self);
    } }, children ? "▸" : "");
    const row = el("div.node", { onclick: () => pick(name) }, twist, el("span.name", {}, brief(name)), el("small", {}, count(rows)));
    const self = el("li", { role: "treeitem", tabIndex: -1, dataset: { name }, "aria-level": level,
      "aria-selected": "false", "aria-label": `${brief(name)}, ${rows} rows` }, row, group);
    if (rows === 0) self.classList.add("none");
    if (children) self.setAttribute("aria-expanded", "false");
    return self;
  }

  async function toggle(self, open = self.getAttribute("aria-expanded") !== "true") {
    if (!self.hasAttribute("aria-expanded")) return;
    const group = self.querySelector(":scope > ul");
    self.setAttribute("aria-expanded", String(open));
    self.querySelector(".twist").textContent = open ? "▾" : "▸";
    group.hidden = !open;
    if (!open || group.childElementCount) return;
    try {
      const { children } = await get(`/api/tree?node=${encodeURIComponent(self.dataset.name)}`);
      fill(group, children.map((it) => item(it, Number(self.ariaLevel) + 1)));
      mark(current());
    } catch (error) {
      fail(error, () => toggle(self, true));
    }
  }

  node.addEventListener("keydown", (event) => {
    const self = event.target.closest("[role=treeitem]");
    if (!self) return;
    const shown = [...node.querySelectorAll("[role=treeitem]")].filter((it) => it.offsetParent);
    const go = (to) => to?.focus();
    const at = shown.indexOf(self);
    const open = self.getAttribute("aria-expanded");
    const keys = {
      ArrowDown: () => go(shown[at + 1]),
      ArrowUp: () => go(shown[at - 1]),
      Home: () => go(shown[0]),
      End: () => go(shown.at(-1)),
      ArrowRight: () => (open === "false" ? toggle(self) : go(self.querySelector("ul > [role=treeitem]"))),
      ArrowLeft: () => (open === "true" ? toggle(self) : go(self.parentElement.closest("[role=treeitem]"))),
      Enter: () => pick(self.dataset.name),
      " ": () => pick(self.dataset.name),
    };
    if (!keys[event.key]) return;
    event.preventDefault();
    event.stopPropagation();
    keys[event.key]();
  });
  node.addEventListener("focusin", (event) => {
    node.querySelectorAll("[role=treeitem]").forEach((it) => { it.tabIndex = it === event.target ? 0 : -1; });
  });

  function mark(state) {
    for (const it of node.querySelectorAll("[role=treeitem]")) {
      it.setAttribute("aria-selected", String(it.dataset.name === chosen(state)));
    }
  }

  async function load() {
    try {
      const top = await get("/api/tree");
      root = top.node.name;
      const first = item({ ...top.node, children: top.children.length }, 1);
      first.tabIndex = 0;
      fill(node, first);
      fill(first.querySelector("ul"), top.children.map((it) => item(it, 2)));
      await toggle(first, true);
      if (real) await reveal(current().subtree);
      mark(current());
    } catch (error) {
      // Hide the section if the set has no classes.
      if (error.status === 404) node.closest("details").hidden = true;
      else fail(error, load);
    }
  }

  /** Opens the path to the class in the URL. */
  async function reveal(name) {
    if (!name) return;
    try {
      const { path } = await get(`/api/tree?node=${encodeURIComponent(name)}`);
      for (const above of path.slice(0, -1)) {
        const self = [...node.querySelectorAll("[role=treeitem]")].find((it) => it.dataset.name === above);
        if (self) await toggle(self, true);
      }
    } catch {
      // The search shows the error for an unknown class.
    }
  }

  load();
  return { node, render: mark };
}
