// The similarity of every sentence with every other, by each model.

import { ask } from "./api.js";
import { at, counted, later, make, report } from "./dom.js";

const MOST = 40;
const BEGIN = ["A man is playing the guitar.", "Someone plays music on a guitar.", "A man is playing football.", "The weather is lovely today."];
let models = [];
let running = null;
let begun = false;

export function startSimilarity(served) {
  models = served;
  at("sentences").value = BEGIN.join("\n");
  at("sentences").addEventListener("input", later(250, compare));
}

export function showSimilarity() {
  if (!begun) compare();
  begun = true;
}

async function compare() {
  running?.abort();
  const lines = at("sentences").value.split("\n").map((line) => line.trim()).filter((line) => line !== "");
  if (lines.length < 2) {
    at("matrices").replaceChildren();
    at("matrices").removeAttribute("aria-busy");
    report(at("similarity-status"), lines.length === 0 ? "Write or paste at least two sentences, one per line." : "Add one more sentence to compare.");
    return;
  }
  running = new AbortController();
  const { signal } = running;
  const texts = lines.slice(0, MOST);
  at("matrices").setAttribute("aria-busy", "true");
  try {
    const answers = await Promise.all(models.map((model) => ask("similarity", { texts, model: model.id }, signal)));
    if (signal.aborted) return;
    at("matrices").replaceChildren(...answers.map((answer, i) => column(models[i].id, texts, answer.matrix)));
    const left = lines.length > MOST ? `; the first ${MOST} of ${lines.length} are compared` : "";
    report(at("similarity-status"), `${counted(texts.length, "sentence")}; 1 is the same, 0 unrelated${left}`);
  } catch (error) {
    if (error.name === "AbortError") return;
    at("matrices").replaceChildren();
    report(at("similarity-status"), error.message, true);
  } finally {
    if (!signal.aborted) at("matrices").removeAttribute("aria-busy");
  }
}

function column(name, texts, matrix) {
  const head = make("tr", {}, make("td", { className: "self" }), ...texts.map((text, i) => make("th", { scope: "col", title: text }, `${i + 1}`)));
  const rows = texts.map((text, i) =>
    make("tr", {}, make("th", { scope: "row", title: text }, make("span", { dir: "auto" }, `${i + 1}  ${text}`)), ...matrix[i].map((value, j) => cell(value, i === j))),
  );
  const table = make("table", { className: "matrix" }, make("caption", { className: "hidden" }, `Similarity by ${name}`), make("thead", {}, head), make("tbody", {}, ...rows));
  return make("div", { className: "column" }, models.length > 1 ? make("h2", {}, name) : null, make("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": `Similarity by ${name}` }, table));
}

function cell(value, self) {
  const made = make("td", { className: self ? "self" : "" }, value.toFixed(2).replace("-0.00", "0.00"));
  if (!self) made.style.setProperty("--share", Math.max(0, Math.min(1, value)).toFixed(3));
  return made;
}
