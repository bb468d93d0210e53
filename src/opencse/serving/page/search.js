// Search as you type, by every model that has an index, side by side.

import { ask } from "./api.js";
import { at, counted, later, make, quoted, report } from "./dom.js";

let models = [];
let running = null;
let reranks = false; // whether the server has a cross-encoder
export const found = new Map(); // by model, the ids of the last search

export function startSearch(served, examples, reranker) {
  models = served.filter((model) => model.index !== null);
  if (models.length === 0) {
    at("results").replaceChildren(noIndex(served[0].id));
    return;
  }
  at("search-form").hidden = false;
  const columns = [...new Set(models.flatMap((model) => model.index.columns))];
  at("filter-column").hidden = columns.length === 0;
  reranks = reranker !== null;
  at("rerank-choice").hidden = !reranks;
  if (reranks) {
    at("rerank-choice").title = `The first ${reranker.depth} results, by ${reranker.id}`;
    for (const bound of ["min", "max"]) at("threshold").removeAttribute(bound); // its scores may be any numbers
    at("threshold").step = "any";
  }
  at("column").append(...columns.map((name) => make("option", { value: name }, name)));
  invite(examples);

  const soon = later(140, () => search(examples));
  at("search-form").addEventListener("submit", (event) => {
    event.preventDefault();
    search(examples);
  });
  for (const id of ["query", "k", "threshold", "value"]) at(id).addEventListener("input", soon);
  for (const id of ["hybrid", "rerank", "column"]) at(id).addEventListener("change", soon);
  at("column").addEventListener("change", () => {
    at("filter-value").hidden = at("column").value === "";
  });
}

function noIndex(model) {
  return make(
    "div",
    { className: "state" },
    make("h2", {}, "This server has no index yet"),
    make("p", {}, "Build one from a file with one text per line, and start the server with it:"),
    make("pre", { tabIndex: 0 }, `opencse index build my-index ${quoted(model)} texts.txt\nopencse serve ${quoted(model)} --index my-index`),
    make("p", { className: "muted" }, "Similarity works without an index."),
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
      make("p", {}, "Texts with a similar meaning appear as you type. Or start with one of these:"),
      make("ul", { className: "examples" }, ...examples.map(button)),
    ),
  );
}

function asked() {
  const k = at("k").value === "" ? 10 : at("k").valueAsNumber;
  const body = { query: at("query").value.trim(), k: Math.max(1, Math.min(100, Math.round(k) || 10)), hybrid: at("hybrid").checked };
  if (reranks) body.rerank = at("rerank").checked;
  at("threshold").disabled = body.hybrid && !body.rerank; // merged scores compare the results of one query only
  if (!at("threshold").disabled && at("threshold").value !== "") body.threshold = at("threshold").valueAsNumber;
  const column = at("column").value;
  if (column !== "" && at("value").value !== "") {
    const value = at("value").value.trim();
    const number = Number(value);
    body.where = { [column]: value !== "" && Number.isFinite(number) ? [value, number] : value };
  }
  const set = [body.threshold !== undefined, body.where !== undefined, body.hybrid, body.rerank === false].filter(Boolean).length;
  at("options-status").textContent = set === 0 ? "" : `· ${set} set`;
  return body;
}

async function search(examples) {
  running?.abort();
  const body = asked();
  if (body.query === "") {
    running = null;
    found.clear();
    report(at("search-status"), "");
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
    show(lists, body);
    const most = Math.max(...lists.map((hits) => hits.length));
    const cut = answers.some((answer) => answer.truncated.length > 0) ? "; the query was truncated to what the model reads" : "";
    const time = `${Math.max(1, Math.round(performance.now() - started))} ms`;
    report(at("search-status"), most === 0 ? `No results${body.threshold === undefined ? "" : "; try a lower score"}${cut}` : `${counted(most, "result")} in ${time}${cut}`);
  } catch (error) {
    if (error.name === "AbortError") return;
    at("results").replaceChildren();
    report(at("search-status"), error.message, true);
  } finally {
    if (!signal.aborted) at("results").removeAttribute("aria-busy");
  }
}

function show(lists, { hybrid, rerank }) {
  const side = models.length > 1;
  models.forEach((model, i) => found.set(model.id, new Set(lists[i].map((hit) => hit.id))));
  const texts = lists.map((hits) => new Set(hits.map((hit) => hit.text)));
  const scores = lists.flat().map((hit) => hit.score);
  const [low, best] = [Math.min(...scores), Math.max(...scores)];
  const share = ({ score }) => (rerank ? (best > low ? (score - low) / (best - low) : 1) : hybrid ? score / Math.max(best, 1e-9) : score);
  const alone = (hit) => texts.filter((some) => some.has(hit.text)).length === 1;
  const rare = lists.flat().filter(alone).length * 2 < lists.flat().length; // the fewer of the two kinds are marked
  const mark = (hit) => (!side ? "" : rare && alone(hit) ? "only here" : !rare && !alone(hit) ? "in both" : "");
  const columns = lists.map((hits, i) => {
    const list = make("ol", { className: "hits" }, ...hits.map((hit) => row(hit, mark(hit), share(hit), rerank)));
    return make("div", { className: "column" }, side ? make("h2", {}, models[i].id) : null, list);
  });
  at("results").replaceChildren(...columns);
}

function row(hit, mark, share, rerank) {
  const bar = make("i");
  bar.style.width = `${Math.round(100 * Math.max(0, Math.min(1, share)))}%`;
  const facts = Object.entries(hit.metadata).filter(([, value]) => value !== null);
  const about = facts.map(([name, value]) => make("span", {}, `${name}: ${value}`));
  if (hit.similarity !== undefined) about.unshift(make("span", {}, `similarity ${hit.similarity.toFixed(3)}${rerank ? "" : `, hybrid score ${hit.score.toFixed(3)}`}`));
  if (hit.copies) about.unshift(make("span", {}, `same text: ${hit.copies.slice(0, 3).join(", ")}${hit.copies.length > 3 ? `, and ${hit.copies.length - 3} more` : ""}`));
  about.unshift(make("span", { className: "id" }, hit.id)); // of a file's text: its name, by which it can be opened
  if (mark !== "") about.unshift(make("span", { className: "mark" }, mark));
  const item = make(
    "li",
    {},
    make("div", { className: "score" }, hit.score.toFixed(3), make("div", { className: "track", "aria-hidden": "true" }, bar)),
    make("div", {}, make("div", { className: "text", dir: "auto" }, hit.text), make("div", { className: "about" }, ...about)),
  );
  item.dataset.text = hit.text;
  item.addEventListener("mouseenter", () => pair(hit.text, true));
  item.addEventListener("mouseleave", () => pair(hit.text, false));
  return item;
}

function pair(text, on) {
  if (models.length < 2) return;
  for (const item of at("results").querySelectorAll("li")) item.classList.toggle("twin", on && item.dataset.text === text);
}
