"use strict";
// The page of results: filters, sortable tables, and curves that show their values at the pointer or with arrow keys.

const data = JSON.parse(document.getElementById("data").textContent);
const titles = new Map(data.algorithms.map((a) => [a.label, a]));
const objectives = new Map(data.objectives.map((o) => [o.label, o]));
const NAMES = { normalised: "normalised return", return: "return", ratio_max: "largest ratio", ratio_min: "smallest ratio" };
const isRatio = (metric) => metric.startsWith("ratio");

// ---------------------------------------------------------------------------------------------------- small helpers

function element(name, attributes = {}, ...children) {
  const isSvg = ["svg", "g", "path", "line", "text", "circle"].includes(name);
  const made = isSvg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function words(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 0.001 || size >= 1e5)) return value.toExponential(1).replace("e+", "e");
  return String(Number(value.toPrecision(size < 1 ? 2 : 3)));
}

function steps(value) {
  const [unit, name] = [[1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""]].find(([u]) => Math.abs(value) >= u) || [1, ""];
  return Number((value / unit).toPrecision(3)) + name;
}

function ticks(low, high, count) {
  if (!(high > low)) return [low];
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough * 0.999);
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + (high - low) * 0.005; k++) found.push(k * step);
  return found;
}

function logTicks(low, high) {
  const first = Math.ceil(Math.log10(low)), last = Math.floor(Math.log10(high));
  if (last - first < 1) return ticks(low, high, 4).filter((t) => t > 0);
  const stride = Math.ceil((last - first + 1) / 5);
  return Array.from({ length: last - first + 1 }, (_, i) => first + i).filter((e) => e % stride === 0).map((e) => 10 ** e);
}

function nearest(values, wanted) {
  let best = 0;
  values.forEach((v, i) => { if (Math.abs(v - wanted) < Math.abs(values[best] - wanted)) best = i; });
  return best;
}

// ------------------------------------------------------------------------------------------------------------ charts

// Charts are drawn at their pixel size, so that the font size and the margins are constant.
const EDGE = { left: 46, right: 10, top: 8, bottom: 32 };
const heightFor = (width) => Math.round(Math.min(300, Math.max(180, 0.55 * width)));

function linesOf(chart, metric, shown) {
  const source = chart.lines[metric === "normalised" && !chart.lines.normalised ? "return" : metric] || {};
  const change = metric === "normalised" && !chart.lines.normalised
    ? (v) => (chart.high > chart.low ? (v - chart.low) / (chart.high - chart.low) : 0)
    : (v) => v;
  return Object.entries(source).filter(([label]) => shown.has(label)).map(([label, line]) => ({
    label, x: data.steps[line.x],
    ...Object.fromEntries(["y", "low", "high"].filter((k) => line[k]).map((k) => [k, line[k].map(change)])),
  }));
}

function scaleOf(lines, metric, SIZE) {
  const values = lines.flatMap((l) => [...l.y, ...(l.low || []), ...(l.high || [])]);
  let [low, high] = [Math.min(...values), Math.max(...values)];
  const isLog = isRatio(metric);
  if (metric === "normalised") [low, high] = [0, 1];
  if (isLog) [low, high] = [Math.min(low, 1) / 1.02, Math.max(high, 1) * 1.02];
  if (low === high) [low, high] = [low - 1, high + 1];
  const place = isLog ? Math.log : (v) => v;
  const y = (v) => SIZE.height - SIZE.bottom
    - ((place(v) - place(low)) / (place(high) - place(low))) * (SIZE.height - SIZE.top - SIZE.bottom);
  const first = Math.min(...lines.map((l) => l.x[0])), last = Math.max(...lines.map((l) => l.x[l.x.length - 1]));
  const width = SIZE.width - SIZE.left - SIZE.right;
  const x = (v) => SIZE.left + (last > first ? ((v - first) / (last - first)) * width : width / 2);
  const xBack = (px) => first + ((px - SIZE.left) / width) * (last - first);
  return { x, y, xBack, first, last, yTicks: isLog ? logTicks(low, high) : ticks(low, high, 4) };
}

function responseScale(points, SIZE) {
  const values = points.flatMap((p) => [p.y, p.low ?? p.y, p.high ?? p.y]);
  let [low, high] = [Math.min(...values), Math.max(...values)];
  if (low === high) [low, high] = [low - 1, high + 1];
  [low, high] = [low - 0.04 * (high - low), high + 0.04 * (high - low)];
  const y = (v) => SIZE.height - SIZE.bottom - ((v - low) / (high - low)) * (SIZE.height - SIZE.top - SIZE.bottom);
  const [first, last] = [Math.min(...points.map((p) => p.x)) / 1.2, Math.max(...points.map((p) => p.x)) * 1.2];
  const width = SIZE.width - SIZE.left - SIZE.right;
  const x = (v) => SIZE.left + (Math.log(v / first) / Math.log(last / first)) * width;
  const xBack = (px) => first * Math.exp(((px - SIZE.left) / width) * Math.log(last / first));
  return { x, y, xBack, yTicks: ticks(low, high, 4) };
}

