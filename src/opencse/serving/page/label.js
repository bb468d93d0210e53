// The page of `opencse label`: a query, the texts that the searches find, and the marks; saved one by one.

import { ask } from "./api.js";
import { at, counted, make, quoted, report } from "./dom.js";
import { drawScores } from "./label_scores.js";
import { Texts } from "./label_texts.js";

const TUNED = 20; // queries that `opencse index tune` needs
let state = null;
let current = null; // the query whose texts are shown
let working = Promise.resolve();
const undos = [];
const texts = new Texts(at("texts"), mark);

// Changes are sent one after the other, in the order in which they were made.
function queued(work) {
  working = working.then(work).catch((error) => report(at("status"), error.message, true));
  return working;
}

async function send(path, body) {
  const answer = await ask(`labels/${path}`, body);
  show(answer.state);
  return answer;
}

function show(latest) {
  state = latest;
  const { answered, target, documents } = state;
  report(at("about"), `${state.indexes.join(", ")} · ${counted(documents, "text")} · saved in ${state.folder}`);
  at("aim").max = target;
  at("aim").value = Math.min(answered, target);
  at("aim-text").textContent = `${answered} of ${target} queries have a right text`;
  at("no-queries").hidden = state.queries.length > 0;
  at("queries").replaceChildren(...state.queries.map(listed));
  if (current !== null) report(at("pool-note"), about(texts.list));
  at("undo").disabled = undos.length === 0;
  at("use").hidden = answered === 0;
  const models = [...new Set(state.models.map((model) => (model === "" ? "MODEL" : quoted(model))))].join(" ");
  const folder = quoted(state.folder);
  const forDev = state.queries.filter((query) => query.right + query.partly > 0 && (state.split === null || query.split === "dev"));
  const indexes = state.indexes.map(quoted).join(" ");
  const commands = [
    ...(state.indexes.length > 1 ? [] : ["# label the hits of another model too, before you compare it", `opencse label ${indexes} OTHER-INDEX --out ${folder}`, ""]),
    "# score models",
    `opencse evaluate ${models} --suite retrieval --data ${folder}`,
  ];
  if (forDev.length >= TUNED) commands.push("", "# fit the weight of hybrid search", ...state.indexes.map((index) => `opencse index tune ${quoted(index)} --dev ${folder}`));
  at("use-commands").textContent = commands.join("\n");
}

function listed(query) {
  const counts = [[query.right, "right"], [query.partly, "partly"], [query.wrong, "not"]].filter(([count]) => count > 0);
  const facts = counts.map(([count, name]) => `${count} ${name}`);
  if (query.finished) facts.unshift(query.right + query.partly > 0 ? "✓ done" : "✓ done, not used: no right text");
  if (state.split !== null) facts.push(query.split);
  const button = make("button", { type: "button" }, make("span", { dir: "auto" }, query.text), make("span", { className: "muted" }, facts.join(" · ") || "not yet judged"));
  button.setAttribute("aria-current", String(query.number === current));
  button.addEventListener("click", () => queued(() => open(query.number)));
  return make("li", {}, button);
}

async function open(number) {
  report(at("status"), "Searching.");
  const { query } = await send("open", { number });
  current = query.number;
  show(state);
  at("judging").hidden = false;
  at("help").open = state.answered < 2;
  at("query-title").textContent = query.text;
  report(at("pool-note"), about(query.texts));
  texts.show(query.texts);
  report(at("status"), state.notes.join(" "));
  texts.focus(query.finished ? 0 : Math.max(0, query.texts.findIndex((text) => text.level === null)));
  if (query.texts.length === 0) at("next").focus();
}

// Where the texts come from, and how many are left where some are marked.
function about(list) {
  if (list.length === 0) return "No text was found; edit the query, or go to the next one.";
  const left = list.filter((text) => text.level === null).length;
  const finished = state.queries.find((query) => query.number === current)?.finished;
  const marked = !finished && left < list.length ? `, ${left} without a mark` : "";
  const indexes = state.indexes.length > 1 ? ` of ${state.indexes.length} indexes` : "";
  return `${counted(list.length, "text")}${marked}: the first of vectors, BM25 and hybrid search${indexes}, mixed so that none is favoured.`;
}

function mark(index, level) {
  const text = texts.list[index];
  if (current === null || text === undefined || text.gone) return;
  const { id, digest } = text; // the digest keeps the mark with this text where ids have moved
  const before = { number: current, id, digest, level: text.level };
  texts.setLevel(index, level);
  queued(async () => {
    try {
      undos.push(before);
      await send("mark", { number: before.number, id, digest, level });
      report(at("status"), "Saved.");
    } catch (error) {
      undos.pop();
      if (current === before.number && texts.list[index]?.id === text.id) texts.setLevel(index, before.level);
      ask("labels").then(show, () => {});
      throw error;
    }
  });
}

