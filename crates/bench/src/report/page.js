// The page is complete without this script; it lets a reader sort the tables of every figure, and unfolds for
// the printer what is folded, but for the points of charts, which are drawn.
"use strict";
(() => {
  const value = (row, column) => {
    const cell = row.cells[column];
    if (!cell) return "";
    const figure = cell.dataset.v;
    if (figure !== undefined) return figure === "" ? NaN : Number(figure);
    // A dash stands where there is no figure.
    const text = cell.textContent.trim();
    return text === "–" ? NaN : /^[\d,.]+(e-?\d+)?$/.test(text) ? Number(text.replaceAll(",", "")) : text;
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
    folded = [...document.querySelectorAll("details:not([open], .points)")];
    for (const details of folded) details.open = true;
  });
  addEventListener("afterprint", () => {
    for (const details of folded) details.open = false;
  });
  document.documentElement.classList.add("scripted");
})();
