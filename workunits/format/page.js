"use strict";
// Checkboxes show and hide the layers of figures, such as outlines and numbers.
for (const box of document.querySelectorAll("[data-layer]")) {
  const some = box.dataset.layer === "own" ? "image.own" : "." + box.dataset.layer;
  if (!document.querySelector(".figures " + some)) box.parentNode.remove();
  box.addEventListener("change", () => document.body.classList.toggle("no-" + box.dataset.layer, !box.checked));
  // Too many numbers cannot be read, and hide the picture: they are off at first.
  if (some === ".numbers" && [...document.querySelectorAll(some)].some(one => one.childElementCount > 200)) box.click();
}
const bright = document.querySelector("[data-brightness]");
if (bright) bright.addEventListener("input", () => document.body.style.setProperty("--bright", 2 ** bright.value));
// A click on a column's title sorts the table by this column; another click reverses the order.
const valueOf = (row, column) => {
  const cell = row.cells[column], text = cell.dataset.v ?? cell.textContent;
  const number = cell.classList.contains("n") ? parseFloat(text.replace("inf", "Infinity")) : NaN;
  return cell.classList.contains("n") ? number : text;
};
const order = (a, b) => {
  if (typeof a === "string") return a.localeCompare(b, undefined, {numeric: true});
  if (isNaN(a) || isNaN(b)) return isNaN(a) - isNaN(b);
  return a - b;
};
for (const table of document.querySelectorAll("table")) {
  const titles = [...table.tHead.rows[0].cells];
  titles.forEach((title, column) => {
    title.tabIndex = 0;
    const sort = () => {
      const down = title.getAttribute("aria-sort") === "ascending";
      for (const other of titles) other.removeAttribute("aria-sort");
      title.setAttribute("aria-sort", down ? "descending" : "ascending");
      const rows = [...table.tBodies[0].rows].map(row => [valueOf(row, column), row]);
      rows.sort((a, b) => down ? -order(a[0], b[0]) : order(a[0], b[0]));
      table.tBodies[0].append(...rows.map(pair => pair[1]));
    };
    title.addEventListener("click", sort);
    title.addEventListener("keydown", event => { if (event.key === "Enter") sort(); });
  });
}
const two = document.querySelector("[data-two]");
if (two) two.addEventListener("change", () => document.body.classList.toggle("two", two.checked));
// A slider selects the slice of a stack that is shown.
const goTo = new Map();
for (const stack of document.querySelectorAll(".stack")) {
  const figures = [...stack.children], range = document.createElement("input");
  if (figures.length < 2) continue;
  const go = at => { range.value = at; figures.forEach((figure, i) => { figure.hidden = i !== at; }); };
  Object.assign(range, {type: "range", min: 0, max: figures.length - 1, title: "slice"});
  range.setAttribute("aria-label", "slice");
  range.addEventListener("input", () => go(+range.value));
  figures.forEach((figure, i) => goTo.set(figure, () => go(i)));
  stack.prepend(range);
  go(figures.length >> 1);
}
// A click on a region's outline or on its row highlights both, and scrolls to the other one.
const show = (table, item, key, from) => {
  for (const old of document.querySelectorAll(".hit")) old.classList.remove("hit");
  const section = document.getElementById("i" + item);
  const shapes = section ? section.querySelectorAll(`[data-t="${table}"] [data-k="${key}"]`) : [];
  const row = document.querySelector(`table[data-t="${table}"] tr[data-i="${item}"][data-k="${key}"]`);
  for (const one of [...shapes, row]) if (one) one.classList.add("hit");
  const other = from === "row" ? shapes[0] : row;
  if (from === "row" && other) goTo.get(other.closest("figure"))?.();
  if (other) other.scrollIntoView({block: "center", behavior: "smooth"});
};
document.addEventListener("click", event => {
  const shape = event.target.closest(".figures [data-k]"), row = event.target.closest("tr[data-k]");
  if (shape) show(shape.parentNode.dataset.t, shape.closest("section").id.slice(1), shape.dataset.k, "shape");
  else if (row && !event.target.closest("a")) show(row.closest("table").dataset.t, row.dataset.i, row.dataset.k, "row");
});
for (const shape of document.querySelectorAll(".figures [data-k]")) {
  const title = document.createElementNS("http://www.w3.org/2000/svg", "title");
  title.textContent = shape.dataset.k;
  shape.append(title);
}

