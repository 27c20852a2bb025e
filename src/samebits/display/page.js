"use strict";
(() => {
  const root = document.documentElement;
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const specs = read("specs");
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const choice = document.getElementById("theme");

  const isDark = () => (choice.value === "auto" ? system.matches : choice.value === "dark");

  const draw = () => {
    const ink = getComputedStyle(root).getPropertyValue("--ink").trim();
    const line = getComputedStyle(root).getPropertyValue("--line").trim();
    const size = window.innerWidth < 640 ? 12 : 13;
    const axis = { labelColor: ink, titleColor: ink, gridColor: line, domainColor: line, tickColor: ink,
      labelFontSize: size, titleFontSize: size, titleFontWeight: "normal" };
    const legend = { labelColor: ink, titleColor: ink, labelFontSize: size, titleFontSize: size,
      symbolBaseFillColor: ink, symbolBaseStrokeColor: ink };
    const config = { background: "transparent", axis, legend, view: { stroke: null },
      text: { color: ink, fontSize: size }, rule: { color: ink } };
    for (const place of document.querySelectorAll("[data-chart]")) {
      // What is folded has no width yet; it is drawn when it opens.
      if (!place.offsetParent) continue;
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

  const folded = [...document.querySelectorAll("details.section")];
  for (const part of folded) {
    part.addEventListener("toggle", () => { if (part.open && specs.length) draw(); });
  }
  const openLinked = () => {
    const linked = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (linked instanceof HTMLDetailsElement) {
      linked.open = true;
      linked.scrollIntoView();
    }
  };
  window.addEventListener("hashchange", openLinked);
  openLinked();
  // Paper has nothing to click: everything is open on it.
  const closed = new Set();
  window.addEventListener("beforeprint", () => {
    for (const part of folded) if (!part.open) { closed.add(part); part.open = true; }
  });
  window.addEventListener("afterprint", () => {
    for (const part of closed) part.open = false;
    closed.clear();
  });

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

  // Grids: of very many rows only those in sight are in the document.
  const MARGIN = 20;
  read("grids").forEach((grid, number) => {
    const place = document.querySelector(`[data-grid="${number}"]`);
    const field = place.querySelector("input");
    const count = place.querySelector(".count");
    const view = place.querySelector(".rows");
    const body = place.querySelector("tbody");
    // Each column holds its different texts once, and for each row which of them.
    const text = (row, column) => grid.texts[column][grid.rows[column][row]];
    const columns = grid.texts.length;
    const all = Array.from({ length: grid.rows[0]?.length ?? 0 }, (_, row) => row);
    let shown = all;
    let sorted = null;

    const show = () => {
      const height = body.querySelector("tr:not(.space)")?.offsetHeight || 35;
      const first = Math.max(0, Math.floor(view.scrollTop / height) - MARGIN);
      const last = Math.min(shown.length, first + Math.ceil(view.clientHeight / height) + 2 * MARGIN);
      const space = (rows) => {
        const row = document.createElement("tr");
        row.className = "space";
        row.setAttribute("aria-hidden", "true");
        const cell = row.insertCell();
        cell.colSpan = columns;
        cell.style.height = `${rows * height}px`;
        return row;
      };
      const made = shown.slice(first, last).map((index, place_) => {
        const row = document.createElement("tr");
        row.setAttribute("aria-rowindex", first + place_ + 2);
        for (let column = 0; column < columns; column += 1) {
          const cell = row.insertCell();
          cell.textContent = text(index, column);
          if (column === grid.toned) cell.className = `tone ${grid.tones[cell.textContent] ?? ""}`;
        }
        return row;
      });
      body.replaceChildren(space(first), ...made, space(shown.length - last));
    };

    const filter = () => {
      const wanted = field.value.toLowerCase();
      if (wanted) {
        // Which of the different texts of each column have it is asked once for each text.
        const has = grid.texts.map((texts) => texts.map((one) => one.toLowerCase().includes(wanted)));
        shown = all.filter((row) => has.some((one, column) => one[grid.rows[column][row]]));
      } else {
        shown = [...all];
      }
      if (sorted) {
        const { column, down } = sorted;
        const numeric = (one) => (one.trim() === "" || Number.isNaN(Number(one)) ? null : Number(one));
        const texts = grid.texts[column].map((one, index) => ({ index, one, value: numeric(one) }));
        texts.sort((a, b) => (a.value !== null && b.value !== null ? a.value - b.value
          : a.value !== null ? -1 : b.value !== null ? 1 : a.one < b.one ? -1 : a.one > b.one ? 1 : 0));
        const rank = [];
        texts.forEach((one, place_) => { rank[one.index] = place_; });
        const codes = grid.rows[column];
        shown.sort((a, b) => (down ? rank[codes[b]] - rank[codes[a]] : rank[codes[a]] - rank[codes[b]]));
      }
      count.textContent = wanted ? `${shown.length.toLocaleString("en")} of ${all.length.toLocaleString("en")} rows`
        : `${all.length.toLocaleString("en")} rows`;
      view.scrollTop = 0;
      show();
    };

    for (const button of place.querySelectorAll("[data-sort]")) {
      button.addEventListener("click", () => {
        const column = Number(button.dataset.sort);
        sorted = { column, down: sorted?.column === column && !sorted.down };
        for (const heading of place.querySelectorAll("th")) heading.removeAttribute("aria-sort");
        button.parentElement.setAttribute("aria-sort", sorted.down ? "descending" : "ascending");
        filter();
      });
    }
    field.addEventListener("input", filter);
    view.addEventListener("scroll", show);
    filter();
  });

  // What is wider than its place says so.
  const mark = () => {
    for (const place of document.querySelectorAll(".wide")) {
      place.classList.toggle("goes-on", place.scrollWidth > place.clientWidth + 4);
    }
  };
  window.addEventListener("resize", mark);
  for (const part of folded) part.addEventListener("toggle", mark);
  mark();
})();