function path(points) {
  return points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
}

class Chart {
  constructor(figure) {
    this.figure = figure;
    this.chart = data.charts[figure.dataset.chart];
    this.svg = element("svg", { class: "chart", tabindex: 0, role: "img" });
    this.tip = element("div", { class: "tip", hidden: "", role: "status" });
    figure.append(this.svg, this.tip);
    this.svg.addEventListener("pointermove", (event) => this.follow(event));
    this.svg.addEventListener("pointerdown", (event) => this.follow(event));
    // A lifted finger counts as leaving: keep showing what it pointed at until the next touch elsewhere.
    this.svg.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") this.hide(); });
    this.svg.addEventListener("blur", () => this.hide());
    this.svg.addEventListener("keydown", (event) => this.walk(event));
  }

  draw(metric, shown) {
    this.fit();
    if (this.chart.kind === "response") return this.drawResponse();
    this.metric = { task: metric, ratio: Object.keys(this.chart.lines)[0] }[this.chart.kind] ?? "normalised";
    this.lines = linesOf(this.chart, this.metric, shown).filter((l) => l.x.length);
    this.index = null;
    this.hide();
    this.svg.replaceChildren();
    const what = this.chart.kind === "profile" ? "share of runs above each score" : NAMES[this.metric];
    const help = "Arrow keys move along the curves.";
    this.svg.setAttribute("aria-label", `${this.chart.title}: ${what} of ${this.lines.map((l) => titles.get(l.label).title).join(", ")}. ${help}`);
    if (!this.lines.length) return;
    this.scale = scaleOf(this.lines, this.metric, this.size);
    this.drawAxes();
    for (const line of this.lines) this.drawLine(line);
    this.cursor = element("g", { hidden: "" });
    this.svg.append(this.cursor);
  }

  fit() {
    const width = this.svg.clientWidth || 320;
    this.size = { ...EDGE, width, height: heightFor(width) };
    this.svg.setAttribute("viewBox", `0 0 ${width} ${this.size.height}`);
    this.svg.setAttribute("height", this.size.height);
  }

  drawRows(yTicks) {
    const SIZE = this.size, { y } = this.scale, right = SIZE.width - SIZE.right;
    for (const t of yTicks) {
      this.svg.append(
        element("line", { class: "grid-line", x1: SIZE.left, x2: right, y1: y(t), y2: y(t) }),
        element("text", { x: SIZE.left - 5, y: y(t) + 3.5, "text-anchor": "end" }, words(t)),
      );
    }
  }

  drawAxes() {
    const SIZE = this.size;
    const { x, y, first, last, yTicks } = this.scale;
    const right = SIZE.width - SIZE.right, bottom = SIZE.height - SIZE.bottom;
    this.drawRows(yTicks);
    if (isRatio(this.metric)) this.svg.append(element("line", { class: "axis-line", x1: SIZE.left, x2: right, y1: y(1), y2: y(1) }));
    this.svg.append(element("line", { class: "axis-line", x1: SIZE.left, x2: right, y1: bottom, y2: bottom }));
    for (const t of ticks(first, last, 4)) {
      this.svg.append(element("text", { x: x(t), y: bottom + 13, "text-anchor": "middle" }, this.xWords(t)));
    }
    const label = this.chart.kind === "profile" ? "normalised score" : "environment steps";
    this.svg.append(element("text", { x: (SIZE.left + right) / 2, y: SIZE.height - 4, "text-anchor": "middle" }, label));
  }

