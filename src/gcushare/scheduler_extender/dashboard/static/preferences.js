// Language and theme: what the browser prefers, unless the reader chose something else here.

import { byId } from "./dom.js";
import { LANGUAGES, spoken, t } from "./text.js";

const THEMES = ["auto", "light", "dark"];

/** Apply the choices now and whenever they change. `on` has language(name) and theme(). */
export function preferences(on) {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const applyTheme = () => {
    const chosen = themeChosen();
    document.documentElement.dataset.theme = chosen === "auto" ? (dark.matches ? "dark" : "light") : chosen;
    nameTheme();
    on.theme();
  };
  byId("theme").addEventListener("click", () => {
    const next = THEMES[(THEMES.indexOf(themeChosen()) + 1) % THEMES.length];
    localStorage.setItem("gcushare-theme", next);
    applyTheme();
  });
  byId("language").addEventListener("click", () => {
    const next = spoken() === "en" ? "zh" : "en";
    localStorage.setItem("gcushare-language", next);
    on.language(next);
    nameTheme();
  });
  dark.addEventListener("change", applyTheme);
  on.language(languageChosen());
  applyTheme();
}

function languageChosen() {
  const stored = localStorage.getItem("gcushare-language");
  if (LANGUAGES.includes(stored)) return stored;
  return (navigator.languages ?? []).map((each) => each.slice(0, 2)).find((each) => LANGUAGES.includes(each)) ?? "en";
}

function themeChosen() {
  const stored = localStorage.getItem("gcushare-theme");
  return THEMES.includes(stored) ? stored : "auto";
}

function nameTheme() {
  const words = t("theme", { name: t(`theme-${themeChosen()}`) });
  byId("theme").setAttribute("aria-label", words);
  byId("theme").title = words;
}
