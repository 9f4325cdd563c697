"use strict";
// All data is in the page: {updates, cells: [{name, kind, looks: [null | {steps, norms, …}]}], norms, …}.
// norms are log10, thinned to at most 200 columns; null is an error that is not finite, ZERO one that is exactly 0.
const data = JSON.parse(document.getElementById("data").textContent);
const ZERO = -999, DARKEST = -6;
const RAMP = [[247, 246, 250], [218, 216, 235], [158, 154, 200], [117, 92, 172], [63, 0, 125]];
const BAD = [215, 48, 31], ABSENT = [233, 233, 233], NOTHING = [255, 255, 255];
const state = {look: data.updates.length - 1, cell: 0, scale: "row", step: null};
const $ = id => document.getElementById(id);

function colour(value, largest) {
  if (value === null) return BAD;
  if (value === ZERO) return NOTHING;
  const share = Math.min(1, Math.max(0, 1 - (value - largest) / DARKEST)) * (RAMP.length - 1);
  const low = Math.min(RAMP.length - 2, Math.floor(share));
  return RAMP[low].map((part, i) => Math.round(part + (share - low) * (RAMP[low + 1][i] - part)));
}
function largestOf(rows) {
  let most = -Infinity;
  for (const row of rows) if (row) for (const value of row.norms) if (value !== null && value !== ZERO) most = Math.max(most, value);
  return most;
}
const whole = largestOf(data.cells.flatMap(cell => cell.looks));
const scaleOf = row => state.scale === "row" ? largestOf([row]) : whole;

function paint(canvas, rows, width) {
  canvas.width = width; canvas.height = rows.length;
  const context = canvas.getContext("2d"), image = context.createImageData(width, rows.length);
  rows.forEach((row, y) => {
    const largest = row ? scaleOf(row) : 0;
    for (let x = 0; x < width; x++) {
      const rgb = row && x < row.norms.length ? colour(row.norms[x], largest) : ABSENT;
      image.data.set([...rgb, 255], 4 * (y * width + x));
    }
  });
  context.putImageData(image, 0, 0);
}
function number(value) {
  if (value === null || value === undefined) return "not finite";
  if (typeof value === "string") return value;
  if (value === 0) return "0";
  const size = Math.abs(value);
  return size >= 1e4 || size < 1e-2 ? value.toExponential(1) : String(Number(value.toPrecision(3)));
}
const fromLog = value => value === null ? "not finite" : value === ZERO ? "0" : number(10 ** value);
const element = (name, attributes = {}, text = "") => {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.textContent = text;
  return made;
};

// ------------------------------------------------------------------------------------------------ the two heat maps
const strips = data.cells.map((cell, index) => {
  const row = element("div", {class: "row"});
  const label = element("button", {type: "button", title: cell.name}, `${cell.name} · ${cell.kind}`);
  const canvas = element("canvas", {tabindex: "0", role: "img", "data-cell": index});
  label.addEventListener("click", () => select({cell: index}));
  onPoint(canvas, (x, y, look) => select({cell: index, step: Math.floor(x * widthOf(look))}), () => data.cells[index].looks[state.look]);
  row.append(label, canvas);
  $("layers").append(row);
  return {label, canvas};
});
onPoint($("history"), (x, y, look) => {
  const at = Math.min(data.updates.length - 1, Math.floor(y * data.updates.length));
  const row = data.cells[state.cell].looks[at];
  select({look: at, step: row ? Math.floor(x * historyWidth()) : null});
}, () => true);

function widthOf(look) { return look ? look.norms.length : 1; }
function historyWidth() { return Math.max(1, ...data.cells[state.cell].looks.map(widthOf)); }
function onPoint(canvas, act, look) {
  canvas.addEventListener("click", event => {
    const box = canvas.getBoundingClientRect();
    const x = Math.min(.9999, Math.max(0, (event.clientX - box.left) / box.width));
    const y = Math.min(.9999, Math.max(0, (event.clientY - box.top) / box.height));
    act(x, y, look());
  });
  canvas.addEventListener("keydown", event => {
    const move = {ArrowLeft: -1, ArrowRight: 1}[event.key];
    if (move) { event.preventDefault(); select({step: Math.max(0, (state.step ?? 0) + move)}); }
  });
}