const next = () =>
  queued(async () => {
    if (current === null) return;
    const number = current;
    await send("finish", { number, finished: true });
    undos.push({ number, finished: false });
    const done = state.queries.find((query) => query.number === number);
    const unused = done !== undefined && done.right + done.partly === 0;
    const start = state.queries.findIndex((query) => query.number === number);
    const later = [...state.queries.slice(start + 1), ...state.queries.slice(0, start)];
    const following = later.find((query) => !query.finished);
    if (following !== undefined) {
      await open(following.number);
    } else {
      leave();
      report(at("status"), unused ? "Saved. No text is right, so this query is not used. Type the next query." : "Saved. Type the next query.");
    }
    if (state.answered >= 5) ask("labels/scores").then(drawScores, () => {}); // later ones are drawn by the next query
  });

function leave() {
  current = null;
  show(state);
  at("judging").hidden = true;
  texts.show([]);
  at("query").focus();
}

const undo = () =>
  queued(async () => {
    const last = undos.pop();
    if (last === undefined) return;
    try {
      if (last.id === undefined) await send("finish", { number: last.number, finished: last.finished });
      else await send("mark", last);
    } catch (error) {
      if (error.code === "no_answer") undos.push(last); // it can be tried again
      throw error;
    }
    if (current !== last.number) await open(last.number);
    const index = texts.list.findIndex((text) => text.id === last.id && text.digest === last.digest);
    if (index >= 0) {
      texts.setLevel(index, last.level);
      texts.focus(index);
    }
    show(state);
    report(at("status"), "Undone.");
  });

at("query-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = at("query").value.trim();
  if (text === "") return;
  at("query").value = ""; // at once, since the next query may be typed while this one is searched for
  queued(async () => {
    try {
      const { number } = await send("add", { text });
      await open(number);
    } catch (error) {
      if (at("query").value === "") at("query").value = text;
      throw error;
    }
  });
});
at("next").addEventListener("click", next);
at("undo").addEventListener("click", undo);

at("edit").addEventListener("click", () => {
  at("edit-text").value = at("query-title").textContent;
  at("edit-dialog").showModal();
});
at("edit-cancel").addEventListener("click", () => at("edit-dialog").close());
at("edit-form").addEventListener("submit", (event) => {
  event.preventDefault();
  at("edit-dialog").close();
  const number = current;
  const text = at("edit-text").value.trim();
  if (text === "") return;
  queued(async () => {
    await send("edit", { number, text });
    await open(number);
  });
});
at("delete").addEventListener("click", () => {
  at("delete-text").textContent = at("query-title").textContent;
  at("delete-dialog").showModal();
});
at("delete-cancel").addEventListener("click", () => at("delete-dialog").close());
at("delete-form").addEventListener("submit", (event) => {
  event.preventDefault();
  at("delete-dialog").close();
  const number = current;
  queued(async () => {
    await send("delete", { number });
    for (let i = undos.length - 1; i >= 0; i -= 1) if (undos[i].number === number) undos.splice(i, 1);
    leave();
    report(at("status"), "Deleted.");
  });
});

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]") !== null) return;
  if (event.target.matches("input, textarea, select")) return;
  const onControl = event.target.matches("button, summary, a");
  const focused = texts.index;
  const levels = { r: 2, p: 1, n: 0 };
  let work = null;
  if (/^[1-9]$/.test(event.key)) work = () => mark(texts.first + Number(event.key) - 1, texts.following(texts.first + Number(event.key) - 1));
  else if (event.key in levels) work = () => { mark(focused, levels[event.key]); texts.focus(focused + 1); };
  else if (event.key === "a") work = () => texts.showAll(focused);
  else if (event.key === "ArrowDown") work = () => texts.focus(focused + 1);
  else if (event.key === "ArrowUp") work = () => texts.focus(focused - 1);
  else if (event.key === "u") work = undo;
  else if (event.key === "Enter" && !onControl) work = next;
  else if (event.key === "/") work = () => at("query").focus();
  if (work === null || (current === null && event.key !== "/" && event.key !== "u")) return;
  event.preventDefault();
  if (!event.repeat || event.key.startsWith("Arrow")) work();
});

// Another tab may have changed the marks.
document.addEventListener("visibilitychange", () => {
  if (document.visibilityState !== "visible" || state === null) return;
  queued(async () => {
    const before = JSON.stringify(state.queries);
    show(await ask("labels"));
    if (JSON.stringify(state.queries) === before) return;
    if (state.queries.some((query) => query.number === current)) await open(current);
    else if (current !== null) leave();
  });
});

queued(async () => {
  show(await ask("labels"));
  report(at("status"), state.notes.join(" "));
  if (state.answered >= 5) drawScores(await ask("labels/scores"));
  const unfinished = state.queries.find((query) => !query.finished);
  if (unfinished !== undefined) await open(unfinished.number);
  else at("query").focus();
});
