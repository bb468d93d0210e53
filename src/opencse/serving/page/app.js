// The page: models and indexes of the server, the three views, and the API key.

import { ask, keepKey, whenKeyIsNeeded } from "./api.js";
import { at, counted, make, report } from "./dom.js";
import { showMap, startMap } from "./map.js";
import { startSearch } from "./search.js";
import { showSimilarity, startSimilarity } from "./similarity.js";

const VIEWS = ["search", "similarity", "map"];
const SHOWN = { search: () => {}, similarity: showSimilarity, map: showMap };
let ready = false;

function open(view, focus = false) {
  for (const name of VIEWS) {
    const tab = at(`tab-${name}`);
    tab.setAttribute("aria-selected", String(name === view));
    tab.tabIndex = name === view ? 0 : -1;
    at(name).hidden = name !== view;
  }
  if (focus) at(`tab-${view}`).focus();
  history.replaceState(null, "", `#${view}`);
  if (ready) SHOWN[view]();
}

for (const [i, name] of VIEWS.entries()) {
  at(`tab-${name}`).addEventListener("click", () => open(name));
  at(`tab-${name}`).addEventListener("keydown", (event) => {
    const to = { ArrowRight: i + 1, ArrowLeft: i + VIEWS.length - 1, Home: 0, End: VIEWS.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    open(VIEWS[to % VIEWS.length], true);
  });
}

document.addEventListener("keydown", (event) => {
  const writing = event.target.matches("input, textarea, select");
  if (event.key !== "/" || writing || event.ctrlKey || event.metaKey || event.altKey || at("search-form").hidden || at("key").open) return;
  event.preventDefault();
  open("search");
  at("query").focus();
});

let asking = null;
whenKeyIsNeeded((message) => {
  asking ??= new Promise((done) => {
    report(at("key-error"), message, true);
    at("key").showModal();
    at("key-form").onsubmit = (event) => {
      event.preventDefault();
      keepKey(at("key-value").value.trim());
      at("key-value").value = "";
      at("key").close();
      asking = null;
      done();
    };
  });
  return asking;
});
at("key").addEventListener("cancel", (event) => event.preventDefault());

function introduce(served) {
  const indexed = served.models.filter((model) => model.index !== null);
  const names = served.models.map((model) => model.id).join(" and ");
  const texts = indexed.length === 0 ? "no index" : counted(indexed[0].index.documents, "text");
  report(at("served"), `${names} · ${texts}`);
}

async function start() {
  try {
    const served = await ask("info");
    introduce(served);
    startSearch(served.models, served.examples, served.reranker);
    startSimilarity(served.models);
    startMap(served.models);
    ready = true;
    const wanted = location.hash.slice(1);
    open(VIEWS.includes(wanted) ? wanted : "search");
    if (wanted === "" && !at("search-form").hidden && matchMedia("(pointer: fine)").matches) at("query").focus();
  } catch (error) {
    report(at("served"), "");
    const again = make("button", { type: "button" }, "Try again");
    again.addEventListener("click", () => location.reload());
    at("results").replaceChildren(make("div", { className: "state" }, make("h2", {}, "The page could not be loaded"), make("p", {}, error.message), again));
  }
}

start();
