// Loaded before the page is drawn, so that the chosen theme does not flash.
"use strict";
(() => {
  let chosen = null;
  try {
    chosen = localStorage.getItem("headway-theme");
  } catch {
    // Storage may be forbidden; the system's preference is used then.
  }
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
})();