// ------------------------------------------------------------------------------------------------ curves, as SVG
function curve(target, series, options) {
  // As wide as the page has room for, so that letters keep their size on a phone and on a wide screen.
  const W = Math.max(280, Math.round(target.clientWidth)), H = 240, left = 58, right = 12, top = 12, bottom = 34;
  const points = series.flatMap(each => each.points.filter(([, y]) => Number.isFinite(y)));
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", `0 0 ${W} ${H}`); svg.setAttribute("role", "img"); svg.setAttribute("aria-label", options.label);
  const add = (name, attributes, text) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    svg.append(made);
  };
  target.replaceChildren(svg);
  if (!points.length) { add("text", {x: W / 2, y: H / 2, "text-anchor": "middle"}, "no finite number at this update"); return; }
  let low = Math.floor(Math.min(...points.map(p => p[1])) * 2) / 2, high = Math.ceil(Math.max(...points.map(p => p[1])) * 2) / 2;
  if (high - low < 1) { low -= .5; high += .5; }
  const first = Math.min(...points.map(p => p[0])), last = Math.max(...points.map(p => p[0]), first + 1);
  const X = x => left + (x - first) / (last - first) * (W - left - right);
  const Y = y => top + (high - y) / (high - low) * (H - top - bottom);
  const tick = Math.max(1, Math.ceil((high - low) / 6)), ticks = [];
  for (let y = Math.floor(low); y <= high; y += tick) for (const part of high - low <= 2.5 ? [1, 2, 5] : [1]) ticks.push(y + Math.log10(part));
  for (const y of ticks.filter(y => y >= low && y <= high)) {
    add("line", {x1: left, x2: W - right, y1: Y(y), y2: Y(y), stroke: "#e4e4ea"});
    add("text", {x: left - 8, y: Y(y) + 4, "text-anchor": "end"}, Math.abs(y) < 4 ? String(Number((10 ** y).toPrecision(2))) : `1e${Math.round(y)}`);
  }
  add("text", {x: left, y: H - 10}, `${options.x} ${first}`);
  add("text", {x: W - right, y: H - 10, "text-anchor": "end"}, String(last));
  for (const each of series) {
    let path = "", pen = "M";
    for (const [x, y] of each.points) {
      if (Number.isFinite(y)) { path += `${pen}${X(x).toFixed(1)} ${Y(y).toFixed(1)}`; pen = "L"; } else pen = "M";
    }
    add("path", {d: path, fill: "none", stroke: each.colour, "stroke-width": each.width || 2, "stroke-dasharray": each.dash || "none"});
    if (each.points.length < 3) for (const [x, y] of each.points) if (Number.isFinite(y)) add("circle", {cx: X(x), cy: Y(y), r: 3, fill: each.colour});
  }
  if (options.mark !== null && options.mark >= first && options.mark <= last) {
    add("line", {x1: X(options.mark), x2: X(options.mark), y1: top, y2: H - bottom, stroke: "#1b1b1f", "stroke-dasharray": "2 3"});
  }
}
const log = value => typeof value === "number" && value > 0 ? Math.log10(value) : NaN;

