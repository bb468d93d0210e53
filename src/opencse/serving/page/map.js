// Draws the texts of an index in two dimensions on a canvas; shows the text under the pointer or the arrow keys.

import { ask } from "./api.js";
import { at, counted, make, report } from "./dom.js";
import { found } from "./search.js";

const REACH = 28;
let models = [];
let drawn = null;
let chosen = -1;
let running = null;

export function startMap(served) {
  models = served.filter((model) => model.index !== null);
  if (models.length === 0) {
    report(at("map-status"), "The map shows the texts of an index, and this server has none; the search page shows how to build one.");
    return;
  }
  at("map-bar").hidden = false;
  at("map-of").hidden = models.length < 2;
  at("map-model").append(...models.map((model) => make("option", { value: model.id }, model.id)));
  at("map-model").addEventListener("change", load);
  for (const radio of document.getElementsByName("method")) radio.addEventListener("change", load);
  const canvas = at("canvas");
  canvas.addEventListener("pointermove", (event) => choose(nearest(event)));
  canvas.addEventListener("pointerdown", (event) => choose(nearest(event)));
  canvas.addEventListener("pointerleave", () => choose(-1));
  canvas.addEventListener("blur", () => choose(-1));
  canvas.addEventListener("keydown", move);
  new ResizeObserver(() => paint()).observe(canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => paint());
}

export function showMap() {
  if (models.length === 0) return;
  if (drawn === null) load();
  else paint();
}

async function load() {
  running?.abort();
  running = new AbortController();
  const { signal } = running;
  const method = document.querySelector("input[name=method]:checked").value;
  const model = at("map-model").value;
  at("map-figure").setAttribute("aria-busy", "true");
  report(at("map-status"), method === "tsne" ? "Computing the neighbourhoods; the first time takes a while." : "Drawing the map.");
  try {
    const answer = await ask(`map?method=${method}&model=${encodeURIComponent(model)}`, null, signal);
    if (signal.aborted) return;
    drawn = { ...answer, model };
    chosen = -1;
    at("map-figure").hidden = answer.points.length === 0;
    at("map-figure").removeAttribute("aria-busy");
    const all = answer.points.length === answer.rows;
    const shown = all ? counted(answer.rows, "text") : `${answer.points.length.toLocaleString("en")} of ${counted(answer.rows, "text")}`;
    report(at("map-status"), answer.rows === 0 ? "The index holds no texts yet." : shown);
    at("canvas").setAttribute("aria-label", `Map of ${shown}`);
    paint();
  } catch (error) {
    if (error.name === "AbortError") return;
    at("map-figure").hidden = true;
    report(at("map-status"), error.message, true);
  }
}

function place(point) {
  const { clientWidth: width, clientHeight: height } = at("canvas");
  const edge = 22;
  return [width / 2 + point.x * (width / 2 - edge), height / 2 - point.y * (height / 2 - edge)];
}

function paint() {
  const canvas = at("canvas");
  if (drawn === null || canvas.clientWidth === 0) return;
  const scale = devicePixelRatio || 1;
  canvas.width = Math.round(canvas.clientWidth * scale);
  canvas.height = Math.round(canvas.clientHeight * scale);
  const pen = canvas.getContext("2d");
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  const styles = getComputedStyle(document.documentElement);
  const colour = (name) => styles.getPropertyValue(`--${name}`).trim();
  const hits = found.get(drawn.model) ?? new Set();
  const dot = (point, radius) => {
    const [x, y] = place(point);
    pen.beginPath();
    pen.arc(x, y, radius, 0, 2 * Math.PI);
  };
  const radius = Math.max(2, Math.min(4.5, 90 / Math.sqrt(drawn.points.length)));
  pen.fillStyle = colour("accent");
  pen.globalAlpha = 0.55;
  for (const point of drawn.points) {
    if (hits.has(point.id)) continue;
    dot(point, radius);
    pen.fill();
  }
  pen.globalAlpha = 1;
  pen.fillStyle = colour("second");
  for (const point of drawn.points) {
    if (!hits.has(point.id)) continue;
    dot(point, radius + 1.5);
    pen.fill();
  }
  at("map-help").textContent = `Texts that the model considers similar are close together. Point at one, or use the arrow keys.${
    drawn.points.some((point) => hits.has(point.id)) ? " Orange: the results of your last search." : ""
  }`;
  if (chosen >= 0) {
    pen.strokeStyle = colour("ink");
    pen.lineWidth = 2;
    dot(drawn.points[chosen], radius + 4);
    pen.stroke();
  }
}

function nearest(event) {
  if (drawn === null) return -1;
  const box = at("canvas").getBoundingClientRect();
  const [x, y] = [event.clientX - box.left, event.clientY - box.top];
  let [best, least] = [-1, REACH ** 2];
  drawn.points.forEach((point, i) => {
    const [px, py] = place(point);
    const away = (px - x) ** 2 + (py - y) ** 2;
    if (away < least) [best, least] = [i, away];
  });
  return best;
}

function choose(i) {
  if (i === chosen || drawn === null) return;
  chosen = i;
  const tip = at("tip");
  tip.hidden = i < 0;
  if (i >= 0) {
    const point = drawn.points[i];
    const [x, y] = place(point);
    const { clientWidth: width } = at("canvas");
    tip.textContent = point.text;
    tip.style.left = "0px";
    tip.style.top = "0px";
    const { offsetWidth: wide, offsetHeight: high } = tip;
    tip.style.left = `${Math.max(4, Math.min(width - wide - 4, x - wide / 2))}px`;
    tip.style.top = `${y - high - 14 < 0 ? y + 14 : y - high - 14}px`;
  }
  paint();
}

function move(event) {
  const ways = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  if (event.key === "Escape") choose(-1);
  if (!(event.key in ways) || drawn === null || drawn.points.length === 0) return;
  event.preventDefault();
  const [dx, dy] = ways[event.key];
  const { clientWidth, clientHeight } = at("canvas");
  const [x, y] = chosen < 0 ? [clientWidth / 2, clientHeight / 2] : place(drawn.points[chosen]);
  let [best, least] = [-1, Infinity];
  drawn.points.forEach((point, i) => {
    const [px, py] = place(point);
    const along = (px - x) * dx + (py - y) * dy;
    const aside = Math.abs((px - x) * dy) + Math.abs((py - y) * dx);
    if (i === chosen || (chosen >= 0 && (along <= 0.5 || aside > 2 * along))) return;
    const away = chosen < 0 ? Math.hypot(px - x, py - y) : along + 2 * aside;
    if (away < least) [best, least] = [i, away];
  });
  if (best < 0) return;
  choose(best);
  at("map-at").textContent = drawn.points[best].text;
}
