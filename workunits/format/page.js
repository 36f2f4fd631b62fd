"use strict";
// Layers on and off.
for (const box of document.querySelectorAll("[data-layer]")) {
  const some = box.dataset.layer === "own" ? "image.own" : "." + box.dataset.layer;
  if (!document.querySelector(".figures " + some)) box.parentNode.remove();
  box.addEventListener("change", () => document.body.classList.toggle("no-" + box.dataset.layer, !box.checked));
}
const bright = document.querySelector("[data-brightness]");
if (bright) bright.addEventListener("input", () => document.body.style.setProperty("--bright", 2 ** bright.value));
// A click on a column's title sorts by it, another the other way round.
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
// A region and its row belong together: a click on either shows both.
const show = (table, item, key, from) => {
  for (const old of document.querySelectorAll(".hit")) old.classList.remove("hit");
  const section = document.getElementById("i" + item);
  const shapes = section ? section.querySelectorAll(`[data-t="${table}"] [data-k="${key}"]`) : [];
  const row = document.querySelector(`table[data-t="${table}"] tr[data-i="${item}"][data-k="${key}"]`);
  for (const one of [...shapes, row]) if (one) one.classList.add("hit");
  const other = from === "row" ? shapes[0] : row;
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