  drawResponse() {
    const SIZE = { ...this.size, bottom: 76, height: this.size.height + 44 };
    this.size = SIZE;
    this.svg.setAttribute("viewBox", `0 0 ${SIZE.width} ${SIZE.height}`);
    this.svg.setAttribute("height", SIZE.height);
    this.hide();
    this.svg.replaceChildren();
    const all = Object.entries(this.chart.points).flatMap(([objective, points]) => points.map((p) => ({ objective, ...p })));
    this.points = all.sort((a, b) => a.x - b.x);
    const help = "Arrow keys move along the points.";
    this.svg.setAttribute("aria-label", `${this.chart.title}: return by trust region of ${[...objectives.values()].map((o) => o.title).join(", ")}. ${help}`);
    this.scale = responseScale(all, SIZE);
    const { x, y } = this.scale, right = SIZE.width - SIZE.right, bottom = SIZE.height - SIZE.bottom;
    this.drawRows(this.scale.yTicks);
    this.svg.append(element("line", { class: "axis-line", x1: SIZE.left, x2: right, y1: bottom, y2: bottom }));
    this.labelPoints(bottom);
    this.svg.append(element("text", { x: (SIZE.left + right) / 2, y: SIZE.height - 4, "text-anchor": "middle" }, "target ratios, by width"));
    for (const [objective, points] of Object.entries(this.chart.points)) {
      const colour = objectives.get(objective).colour;
      this.svg.append(element("path", { d: path(points.map((p) => [x(p.x), y(p.y)])), fill: "none", stroke: colour, "stroke-width": 1.5, "data-objective-line": objective }));
      for (const p of points) {
        if (p.low !== null) this.svg.append(element("line", { x1: x(p.x), x2: x(p.x), y1: y(p.low), y2: y(p.high), stroke: colour, "stroke-width": 1.5 }));
        this.svg.append(element("circle", { cx: x(p.x), cy: y(p.y), r: 3.2, fill: colour }));
      }
    }
    this.cursor = element("g", { hidden: "" });
    this.svg.append(this.cursor);
  }

  // The two target ratios at each width, if there is room.
  labelPoints(bottom) {
    let last = -Infinity;
    for (const p of this.points) {
      const at = this.scale.x(p.x);
      if (at - last < 13) continue;
      last = at;
      this.svg.append(element("text", { x: at, y: bottom + 10, "text-anchor": "end", transform: `rotate(-45 ${at} ${bottom + 10})` }, p.words.replace(" to ", "–")));
    }
  }

  drawLine(line) {
    const { x, y } = this.scale;
    const lineStyle = titles.get(line.label);
    if (line.low) {
      const there = line.x.map((v, i) => [x(v), y(line.high[i])]);
      const back = line.x.map((v, i) => [x(v), y(line.low[i])]).reverse();
      this.svg.append(element("path", { d: path([...there, ...back]) + "Z", fill: lineStyle.colour, opacity: 0.18, stroke: "none" }));
    }
    const d = path(line.x.map((v, i) => [x(v), y(line.y[i])]));
    this.svg.append(element("path", {
      d, fill: "none", stroke: lineStyle.colour, "stroke-width": 1.8, "stroke-dasharray": lineStyle.dash, "stroke-linejoin": "round",
      "data-algorithm-line": line.label,
    }));
  }

  xWords(value) { return this.chart.kind === "profile" ? words(value) : steps(value); }

  // Possible positions of the cursor.
  places() {
    if (this.points) return [...new Set(this.points.map((p) => p.x))];
    return this.lines.length ? this.lines[0].x : [];
  }

  follow(event) {
    if (!this.places().length) return;
    const box = this.svg.getBoundingClientRect();
    const at = this.scale.xBack(((event.clientX - box.left) / box.width) * this.size.width);
    this.show(nearest(this.places(), at));
  }

  walk(event) {
    const last = this.places().length - 1;
    if (last < 0) return;
    const now = this.index;
    const moves = { ArrowRight: now === null ? 0 : now + 1, ArrowLeft: now === null ? last : now - 1, Home: 0, End: last };
    if (event.key === "Escape") this.hide();
    if (!(event.key in moves)) return;
    event.preventDefault();
    this.show(Math.min(last, Math.max(0, moves[event.key])));
  }

  show(index) {
    this.index = index;
    const at = this.places()[index];
    const SIZE = this.size, { x, y } = this.scale;
    this.cursor.replaceChildren(element("line", { class: "cursor", x1: x(at), x2: x(at), y1: SIZE.top, y2: SIZE.height - SIZE.bottom }));
    const found = this.points
      ? this.points.filter((p) => p.x === at).map((p) => [objectives.get(p.objective), p.x, p.y, p.low, p.high])
      : this.lines.map((line) => {
        const i = nearest(line.x, at);
        return [titles.get(line.label), line.x[i], line.y[i], line.low ? line.low[i] : null, line.high ? line.high[i] : null];
      });
    const rows = found.map(([lineStyle, place, value, low, high]) => {
      this.cursor.append(element("circle", { cx: x(place), cy: y(value), r: this.points ? 5 : 3, fill: lineStyle.colour }));
      const interval = low !== null ? ` (${words(low)}, ${words(high)})` : "";
      return element("div", {}, swatch(lineStyle), element("span", {}, `${lineStyle.title} `, element("b", {}, words(value)), interval));
    });
    const head = this.points
      ? `${this.points.find((p) => p.x === at).words}, width ${words(at)}`
      : this.chart.kind === "profile" ? `score above ${words(at)}` : `${steps(at)} steps`;
    this.tip.replaceChildren(element("div", {}, head), ...rows);
    this.cursor.removeAttribute("hidden");
    this.tip.hidden = false;
    // Below the curves, but always inside the window.
    const box = this.figure.getBoundingClientRect();
    const room = document.documentElement.clientWidth - box.left - this.tip.offsetWidth - 8;
    const wanted = (x(at) / SIZE.width) * box.width - this.tip.offsetWidth / 2;
    this.tip.style.left = `${Math.max(8 - box.left, Math.min(room, wanted))}px`;
  }

