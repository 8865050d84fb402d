// The page is complete without this script; it lets a reader sort the table of every figure, says what the
// points of long lines are, and unfolds for the printer what is folded.
"use strict";
(() => {
  const value = (row, column) => {
    const cell = row.cells[column];
    if (!cell) return "";
    const figure = cell.dataset.v;
    return figure === undefined ? cell.textContent.trim() : figure === "" ? NaN : Number(figure);
  };
  // Cells without a figure stay at the end, whichever way the table is sorted.
  const compare = (a, b, direction) => {
    const missing = (x) => x === "" || Number.isNaN(x);
    if (missing(a) || missing(b)) return missing(a) - missing(b);
    if (typeof a === "number" && typeof b === "number") return direction * (a - b);
    return direction * String(a).localeCompare(String(b));
  };
  for (const table of document.querySelectorAll("table.sortable")) {
    const heads = [...table.tHead.rows[0].cells];
    const body = table.tBodies[0];
    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const ascending = head.getAttribute("aria-sort") !== "ascending";
        for (const other of heads) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", ascending ? "ascending" : "descending");
        const rows = [...body.rows].map((row) => [value(row, column), row]);
        rows.sort((a, b) => compare(a[0], b[0], ascending ? 1 : -1));
        body.append(...rows.map((pair) => pair[1]));
      });
    });
  }
  // What is folded is printed, too: browsers that do not know how the style sheet says so need it opened.
  let folded = [];
  addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details:not([open])")];
    for (const details of folded) details.open = true;
  });
  addEventListener("afterprint", () => {
    for (const details of folded) details.open = false;
  });
  const duration = (seconds) => {
    const [unit, size] = [["s", 1], ["ms", 1e-3], ["µs", 1e-6], ["ns", 0]].find(([, size]) => seconds >= size);
    return `${(seconds / (size || 1e-9)).toPrecision(3)} ${unit}`;
  };
  // Of a path with one place in it and then steps: the points, with their words, for who points at the chart.
  const addSpots = (group) => {
    const { store, words, seconds } = group.dataset;
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
      title.textContent = `${store}, ${seconds ? `${duration((seconds * x) / 1000)}: ` : ""}${figure}`;
      spot.append(title);
      group.append(spot);
    });
  };
  for (const plot of document.querySelectorAll("svg.plot")) {
    const add = () => plot.querySelectorAll(".spots").forEach(addSpots);
    plot.addEventListener("pointerenter", add, { once: true });
  }
  document.documentElement.classList.add("scripted");
})();
