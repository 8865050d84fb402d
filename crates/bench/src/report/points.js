// Points of charts of lines say their words: below the title for who taps, clicks, or uses the arrow keys, and
// all of them in a table below the chart, for who cannot see it. Points of long lines, and the tables, are made
// when they are first asked for: as text of the page they would be most of it.
"use strict";
(() => {
  const duration = (seconds) => {
    const [unit, size] = [["s", 1], ["ms", 1e-3], ["µs", 1e-6], ["ns", 0]].find(([, size]) => seconds >= size);
    return `${(seconds / (size || 1e-9)).toPrecision(3)} ${unit}`;
  };
  const nameOf = (spot) => spot.closest(".line").dataset.store;
  const wordsOf = (spot) => spot.querySelector("title").textContent;
  // Of a path with one place in it and then steps: the points, with their words.
  const addSpots = (group) => {
    const { words, seconds } = group.dataset;
    const make = (name) => document.createElementNS(group.namespaceURI, name);
    const steps = group.previousElementSibling.firstElementChild.getAttribute("d").match(/-?\d+/g).map(Number);
    let [x, y, unit] = [0, 0, ""];
    words.split("|").forEach((short, i) => {
      // A unit that is not said is that of the point before.
      const figure = short.includes(" ") ? short : `${short} ${unit}`;
      unit = figure.split(" ").pop();
      x += steps[2 * i];
      y += steps[2 * i + 1];
      const spot = make("circle");
      for (const [name, value] of Object.entries({ cx: `${x / 10}%`, cy: `${y / 10}%`, r: 5 })) {
        spot.setAttribute(name, value);
      }
      const title = make("title");
      title.textContent = `${nameOf(group)}, ${seconds ? `${duration((seconds * x) / 1000)}: ` : ""}${figure}`;
      spot.append(title);
      group.append(spot);
    });
  };
  const made = (name, text, attributes = {}) => {
    const element = document.createElement(name);
    element.textContent = text;
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return element;
  };
  // A row for each point: whose it is, what stands before its figure, and that.
  const tableOf = (spots, label) => {
    const table = made("table", "");
    const head = table.createTHead().insertRow();
    const heads = ["store", "at", "figure"].map((name) => made("th", name, { scope: "col" }));
    heads[1].className = "text";
    head.append(...heads);
    const body = table.createTBody();
    for (const spot of spots) {
      const store = nameOf(spot);
      const words = wordsOf(spot).slice(store.length + 2);
      const end = words.lastIndexOf(": ");
      const at = made("td", end < 0 ? "" : words.slice(0, end), { class: "text" });
      body.insertRow().append(made("th", store, { scope: "row" }), at, made("td", words.slice(end < 0 ? 0 : end + 2)));
    }
    const scroll = made("div", "", { class: "scroll", tabindex: 0, role: "region", "aria-label": label });
    scroll.append(table);
    return scroll;
  };
  const x = (spot) => parseFloat(spot.getAttribute("cx"));
  const least = (spots, far) => {
    const all = spots.map((spot) => [far(spot), spot]);
    return all.reduce((best, one) => (one[0] < best[0] ? one : best))[1];
  };
  const STEPS = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] };
  document.querySelectorAll(".lines svg.plot").forEach((plot, number) => {
    const figure = plot.closest("figure");
    let [lines, chosen] = [null, null];
    // The points of each line, from left to right.
    const all = () => {
      if (lines) return lines;
      plot.querySelectorAll(".spots").forEach(addSpots);
      const named = (line) => [...line.querySelectorAll("circle")].filter((spot) => spot.firstElementChild);
      lines = [...plot.querySelectorAll(".line")].map(named).filter((spots) => spots.length);
      return lines;
    };
    const said = made("output", "A tap or a click says the nearest point.");
    figure.querySelector("figcaption").append(said);
    const choose = (spot) => {
      chosen?.classList.remove("chosen");
      chosen = spot;
      chosen.classList.add("chosen");
      said.className = "said";
      said.textContent = wordsOf(spot);
    };
    const beside = ([down, right]) => {
      const i = all().findIndex((line) => line.includes(chosen));
      const line = all()[i + down] || all()[i];
      if (down) return least(line, (spot) => Math.abs(x(spot) - x(chosen)));
      return line[line.indexOf(chosen) + right] || chosen;
    };
    plot.addEventListener("pointerenter", all);
    plot.addEventListener("click", ({ clientX, clientY }) => {
      const far = (spot) => {
        const { left, top, width, height } = spot.getBoundingClientRect();
        return Math.hypot(left + width / 2 - clientX, top + height / 2 - clientY);
      };
      choose(least(all().flat(), far));
    });
    plot.tabIndex = 0;
    plot.addEventListener("focus", () => chosen || choose(all()[0][0]));
    plot.addEventListener("keydown", (event) => {
      const step = STEPS[event.key];
      if (!step) return;
      event.preventDefault();
      choose(beside(step));
    });
    const fold = made("details", "", { class: "points", id: `points-${number}` });
    fold.append(made("summary", "Points as a table"));
    fold.addEventListener("toggle", () => fold.append(tableOf(all().flat(), plot.getAttribute("aria-label"))), { once: true });
    figure.append(fold);
    plot.setAttribute("aria-details", fold.id);
  });
})();
