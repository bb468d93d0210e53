"""The scores of every suite, on small data in the real layout made of the built-in sample."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import opencse
from helpers import filled, write_collection, write_lines, write_small_sts
from opencse.text import sample

CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    f"{suite}, {model}": (suite, model, {})
    for suite in ("sts", "sts-regressor", "transfer", "probing", "retrieval")
    for model in ("tiny", "opencse-mini")
} | {
    "sts, bag-of-words": ("sts", "bag-of-words", {}),
    "retrieval, bag-of-words": ("retrieval", "bag-of-words", {}),
    "sts, tiny, layer 1": ("sts", "tiny", {"layer": 1}),
    "sts, tiny, pooling first_last_0": ("sts", "tiny", {"pooling": "first_last_0"}),
    "sts, opencse-mini, whitening": ("sts", "opencse-mini", {"transform": "whitening", "fit": sample.TRAIN}),
    "sts, tiny, whitening of each task": (
        "sts",
        "tiny",
        {"transform": "whitening", "tasks": ["sts12", "sts14"]},
    ),
    "transfer, tiny, fast": ("transfer", "tiny", {"fast": True}),
    "transfer, tiny, logistic": ("transfer", "tiny", {"tasks": ["mr"], "logistic": True}),
    "probing, tiny, fast": ("probing", "tiny", {"fast": True}),
}
"""The suite, the model and the arguments of each."""


def record_suite(name: str, tiny: Path, data: Path) -> dict[str, float]:
    """Every number of a result, by task, measure and its dotted place."""
    suite, model, arguments = CASES[name]
    judged = tiny if model == "tiny" else model
    result = opencse.evaluate(judged, data / suite, suite, device="cpu", **arguments).to_dict()
    return numbers({f"{one.pop('task')}.{one.pop('measure')}": one for one in result["scores"]})


def numbers(value: object, place: str = "") -> dict[str, float]:
    """The numbers within JSON, by their dotted place; not how long something took."""
    if isinstance(value, dict):
        inside = [(f"{place}.{key}" if place else str(key), part) for key, part in value.items() if key != "seconds"]
        return {name: number for where, part in inside for name, number in numbers(part, where).items()}
    if isinstance(value, list):
        return numbers(dict(enumerate(value)), place)
    return {place: value} if isinstance(value, int | float) and not isinstance(value, bool) else {}


def write_data(folder: Path) -> Path:
    """One folder a suite."""
    write_small_sts(folder / "sts")
    _regressor(folder / "sts-regressor")
    _transfer(folder / "transfer")
    _probing(folder / "probing")
    _retrieval(folder / "retrieval" / "sentences")
    return folder


def _write(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_lines(path, lines)


def _regressor(folder: Path) -> None:
    pairs = {"train": filled(sample.DEV), "dev": filled(sample.TEST)[:50], "test": filled(sample.TEST)[50:]}
    for shift, task in enumerate(("stsb", "sickr")):
        for part, lines in pairs.items():
            _write(folder / task / f"{part}.tsv", lines[40 * shift :])


def _labelled(start: int, n: int, classes: int) -> list[tuple[int, str]]:
    """Sentences with a class that their length gives, and every seventh with another."""
    sentences = filled(sample.TRAIN)[start : start + n]
    by_length = sorted(sentences, key=lambda sentence: (len(sentence), sentence))
    rank = {sentence: place * classes // n for place, sentence in enumerate(by_length)}
    return [((rank[text] + (place % 7 == 0)) % classes, text) for place, text in enumerate(sentences)]


def _transfer(folder: Path) -> None:
    for place, task in enumerate(("mr", "cr", "subj", "mpqa")):
        _write(folder / task / "all.tsv", [f"{label}\t{text}" for label, text in _labelled(100 * place, 80, 2)])
    for part, start, n in (("train", 500, 80), ("dev", 600, 40), ("test", 700, 60)):
        _write(folder / "sst2" / f"{part}.tsv", [f"{label}\t{text}" for label, text in _labelled(start, n, 2)])
    for part, start, n in (("train", 800, 120), ("test", 1000, 60)):
        _write(folder / "trec" / f"{part}.tsv", [f"{label}\t{text}" for label, text in _labelled(start, n, 6)])
    pairs = [line.split("\t") for line in (*filled(sample.DEV), *filled(sample.TEST))]
    paraphrases = [f"{int(float(score) >= 2.5)}\t{first}\t{second}" for score, first, second in pairs]
    for part, lines in (("train", paraphrases[:150]), ("dev", paraphrases[150:180]), ("test", paraphrases[180:260])):
        _write(folder / "mrpc" / f"{part}.tsv", lines)


def _probing(folder: Path) -> None:
    for place, (task, classes) in enumerate({"sentence_length": 4, "word_content": 3, "past_present": 2}.items()):
        lines = [
            f"{part}\t{'ABCD'[label]}\t{text}"
            for part, shift, n in (("tr", 0, 90), ("va", 90, 50), ("te", 140, 70))
            for label, text in _labelled(1200 + 300 * place + shift, n, classes)
        ]
        _write(folder / f"{task}.txt", lines)


def _retrieval(folder: Path) -> None:
    """Sentences to be found by their own second halves, and by their neighbours' with a lower grade."""
    sentences = filled(sample.TRAIN)[2200:2320]
    halves = [" ".join(words[len(words) // 2 :]) for words in (sentence.split() for sentence in sentences[:40])]
    corpus, queries = ({f"{k}{i}": text for i, text in enumerate(s)} for k, s in (("d", sentences), ("q", halves)))
    judged = [(f"q{i}", f"d{i + step}", 2 - step) for i in range(len(halves)) for step in (0, 1)]
    write_collection(folder, corpus, queries, judged)
