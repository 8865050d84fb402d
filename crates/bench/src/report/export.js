// Two buttons for each chart: it is written to a file as SVG or PNG, as it stands on the page. Opened with
// #charts-as-text, the page has all of them at its end instead, for the program that has a browser open it.
"use strict";
(() => {
  // A namespace has the form of an address, and the page is to name none.
  const SVG = document.querySelector("svg")?.namespaceURI;
  const SHAPE = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap", "stroke-linejoin", "vector-effect"];
  const FONT = ["font-family", "font-size", "font-weight", "font-style"];
  const make = (name, attributes, text = "") => {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.textContent = text;
    return made;
  };
  // What the style sheet says becomes attributes: the file stands for itself.
  const styled = (from, to, names) => {
    const style = getComputedStyle(from);
    for (const name of names) to.setAttribute(name, style.getPropertyValue(name));
    to.removeAttribute("class");
  };
  const drawing = (svg, at) => {
    const copy = svg.cloneNode(true);
    const copies = copy.querySelectorAll("*");
    svg.querySelectorAll("*").forEach((mark, i) => {
      const names = mark.tagName === "text" ? ["fill", ...FONT] : SHAPE;
      if (!["title", "g", "svg"].includes(mark.tagName)) styled(mark, copies[i], names);
      for (const name of ["class", ...Object.keys(copies[i].dataset).map((key) => `data-${key}`)]) {
        copies[i].removeAttribute(name);
      }
    });
    copy.removeAttribute("class");
    for (const [key, value] of Object.entries(at)) copy.setAttribute(key, value);
    copy.setAttribute("overflow", "visible");
    return copy;
  };
  // Word by word, as the browser has broken the lines.
  const words = (node, place) => [...node.data.matchAll(/\S+/g)].map((word) => {
    const range = document.createRange();
    range.setStart(node, word.index);
    range.setEnd(node, word.index + word[0].length);
    const { x, y, width, height } = place(range);
    const text = make("text", { x, y: y + height * 0.79, textLength: width }, word[0]);
    const style = getComputedStyle(node.parentElement);
    styled(node.parentElement, text, FONT);
    text.setAttribute("fill", style.color);
    text.setAttribute("text-decoration", style.textDecorationLine);
    return text;
  });
  const swatch = (item, place) => {
    const style = getComputedStyle(item, "::before");
    const { x, y, height } = place(item);
    const dashes = { dashed: "5 3", dotted: "3 3" }[style.borderTopStyle] || "none";
    return make("line", {
      x1: x, x2: x + parseFloat(style.width), y1: y + height / 2, y2: y + height / 2,
      stroke: style.borderTopColor, "stroke-width": 2.5, "stroke-dasharray": dashes,
    });
  };
  const svgOf = (figure) => {
    // Points that are made when somebody points at the chart are in the file, too; what is said of one of them,
    // and the table of all, are not.
    figure.querySelectorAll("svg.plot").forEach((plot) => plot.dispatchEvent(new Event("pointerenter")));
    figure.classList.add("saved");
    const frame = figure.getBoundingClientRect();
    const place = (thing) => {
      const { left, top, width, height } = thing.getBoundingClientRect();
      return { x: left - frame.left, y: top - frame.top, width, height };
    };
    const { width, height } = frame;
    const root = make("svg", { width, height, viewBox: `0 0 ${width} ${height}` });
    root.append(make("rect", { width, height, fill: getComputedStyle(figure).backgroundColor }));
    const nodes = document.createTreeWalker(figure, NodeFilter.SHOW_TEXT);
    while (nodes.nextNode()) {
      const isOutside = !nodes.currentNode.parentElement.closest("svg, .export, output, .points");
      if (isOutside) root.append(...words(nodes.currentNode, place));
    }
    for (const item of figure.querySelectorAll(".legend .line")) root.append(swatch(item, place));
    for (const svg of figure.querySelectorAll("svg")) {
      if (!svg.parentElement.closest("svg")) root.append(drawing(svg, place(svg)));
    }
    figure.classList.remove("saved");
    return { text: new XMLSerializer().serializeToString(root), width, height };
  };
  const save = (blob, name) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  };
  // The chart as a picture, once it is drawn; the page is not loaded before that.
  const paint = ({ text, width, height }, use) => {
    const image = new Image();
    image.onload = () => {
      const canvas = document.createElement("canvas");
      // Twice as fine, as for a screen of today or a slide.
      [canvas.width, canvas.height] = [Math.ceil(width * 2), Math.ceil(height * 2)];
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      use(canvas);
    };
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  };
  const savers = {
    SVG: (figure, name) => save(new Blob([svgOf(figure).text], { type: "image/svg+xml" }), `${name}.svg`),
    PNG: (figure, name) => paint(svgOf(figure), (canvas) => canvas.toBlob((blob) => save(blob, `${name}.png`), "image/png")),
  };
  // What a chart is called says where it stands, and no two of a page have one name.
  const names = new Map();
  let [section, heading] = ["", ""];
  for (const part of document.querySelectorAll("section, h3.gap, figure.chart")) {
    if (part.matches("section")) [section, heading] = [part.id, ""];
    else if (part.matches("h3")) heading = part.textContent;
    else {
      const words = `${section} ${heading} ${part.querySelector("h3").textContent}`.toLowerCase();
      const plain = words.replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "").slice(0, 100);
      let name = plain;
      for (let i = 2; names.has(name); i++) name = `${plain}-${i}`;
      names.set(name, part);
    }
  }
  for (const [name, figure] of names) {
    const title = figure.querySelector("h3").textContent;
    const buttons = document.createElement("span");
    buttons.className = "export";
    for (const [kind, saver] of Object.entries(savers)) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = kind;
      button.setAttribute("aria-label", `save '${title}' as ${kind}`);
      button.addEventListener("click", () => saver(figure, name));
      buttons.append(button);
    }
    figure.querySelector("figcaption").append(buttons);
  }
  if (location.hash === "#charts-as-text") {
    // What is folded has no size.
    for (const details of document.querySelectorAll("details")) details.open = true;
    const list = document.createElement("pre");
    list.id = "charts-as-text";
    const add = (name, base64) => list.append(`${name} ${base64}\n`);
    const bytes = (text) => Array.from(new TextEncoder().encode(text), (byte) => String.fromCharCode(byte)).join("");
    for (const [name, figure] of names) {
      const svg = svgOf(figure);
      add(`${name}.svg`, btoa(bytes(svg.text)));
      paint(svg, (canvas) => add(`${name}.png`, canvas.toDataURL("image/png").split(",")[1]));
    }
    document.body.append(list);
  }
})();
