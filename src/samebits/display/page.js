"use strict";
(() => {
  const root = document.documentElement;
  const specs = JSON.parse(document.getElementById("specs").textContent);
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const choice = document.getElementById("theme");

  const isDark = () => (choice.value === "auto" ? system.matches : choice.value === "dark");

  const draw = () => {
    const ink = getComputedStyle(root).getPropertyValue("--ink").trim();
    const line = getComputedStyle(root).getPropertyValue("--line").trim();
    const axis = { labelColor: ink, titleColor: ink, gridColor: line, domainColor: line, tickColor: line };
    const config = { background: "transparent", axis, legend: { labelColor: ink, titleColor: ink }, view: { stroke: line } };
    for (const place of document.querySelectorAll("[data-chart]")) {
      const spec = specs[Number(place.dataset.chart)];
      window.vegaEmbed(place, spec, { renderer: "svg", actions: false, config }).then(() => {
        place.dataset.done = "yes";
        // The sentence under the chart says what it shows; its marks are nothing to walk through.
        place.querySelector("svg")?.setAttribute("aria-hidden", "true");
      });
    }
  };

  const paint = () => {
    root.dataset.theme = isDark() ? "dark" : "light";
    if (specs.length) draw();
  };
  choice.addEventListener("change", paint);
  system.addEventListener("change", paint);
  paint();

  for (const button of document.querySelectorAll("[data-copy]")) {
    button.addEventListener("click", async () => {
      const text = document.getElementById(button.dataset.copy).textContent;
      let done = true;
      try {
        await navigator.clipboard.writeText(text);
      } catch {
        // Pages opened from a file may not reach the clipboard that way.
        const area = document.createElement("textarea");
        area.value = text;
        document.body.append(area);
        area.select();
        done = document.execCommand("copy");
        area.remove();
        button.focus();
      }
      button.textContent = done ? "Copied" : "Not copied";
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
  }

  for (const button of document.querySelectorAll("[data-zoom]")) {
    button.addEventListener("click", () => {
      const drawing = document.getElementById(button.dataset.zoom);
      const size = parseFloat(getComputedStyle(drawing).fontSize) * Number(button.dataset.by);
      drawing.style.fontSize = `${Math.min(Math.max(size, 4), 60)}px`;
    });
  }

  for (const field of document.querySelectorAll("[data-table]")) {
    const rows = [...document.querySelectorAll(`#${field.dataset.table} tbody tr`)];
    const count = field.parentElement.querySelector(".count");
    field.addEventListener("input", () => {
      const wanted = field.value.toLowerCase();
      let shown = 0;
      for (const row of rows) {
        row.hidden = !row.textContent.toLowerCase().includes(wanted);
        shown += row.hidden ? 0 : 1;
      }
      count.textContent = wanted ? `${shown} of ${rows.length}` : "";
    });
  }
})();