// Plots of the tables' values: up to four histograms, and box plots by image or by folder. They are
// drawn as wide as they are shown (.plots in page.css), so that text has the same size in all.
const plots = document.getElementById("plots");
if (plots) plots.hidden = false;
const WHOLE = Math.max(280, plots?.clientWidth ?? 0), GAP = 16, ACROSS = Math.max(1, Math.floor((WHOLE + GAP) / (416 + GAP)));
const WIDE = (WHOLE - GAP * (ACROSS - 1)) / ACROSS, HIGH = 250, LEFT = 48, RIGHT = 28, BELOW = 40, TOP = 26;
if (plots) plots.hidden = true;
const element = (name, attributes, ...children) => {
  const one = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const key in attributes) one.setAttribute(key, attributes[key]);
  one.append(...children);
  return one;
};
const made = (name, attributes, ...children) => {
  const one = Object.assign(document.createElement(name), attributes);
  one.append(...children);
  return one;
};
const numbers = one => one.textContent.trim().split(" ").map(Number);
// A number as text, with three significant digits, or as a whole number.
const said = (value, digits = 3) => Math.abs(value) >= 1e6 || value !== 0 && Math.abs(value) < 1e-3 ? value.toExponential(1)
  : String(Math.abs(value) >= 10 ** digits ? Math.round(value) : +value.toPrecision(digits));
const ticks = (least, most) => {
  const ten = 10 ** Math.floor(Math.log10((most - least) / 4 || 1)), step = ten * [1, 2, 5, 10].find(k => (most - least) / (k * ten) <= 6);
  const all = [];
  for (let at = Math.ceil(least / step); at * step <= most + step * 1e-9 && all.length < 20; at++) all.push(at * step);
  return all;
};
const quantile = (sorted, q) => {
  const at = q * (sorted.length - 1), i = Math.floor(at);
  return sorted[i] + ((sorted[i + 1] ?? sorted[i]) - sorted[i]) * (at - i);
};
const axis = (svg, wide, least, most, high, title) => {
  const x = value => LEFT + (value - least) / (most - least || 1) * (wide - LEFT - RIGHT);
  svg.append(element("path", {class: "axis", d: `M${LEFT} ${high}H${wide - RIGHT}`}));
  for (const at of ticks(least, most))
    svg.append(element("path", {class: "axis", d: `M${x(at)} ${high}v4`}),
               element("text", {x: x(at), y: high + 17, "text-anchor": "middle"}, said(at, 6)));
  svg.append(element("text", {x: (LEFT + wide) / 2, y: high + 34, "text-anchor": "middle"}, title));
  return x;
};
const images = [...document.querySelectorAll("tr[data-image]")].map(row => ({name: row.cells[0].textContent, group: row.dataset.group}));
const looks = [...document.querySelectorAll(".images .why")].filter(one => one.dataset.v !== "0").length;
if (looks && images.length)
  document.querySelector(".headline").append(made("span", {}, ...(images.length > 1 ? [made("strong", {className: "look", textContent: looks}), " to look at"]
    : [document.querySelector(".images .why strong:not(.ok)").cloneNode(true)])));
const tables = new Map();
for (const one of document.querySelectorAll(".of"))
  tables.set(one.dataset.of, {items: numbers(one), name: one.dataset.name, step: +one.dataset.step});
