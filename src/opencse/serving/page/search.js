// Search as you type, by every model that has an index, side by side.

import { ask } from "./api.js";
import { at, counted, later, make, tell } from "./dom.js";

let models = [];
let running = null;
export const found = new Map(); // by model, the ids of the last search

export function startSearch(served, examples) {
  models = served.filter((model) => model.index !== null);
  if (models.length === 0) {
    at("results").replaceChildren(noIndex(served[0].id));
    return;
  }
  at("search-form").hidden = false;
  const columns = [...new Set(models.flatMap((model) => model.index.columns))];
  at("filter-column").hidden = columns.length === 0;
  at("column").append(...columns.map((name) => make("option", { value: name }, name)));
  invite(examples);

  const soon = later(140, () => search(examples));
  at("search-form").addEventListener("submit", (event) => {
    event.preventDefault();
    search(examples);
  });
  for (const id of ["query", "k", "threshold", "value"]) at(id).addEventListener("input", soon);
  for (const id of ["hybrid", "column"]) at(id).addEventListener("change", soon);
  at("column").addEventListener("change", () => {
    at("filter-value").hidden = at("column").value === "";
  });
}

function noIndex(model) {
  return make(
    "div",
    { className: "state" },
    make("h2", {}, "No index is served yet"),
    make("p", {}, "Build one from a file of texts, a line each, and start the server with it:"),
    make("pre", { tabIndex: 0 }, `opencse index build texts.txt --model ${model} --out my-index\nopencse serve ${model} --index my-index`),
    make("p", { className: "muted" }, "Similarity works without one."),
  );
}

function invite(examples) {
  const button = (text) => {
    const made = make("button", { type: "button" }, text);
    made.addEventListener("click", () => {
      at("query").value = text;
      at("query").focus();
      search(examples);
    });
    return make("li", {}, made);
  };
  at("results").replaceChildren(
    make(
      "div",
      { className: "state" },
      make("p", {}, "Type a sentence; what means the same comes up as you type. Or start from one of the texts:"),
      make("ul", { className: "examples" }, ...examples.map(button)),
    ),
  );
}

function asked() {
  const k = at("k").value === "" ? 10 : at("k").valueAsNumber;
  const body = { query: at("query").value.trim(), k: Math.max(1, Math.min(100, Math.round(k) || 10)), hybrid: at("hybrid").checked };
  if (at("threshold").value !== "") body.threshold = at("threshold").valueAsNumber;
  const column = at("column").value;
  if (column !== "" && at("value").value !== "") {
    const value = at("value").value.trim();
    const number = Number(value);
    body.where = { [column]: value !== "" && Number.isFinite(number) ? [value, number] : value };
  }
  const set = [body.threshold !== undefined, body.where !== undefined, body.hybrid].filter(Boolean).length;
  at("options-told").textContent = set === 0 ? "" : `· ${set} set`;
  return body;
}

async function search(examples) {
  running?.abort();
  const body = asked();
  if (body.query === "") {
    running = null;
    found.clear();
    tell(at("search-told"), "");
    at("results").removeAttribute("aria-busy");
    invite(examples);
    return;
  }
  running = new AbortController();
  const { signal } = running;
  const started = performance.now();
  at("results").setAttribute("aria-busy", "true");
  try {
    const answers = await Promise.all(models.map((model) => ask("search", { ...body, model: model.id }, signal)));
    if (signal.aborted) return;
    const lists = answers.map((answer) => answer.data[0].hits);
    show(lists, body.hybrid);
    const most = Math.max(...lists.map((hits) => hits.length));
    const cut = answers.some((answer) => answer.truncated.length > 0) ? "; the query was cut to what the model reads" : "";
    const time = `${Math.max(1, Math.round(performance.now() - started))} ms`;
    tell(at("search-told"), most === 0 ? `No text fits${body.threshold === undefined ? "" : "; try a lower score"}${cut}` : `${counted(most, "result")} in ${time}${cut}`);
  } catch (error) {
    if (error.name === "AbortError") return;
    at("results").replaceChildren();
    tell(at("search-told"), error.message, true);
  } finally {
    if (!signal.aborted) at("results").removeAttribute("aria-busy");
  }
}

function show(lists, hybrid) {
  const side = models.length > 1;
  const ids = lists.map((hits) => new Set(hits.map((hit) => hit.id)));
  models.forEach((model, i) => found.set(model.id, ids[i]));
  const best = Math.max(...lists.flat().map((hit) => hit.score), 1e-9);
  const columns = lists.map((hits, i) => {
    const alone = (hit) => side && !ids.some((others, j) => j !== i && others.has(hit.id));
    const list = make("ol", { className: "hits" }, ...hits.map((hit) => row(hit, alone(hit), hybrid ? hit.score / best : hit.score)));
    return make("div", { className: "column" }, side ? make("h2", {}, models[i].id) : null, list);
  });
  at("results").replaceChildren(...columns);
}

function row(hit, alone, share) {
  const bar = make("i");
  bar.style.width = `${Math.round(100 * Math.max(0, Math.min(1, share)))}%`;
  const facts = Object.entries(hit.metadata).filter(([, value]) => value !== null);
  const about = facts.map(([name, value]) => make("span", {}, `${name}: ${value}`));
  if (alone) about.unshift(make("span", { className: "alone" }, "only here"));
  const item = make(
    "li",
    {},
    make("div", { className: "score" }, hit.score.toFixed(3), make("div", { className: "track", "aria-hidden": "true" }, bar)),
    make("div", { className: "text", dir: "auto" }, hit.text),
    about.length === 0 ? null : make("div", { className: "about" }, ...about),
  );
  item.dataset.id = hit.id;
  item.addEventListener("mouseenter", () => pair(hit.id, true));
  item.addEventListener("mouseleave", () => pair(hit.id, false));
  return item;
}

function pair(id, on) {
  if (models.length < 2) return;
  for (const item of at("results").querySelectorAll("li")) item.classList.toggle("twin", on && item.dataset.id === id);
}
