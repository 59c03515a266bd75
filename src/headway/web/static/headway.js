// What pages do beyond links and forms. Everything is found by id or attribute; nothing is inline.
"use strict";
(() => {
  const root = document.documentElement;
  const $ = (id) => document.getElementById(id);
  const prefersDark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : prefersDark.matches);

  // Storage may be forbidden; then nothing is remembered.
  const remember = (storage, name, value) => {
    try {
      window[storage].setItem(name, value);
    } catch {
      return false;
    }
    return true;
  };
  const recall = (storage, name) => {
    try {
      return window[storage].getItem(name);
    } catch {
      return null;
    }
  };

  // Light and dark.
  const theme = $("theme");
  const showTheme = () => {
    theme.textContent = isDark() ? "Light" : "Dark";
    theme.setAttribute("aria-label", isDark() ? "Switch to light colours" : "Switch to dark colours");
    theme.setAttribute("aria-pressed", String(isDark()));
    document.dispatchEvent(new Event("headway:theme"));
  };
  theme.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    remember("localStorage", "headway-theme", root.dataset.theme);
    showTheme();
  });
  prefersDark.addEventListener("change", showTheme);
  showTheme();

  // `/` goes to the search box, Escape leaves it.
  document.addEventListener("keydown", (event) => {
    const search = $("q");
    const typing = event.target.closest("input, textarea, select, [contenteditable]");
    if (event.key === "/" && search && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      search.focus();
      search.select();
    } else if (event.key === "Escape" && event.target === search) {
      search.blur();
    }
  });

  // Selecting jobs.
  const selection = $("selection");
  if (selection) {
    const ticks = () => [...selection.querySelectorAll('input[name="id"]')];
    const all = $("tick-all");
    const show = () => {
      const ticked = ticks().filter((tick) => tick.checked).length;
      const said = $("selected");
      if (said) said.textContent = ticked ? `${ticked} selected:` : "Tick jobs to act on them";
      for (const button of selection.querySelectorAll("[data-needs-selection]")) button.disabled = !ticked;
      if (all) {
        all.checked = ticked > 0 && ticked === ticks().length;
        all.indeterminate = ticked > 0 && ticked < ticks().length;
      }
    };
    all?.addEventListener("change", () => {
      for (const tick of ticks()) tick.checked = all.checked;
      show();
    });
    selection.addEventListener("change", show);
    show();
  }

  // What cannot be undone is asked about first.
  const dialog = $("confirm");
  document.addEventListener("submit", (event) => {
    const button = event.submitter;
    if (!button || !button.dataset.confirm || button.dataset.confirmed) return;
    event.preventDefault();
    $("confirm-text").textContent = button.dataset.confirm;
    $("confirm-yes").textContent = button.textContent.trim();
    dialog.returnValue = "";
    dialog.showModal();
    dialog.addEventListener(
      "close",
      () => {
        if (dialog.returnValue !== "yes") return;
        button.dataset.confirmed = "yes";
        event.target.requestSubmit(button);
        delete button.dataset.confirmed;
      },
      { once: true },
    );
  });

  // Seconds count down until the next answer of the server, in the words of its filter `countdown`.
  const ends = new WeakMap();
  const units = [[86400, "d", 3600, "h"], [3600, "h", 60, "m"], [60, "m", 1, "s"]];
  const countdown = (seconds) => {
    if (seconds <= 0) return "now";
    if (seconds <= 1) return "within 1 s";
    const whole = Math.ceil(seconds);
    const [size, unit, part, smaller] = units.find(([least]) => whole >= least) ?? [1, "s", 1, ""];
    const rest = Math.floor((whole % size) / part);
    return `in ${Math.floor(whole / size)} ${unit}${rest ? ` ${rest} ${smaller}` : ""}`;
  };
  const count = () => {
    for (const each of document.querySelectorAll("[data-seconds]")) {
      if (!ends.has(each)) ends.set(each, performance.now() + 1000 * each.dataset.seconds);
      const text = countdown((ends.get(each) - performance.now()) / 1000);
      if (each.textContent !== text) each.textContent = text;
    }
  };
  setInterval(count, 250);
  document.addEventListener("htmx:afterSwap", count);
  count();

  // A bulk action that takes longer than one request.
  document.querySelector("form[data-go-on]")?.requestSubmit();

  // `/login#token=…`: a link that logs in. What stands after # is never sent to a server.
  const login = $("login");
  const given = login && new URLSearchParams(location.hash.slice(1)).get("token");
  if (!login) {
    remember("sessionStorage", "headway-came", "in");
  } else if (!given && !("wrong" in login.dataset) && recall("sessionStorage", "headway-came") !== "once") {
    // Whoever follows a link of another site comes without the session's cookie, and has it here.
    if (remember("sessionStorage", "headway-came", "once")) location.replace(login.dataset.wanted);
  }
  if (given) {
    history.replaceState(null, "", location.pathname + location.search);
    $("secret").value = given;
    login.requestSubmit();
  }

  // The plot.
  const place = $("plot");
  let plot = null;
  const colour = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const clock = (seconds) => {
    const moment = new Date(seconds * 1000);
    return [moment.getHours(), moment.getMinutes()].map((part) => String(part).padStart(2, "0")).join(":");
  };
  const drawPlot = (data) => {
    plot?.destroy();
    const axis = { stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
    const bars = uPlot.paths.bars({ size: [0.8, 24], radius: 0.15 });
    const series = (label, name) => ({ label, fill: colour(name), stroke: colour(name), width: 0, paths: bars, points: { show: false } });
    const step = data[0].length > 1 ? data[0][1] - data[0][0] : 60;
    const stacked = [data[0], data[1].map((value, i) => value + data[2][i]), data[2]];
    plot = new uPlot(
      {
        width: Math.max(place.clientWidth, 200),
        height: 170,
        cursor: { show: false },
        legend: { show: false },
        scales: {
          x: { range: (_, low, high) => [low - step / 2, high + step / 2] },
          y: { range: (_, low, high) => [0, Math.max(high * 1.1, 0.1)] },
        },
        axes: [
          { ...axis, grid: { show: false }, size: 30, space: 80, values: (_, moments) => moments.map(clock) },
          { ...axis, size: 48 },
        ],
        series: [{}, series("completed", "--completed"), series("failed", "--failed")],
      },
      stacked,
      place,
    );
    plot.headwayData = data;
  };
  if (place && window.uPlot) {
    drawPlot(JSON.parse(place.dataset.plot));
    document.addEventListener("headway:theme", () => drawPlot(plot.headwayData));
    new ResizeObserver(() => plot.setSize({ width: Math.max(place.clientWidth, 200), height: 170 })).observe(place);
  }

  // Live counts.
  const live = $("live");
  if (live) {
    const word = $("live-word");
    let quiet = null;
    const say = (state, text) => {
      live.dataset.state = state;
      word.textContent = text;
    };
    const source = new EventSource(live.dataset.stream);
    const heard = () => {
      clearTimeout(quiet);
      say("on", "live");
      quiet = setTimeout(() => say("off", "no news"), 6000);
    };
    source.addEventListener("counts", (event) => {
      heard();
      // Rendered and escaped by the server, as the page itself was.
      const counts = $("counts");
      const focused = counts.contains(document.activeElement) ? document.activeElement.id : "";
      counts.innerHTML = event.data;
      if (focused) $(focused)?.focus();
    });
    source.addEventListener("plot", (event) => {
      const data = JSON.parse(event.data);
      if (plot) drawPlot(data);
    });
    addEventListener("pagehide", () => source.close());
  }
})();
