// Dark and light theme: follows the system until the user chooses one.

import { fill, icon } from "./dom.js";

const KEY = "conifer-theme";

/** Sets up the theme button. */
export function theme(button) {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const dark = () => (document.documentElement.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";
  const show = () => {
    fill(button, icon(dark() ? "sun" : "moon"));
    button.title = dark() ? "Light" : "Dark";
  };
  const kept = localStorage.getItem(KEY);
  if (kept === "dark" || kept === "light") document.documentElement.dataset.theme = kept;
  button.addEventListener("click", () => {
    document.documentElement.dataset.theme = dark() ? "light" : "dark";
    localStorage.setItem(KEY, document.documentElement.dataset.theme);
    show();
  });
  system.addEventListener("change", show);
  show();
}