  hide() {
    this.tip.hidden = true;
    this.index = null;
    if (this.cursor) this.cursor.setAttribute("hidden", "");
  }
}

function swatch(lineStyle) {
  const svg = element("svg", { class: "swatch", viewBox: "0 0 30 8", "aria-hidden": "true" });
  svg.append(element("line", { x1: 0, x2: 30, y1: 4, y2: 4, stroke: lineStyle.colour, "stroke-width": 3, "stroke-dasharray": lineStyle.dash }));
  return svg;
}

// ----------------------------------------------------------------------------------------------------------- filters

const form = document.getElementById("filters");
const charts = [...document.querySelectorAll("figure[data-chart]")].map((figure) => new Chart(figure));
const metric = document.getElementById("metric");

function checked(name) {
  return new Set([...form.querySelectorAll(`input[name=${name}]:checked`)].map((box) => box.value));
}

function apply() {
  const suites = checked("suite"), algorithms = checked("algorithm");
  for (const item of document.querySelectorAll("main [data-suite], main [data-algorithm]")) {
    const { suite, algorithm } = item.dataset;
    item.hidden = (suite !== undefined && !suites.has(suite)) || (algorithm !== undefined && !algorithms.has(algorithm));
  }
  for (const chart of charts) chart.draw(metric ? metric.value : "normalised", algorithms);
  const all = (name) => form.querySelectorAll(`input[name=${name}]`).length;
  document.getElementById("status").textContent =
    `Showing ${suites.size} of ${all("suite")} suites and ${algorithms.size} of ${all("algorithm")} algorithms.`;
}

for (const slot of form.querySelectorAll("[data-swatch]")) slot.replaceWith(swatch(titles.get(slot.dataset.swatch)));
form.addEventListener("change", apply);
form.addEventListener("submit", (event) => event.preventDefault());
for (const button of form.querySelectorAll("button[data-all]")) {
  button.addEventListener("click", () => {
    const boxes = [...form.querySelectorAll(`input[name=${button.dataset.all}]`)];
    const isOn = !boxes.every((box) => box.checked);
    for (const box of boxes) box.checked = isOn;
    apply();
  });
}
if (metric) metric.addEventListener("change", apply);
const legend = document.getElementById("objectives");
if (legend) {
  for (const lineStyle of objectives.values()) legend.append(element("span", {}, swatch(lineStyle), lineStyle.title));
}
// Redraw everything once the window has stopped resizing.
let drawnFor = window.innerWidth, later = null;
window.addEventListener("resize", () => {
  if (window.innerWidth === drawnFor) return;
  drawnFor = window.innerWidth;
  clearTimeout(later);
  later = setTimeout(apply, 100);
});

// ----------------------------------------------------------------------------------------------------------- sorting

function sortBy(head) {
  const table = head.closest("table"), body = table.tBodies[0];
  const column = head.cellIndex;
  const isDescending = head.getAttribute("aria-sort") === "ascending"
    || (head.getAttribute("aria-sort") === null && head.dataset.first === "descending");
  const key = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent;
  const compare = (a, b) => {
    const [one, other] = [key(a), key(b)];
    if (one === "" || other === "") return (one === "") - (other === "");  // missing values come last
    const order = isNaN(one) || isNaN(other) ? one.localeCompare(other, "en", { numeric: true }) : one - other;
    return isDescending ? -order : order;
  };
  body.append(...[...body.rows].filter((row) => !row.classList.contains("total")).sort(compare),
    ...[...body.rows].filter((row) => row.classList.contains("total")));
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", isDescending ? "descending" : "ascending");
}

for (const button of document.querySelectorAll("th button")) {
  button.addEventListener("click", () => sortBy(button.closest("th")));
}

apply();