// ------------------------------------------------------------------------------------------------ what follows the slider
function stepOf(look, column) { return Math.round(column * look.steps / look.norms.length); }
function show() {
  const update = data.updates[state.look], cell = data.cells[state.cell], look = cell.looks[state.look];
  $("slider").value = state.look;
  $("slider").setAttribute("aria-valuetext", `update ${update}`);
  $("where").textContent = `update ${update} (${state.look + 1} of ${data.updates.length} looks)`;
  strips.forEach(({label, canvas}, index) => {
    const own = data.cells[index].looks[state.look];
    label.setAttribute("aria-pressed", String(index === state.cell));
    paint(canvas, [own], widthOf(own));
    canvas.setAttribute("aria-label", own ? `${data.cells[index].name}: horizon ${own.horizon} of ${own.room} steps` : "not seen");
  });
  $("history-of").textContent = cell.name;
  paint($("history"), cell.looks, historyWidth());
  $("history").style.height = `${Math.min(420, Math.max(60, data.updates.length * 14))}px`;
  $("mark").style.top = `${100 * (state.look + .5) / data.updates.length}%`;
  const steps = look ? look.steps : 0;
  for (const id of ["last-step", "last-step-2"]) $(id).textContent = `step ${Math.max(0, steps - 1)}`;
  if (look && state.step !== null) state.step = Math.min(state.step, look.norms.length - 1);
  readout(cell, look, update);
  const points = look ? look.norms.map((y, x) => [stepOf(look, x), y === ZERO ? NaN : y ?? NaN]) : [];
  curve($("curve"), [{points, colour: "#54278f"}],
    {x: "step", label: `error of every step of ${cell.name}`, mark: look && state.step !== null ? stepOf(look, state.step) : null});
  const at = (values, i) => [data.updates[i], log(values[i])];
  const series = [{points: data.updates.map((_, i) => at(data.norms, i)), colour: "#54278f"}];
  if (data.used.some(value => value !== null)) series.push({points: data.updates.map((_, i) => at(data.used, i)), colour: "#e08214", width: 1.6});
  if (data.thresholds.some(value => value !== null)) series.push({points: data.updates.map((_, i) => at(data.thresholds, i)), colour: "#c2281d", dash: "6 4", width: 1.6});
  curve($("norms"), series, {x: "update", label: "norm of the gradient", mark: update});
  tables(update);
}
function readout(cell, look, update) {
  const text = !look ? `${cell.name} was not seen at update ${update}.`
    : state.step === null ? `${cell.name}, update ${update}: horizon ${look.horizon} of ${look.room} steps. Click a map to read a step.`
    : `${cell.name}, update ${update}, step ${stepOf(look, state.step)}: error ${fromLog(look.norms[state.step])}` +
      (typeof look.norms[state.step] === "number" && look.norms[state.step] !== ZERO ? `, ${number(10 ** (look.norms[state.step] - largestOf([look])))} of the largest of this row.` : ".");
  $("readout").textContent = text;
}
function tables(update) {
  const body = data.cells.flatMap(cell => {
    const look = cell.looks[state.look];
    if (!look) return [];
    const row = element("tr");
    const gates = Object.entries(look.gates).map(([name, mean]) => `${name} ${number(mean)}`).join(", ");
    for (const text of [cell.name, cell.kind, look.steps, look.room ? `${look.horizon} of ${look.room}` : "–", number(look.growth), cell.rho, cell.sigma, gates, look.saturated, look.fault])
      row.append(element("td", {}, text === null || text === undefined ? "" : String(text)));
    return [row];
  });
  $("cells").replaceChildren(...body);
  const gradients = Object.entries(data.gradients[state.look]);
  const most = Math.max(...gradients.map(([, norm]) => log(norm)).filter(Number.isFinite), -300);
  $("parameters").replaceChildren(...gradients.map(([name, norm]) => {
    const row = element("tr"), bar = element("td"), size = Number.isFinite(log(norm)) ? Math.max(0, 1 + (log(norm) - most) / 6) : 0;
    bar.append(element("span", {class: "bar", style: `width:${(8 * size).toFixed(2)}rem`}));
    row.append(element("td", {}, name), element("td", {}, norm === null ? "none" : number(norm)), bar);
    return row;
  }));
  $("at-update").textContent = `update ${update}`;
}
function select(change) { Object.assign(state, change); show(); }

$("slider").max = data.updates.length - 1;
$("slider").addEventListener("input", () => select({look: Number($("slider").value)}));
$("scale").addEventListener("change", () => select({scale: $("scale").value}));
let timer = null;
$("play").addEventListener("click", () => {
  if (timer !== null) { clearInterval(timer); timer = null; $("play").textContent = "Play"; return; }
  $("play").textContent = "Stop";
  if (state.look === data.updates.length - 1) select({look: 0});
  timer = setInterval(() => {
    if (state.look < data.updates.length - 1) select({look: state.look + 1});
    else $("play").click();
  }, 250);
});
if (data.updates.length) {
  show();
  window.addEventListener("resize", show);
}
