// The scores of each search by the marks so far.

import { at, make } from "./dom.js";

const signed = (value) => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(1)}`;

function row(name, score) {
  const interval = score.interval === null ? "all the same" : `${score.interval[0].toFixed(1)} to ${score.interval[1].toFixed(1)}`;
  const compared = score.difference === null ? "" : signed(score.difference);
  const between = score.difference_interval === null ? "" : score.difference_interval.map(signed).join(" to ");
  const cell = (value, range) => make("td", {}, value, range === "" ? null : make("span", {}, range));
  return make("tr", {}, make("th", { scope: "row" }, name), cell(score.ndcg_at_10.toFixed(1), interval), cell(compared, between));
}

export function drawScores(scores) {
  const systems = Object.entries(scores.systems);
  at("scores").hidden = systems.length === 0;
  if (systems.length === 0) return;
  const heads = ["Search", "nDCG@10", "Difference"].map((text) => make("th", { scope: "col" }, text));
  at("scores-table").replaceChildren(
    make("caption", { className: "hidden" }, `Scores over ${scores.queries} queries, x 100`),
    make("thead", {}, make("tr", {}, ...heads)),
    make("tbody", {}, ...systems.map(([name, score]) => row(name, score))),
  );
  at("scores-note").textContent = `${scores.queries} queries, x 100, with 95 % intervals; differences are from ${systems[0][0]}. ${scores.warning}`;
}