const measured = [...document.querySelectorAll(".values")];
const columns = measured.flatMap(one => {
  const table = tables.get(one.dataset.of), unit = one.dataset.unit, values = numbers(one), rank = +one.dataset.rank;
  const column = {table, title: one.dataset.title + (unit ? ` (${unit})` : ""), values, rank};
  // By the unit's last letter: the diameter of the circle of an area, or of the ball of a volume.
  const diameter = {"\u00b2": v => 2 * Math.sqrt(v / Math.PI), "\u00b3": v => Math.cbrt(6 * v / Math.PI)}[unit.slice(-1)];
  return diameter && table.name !== "images" && /^(area|volume)(_um[23])?$/.test(one.dataset.title) &&
    !measured.some(other => other.dataset.title.startsWith("equivalent_diameter"))
    ? [{table, title: `diameter (${unit.slice(0, -1)})`, values: values.map(diameter), rank}, column] : [column];
}).sort((a, b) => (a.table.name === "images") - (b.table.name === "images"));
const choose = (options, at, changed) => {
  const select = made("select", {}, ...options.map((text, i) => made("option", {value: i, textContent: text, selected: i === at})));
  select.addEventListener("change", () => changed(+select.value));
  return select;
};
const names = columns.map(column => `${column.table.name}: ${column.title}`);
const histogram = (column, image) => {
  const all = column.values.filter((v, i) => isFinite(v) && (image < 0 || column.table.items[i] === image)), svg = element("svg", {viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img"});
  const whole = column.values.filter(isFinite), least = whole.reduce((a, b) => Math.min(a, b), Infinity), most = whole.reduce((a, b) => Math.max(a, b), -Infinity);
  const n = Math.max(5, Math.min(30, Math.ceil(2 * Math.cbrt(all.length)))), bins = Array(n).fill(0), high = HIGH - BELOW;
  for (const v of all) bins[Math.min(n - 1, Math.floor((v - least) / (most - least || 1) * n))]++;
  const top = Math.max(1, ...bins), x = axis(svg, WIDE, least, most, high, column.title);
  for (const at of ticks(0, top).filter(Number.isInteger))
    svg.append(element("path", {class: "axis", d: `M${LEFT - 4} ${high - at / top * (high - TOP)}h4`}),
               element("text", {x: LEFT - 7, y: high - at / top * (high - TOP) + 4, "text-anchor": "end"}, said(at)));
  bins.forEach((count, i) => svg.append(element("rect", {x: LEFT + i * (WIDE - LEFT - RIGHT) / n + .5, y: high - count / top * (high - TOP), width: (WIDE - LEFT - RIGHT) / n - 1, height: count / top * (high - TOP)},
    element("title", {}, `${count} of ${said(least + i * (most - least) / n, 4)} to ${said(least + (i + 1) * (most - least) / n, 4)}`))));
  all.sort((a, b) => a - b);
  if (all.length) svg.append(element("path", {class: "mark", d: `M${x(quantile(all, .5))} ${TOP}V${high}`}));
  svg.append(element("text", {x: WIDE - RIGHT, y: 18, "text-anchor": "end"}, all.length ? `${all.length} ${column.table.name}, median ${said(quantile(all, .5))}` : "none"));
  return svg;
};
const boxes = (column, by) => {
  const groups = new Map(), high = 24;
  column.values.forEach((value, i) => {
    const image = images[column.table.items[i]], name = by ? image?.group || "(none)" : image?.name;
    if (!groups.has(name)) groups.set(name, []);
    if (isFinite(value)) groups.get(name).push(value);
  });
  const whole = column.values.filter(isFinite), least = whole.reduce((a, b) => Math.min(a, b), Infinity), most = whole.reduce((a, b) => Math.max(a, b), -Infinity);
  const svg = element("svg", {viewBox: `0 0 ${WHOLE} ${BELOW + groups.size * 2 * high + 4}`, role: "img"});
  // The axis is above the rows, as many rows scroll.
  const x = axis(svg, WHOLE, least, most, 4, column.title);
  [...groups].forEach(([name, all], i) => {
    const y = BELOW + (2 * i + 1) * high - 2, [a, b, c] = [.25, .5, .75].map(q => quantile(all.sort((p, q) => p - q), q));
    svg.append(element("text", {x: LEFT, y: y - 6}, all.length === 1 ? `${name}: ${said(b)}` : `${name}: ${all.length} ${column.table.name}` + (all.length ? `, median ${said(b)} (${said(a)} to ${said(c)})` : "")));
    if (!all.length) return;
    if (all.length > 1) svg.append(element("path", {class: "axis", d: `M${x(all[0])} ${y + 9}H${x(all[all.length - 1])}`}),
               element("path", {class: "box", d: `M${x(a)} ${y}H${x(c)}v18H${x(a)}z`}));
    svg.append(element("path", {class: "median", d: `M${x(b)} ${y}v18`}));
  });
  return svg;
};
if (plots && columns.length && (images.length > 1 || columns.some(column => column.values.length >= 8))) {
  let image = -1, by = images.some(one => one.group);
  const all = made("div", {className: "plots"}), redraw = [];
  const figure = (name, at, draw) => {
    const place = made("div", {}), caption = made("figcaption", {}), paint = () => {
      place.replaceChildren(draw(columns[at]));
      const boxes = place.querySelectorAll(".box").length, marks = place.querySelectorAll(".median").length;
      caption.textContent = [boxes && "Box: from the lower to the upper quartile, with the median; line: from the least to the greatest value.",
        boxes < marks && "A mark alone: a single value."].filter(Boolean).join(" ");
    };
    redraw.push(paint);
    all.append(made("figure", {className: name}, choose(names, at, chosen => { at = chosen; paint(); }), place,
      ...(name === "plot" ? [] : [caption])));
    paint();
  };
  // Indices of the columns of this rank, if there are enough rows for a histogram.
  const spread = rank => columns.map((column, i) => i).filter(i => columns[i].rank === rank && columns[i].values.length >= 8);
  const first = spread(0).length ? spread(0) : spread(1);
  // The columns of box plots. If images are in folders, these plots come first: of the first
  // measured column, and of the first column of the table of images. Otherwise there is one of the
  // first measured column, if its table has several rows for an image.
  const compared = by ? [...new Set([first[0] ?? 0, columns.findIndex(one => one.table.name === "images" && one.rank === 0)])] : images.length > 1 && columns[first[0]]?.table.name !== "images" ? [first[0] ?? 0] : [];
  const compare = () => compared.filter(i => i >= 0).forEach(i => figure("plot boxes", i, column => boxes(column, by)));
  if (by) compare();
  for (const i of first.slice(0, 4)) figure("plot", i, column => histogram(column, image));
  if (!by) compare();
  plots.append(made("h2", {textContent: "Distribution"}));
  if ([...tables.values()].some(table => table.step > 1)) plots.append(made("p", {className: "note", textContent: "Of many rows evenly chosen ones."}));
  if (images.length > 1 && first.length) plots.append(made("p", {className: "pick"}, "Histograms of ", choose(["all images", ...images.map(one => one.name)], 0, at => { image = at - 1; redraw.forEach(paint => paint()); }),
    ...(by ? [" boxes by ", choose(["folder", "image"], 0, at => { by = at === 0; redraw.forEach(paint => paint()); })] : [])));
  plots.append(all);
  plots.hidden = !all.hasChildNodes();
}
