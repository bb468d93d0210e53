from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from numpy.typing import NDArray

from helpers import Heard
from opencse.errors import UserError
from opencse.evaluation import ScoredPairs, Sts, StsData, TaskPairs
from opencse.evaluation.embedding import EmbeddingModel
from opencse.evaluation.models.flow import Flow
from opencse.evaluation.models.whitening import Whitening
from opencse.evaluation.sts.data import TASKS
from opencse.evaluation.transforms import postprocessed, refitted_each_call, sample_texts
from opencse.text.readers import Source

Kind = Literal["whitening", "flow"]


def letters(texts: Sequence[str]) -> NDArray[np.float32]:
    """How often each of 12 letters occurs, far from the origin."""
    return np.array([[text.lower().count(letter) + 3 for letter in "etaoinshrdlu"] for text in texts], np.float32)


JUDGED = EmbeddingModel("letters", letters, pooling="none", device="cpu")


@pytest.fixture
def corpus(tmp_path: Path, sentences: list[str]) -> Path:
    path = tmp_path / "corpus.txt"
    path.write_text("\n".join(sentences[:200]) + "\n")
    return path


def direct(kind: Kind, fitted: NDArray[np.float32], vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    return Whitening.fit(fitted).apply(vectors) if kind == "whitening" else Flow.fit(fitted).apply(vectors)


@pytest.mark.parametrize("kind", ["whitening", "flow"])
def test_fitted_on_a_corpus(kind: Kind, corpus: Path, sentences: list[str]) -> None:
    said: list[str] = []
    stages: list[tuple[str, int, int]] = []
    made = postprocessed(JUDGED, kind, corpus, progress=lambda *stage: stages.append(stage), say=said.append)
    assert (made.name, made.pooling, made.device) == (f"letters + {kind} ({corpus})", "none", "cpu")
    for texts in (sentences[200:230], sentences[:4]):
        np.testing.assert_array_equal(made.encode(texts), direct(kind, letters(sentences[:200]), letters(texts)))
    assert len(said) == 1
    assert said[0].startswith(f"{kind} fitted on 200 texts of {corpus} in ")
    assert stages == ([("training the flow", i, 7) for i in range(1, 8)] if kind == "flow" else [])


def test_a_whitening_of_few_texts_is_doubted(sentences: list[str]) -> None:
    said: list[str] = []
    postprocessed(JUDGED, "whitening", "target", say=said.append).encode(sentences[:9])
    assert said[1].startswith("warning    whitening with 8 dimensions makes these 9 texts equally similar")


@pytest.mark.parametrize("kind", ["whitening", "flow"])
def test_fitted_on_the_target_which_is_the_first_call(kind: Kind, sentences: list[str]) -> None:
    said: list[str] = []
    made = postprocessed(JUDGED, kind, "target", say=said.append)
    assert made.name == f"letters + {kind} (target)"
    assert said == []
    first = made.encode(sentences[:150])
    np.testing.assert_array_equal(first, direct(kind, letters(sentences[:150]), letters(sentences[:150])))
    later = made.encode(sentences[5:30])
    np.testing.assert_allclose(later, first[5:30], rtol=1e-6, atol=1e-6, err_msg="later calls are of one space")
    assert len(said) == 1
    assert "the 150 texts evaluated" in said[0]
    fresh = postprocessed(JUDGED, kind, "target").encode(sentences[150:300])
    assert not np.allclose(fresh, made.encode(sentences[150:300]), atol=1e-3), "a new one is fitted anew"


def test_fewer_dimensions(corpus: Path, sentences: list[str]) -> None:
    for fit in ("target", corpus):
        assert postprocessed(JUDGED, "whitening", fit, dimension=3).encode(sentences[:50]).shape == (50, 3)


def test_sentences_are_drawn_from_the_file(corpus: Path, sentences: list[str], tmp_path: Path) -> None:
    source = Source(str(corpus))
    assert sample_texts(source, 200) == sample_texts(source, 10**6) == sentences[:200]
    some = sample_texts(source, 30)
    assert len(set(some)) == 30
    places = [sentences.index(text) for text in some]
    assert places == sorted(places)
    assert max(places) > 150
    assert sample_texts(source, 30) == some != sample_texts(source, 30, seed=1)
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("anchor\tpositive\na\tb\nb\tc\n")
    assert sample_texts(Source(str(pairs)), 9) == ["a", "b", "c"], "each text once"
    made = postprocessed(JUDGED, "whitening", corpus, sentences=30)
    np.testing.assert_array_equal(made.encode(some), Whitening.fit(letters(some)).apply(letters(some)))


def test_refusals(corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"unknown post-processing 'witening'; known: whitening, .*, ranks"):
        postprocessed(JUDGED, "witening", "target")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="a flow keeps all dimensions"):
        postprocessed(JUDGED, "flow", "target", dimension=3)
    with pytest.raises(UserError, match=r"none\.txt: no such file"):
        postprocessed(JUDGED, "whitening", tmp_path / "none.txt")
    with pytest.raises(UserError, match="at least 1 sentence"):
        postprocessed(JUDGED, "whitening", corpus, sentences=0)
    with pytest.raises(UserError, match="vary along"):
        postprocessed(JUDGED, "whitening", corpus, dimension=13)


def sts(sentences: list[str]) -> StsData:
    rng = np.random.default_rng(0)

    def part(name: str, start: int) -> ScoredPairs:
        return ScoredPairs(
            name, rng.uniform(0, 5, 40), sentences[start : start + 40], sentences[start + 9 : start + 49]
        )

    tasks = {
        "sts12": TaskPairs(TASKS["sts12"], tuple(part(name, 10 * i) for i, name in enumerate(TASKS["sts12"].subsets))),
        "stsb": TaskPairs(TASKS["stsb"], (part("test", 200),)),
    }
    return StsData("made up", "prepared", tasks)


def test_each_sts_task_is_a_target_of_its_own(sentences: list[str]) -> None:
    data = sts(sentences)
    lines: list[str] = []
    anew = refitted_each_call(JUDGED, "whitening", say=lines.append)
    found = Sts().evaluate(anew, data, apart=True).record
    for key in ("sts12", "stsb"):
        parts = data.tasks[key].parts
        texts = list(dict.fromkeys(text for part in parts for text in (*part.first, *part.second)))
        whitening = Whitening.fit(letters(texts))
        alone = StsData(data.source, data.text, {key: data.tasks[key]})
        one = Sts().evaluate(replace(JUDGED, encode=lambda given, by=whitening: by.apply(letters(given))), alone).record  # type: ignore[misc]
        assert found.sts.tasks[key].spearman.all == pytest.approx(one.sts.tasks[key].spearman.all, abs=1e-9)
    together = Sts().evaluate(EmbeddingModel("m", postprocessed(JUDGED, "whitening", "target").encode), data).record
    assert found.sts.tasks["stsb"].spearman.all != pytest.approx(together.sts.tasks["stsb"].spearman.all, abs=0.01)
    assert (found.model, found.pooling, found.environment.device) == ("letters + whitening (target)", "none", "cpu")
    assert found.data == together.data
    assert list(found.sts.tasks) == ["sts12", "stsb"]
    assert found.sts.average is None
    assert found.seconds > 0
    assert sum("whitening fitted on" in line for line in lines) == 2


def test_all_seven_tasks_have_an_average(sentences: list[str]) -> None:
    one = sts(sentences).tasks["stsb"]
    data = StsData("made up", "raw", {key: TaskPairs(task, one.parts) for key, task in TASKS.items()})
    found = Sts().evaluate(refitted_each_call(JUDGED, "whitening", dimension=4), data, apart=True).record
    assert found.sts.average == pytest.approx(found.sts.tasks["stsb"].spearman.all)


def test_layers_of_the_model_are_not_those_of_the_map(tiny_folder: Path, corpus: Path) -> None:
    """They would be scored without the map."""
    from opencse.evaluation.models.opening import open_model

    model = open_model(str(tiny_folder), device="cpu")
    assert model.layers is not None
    for fit in ("target", corpus):
        assert postprocessed(model, "whitening", fit, dimension=3).layers is None


def test_every_suite_fits_each_task_by_itself(sentences: list[str], tmp_path: Path) -> None:
    """Two collections give what each gives alone, and a file's map is fitted once for several suites."""
    from opencse.api.evaluation import evaluate, evaluate_all

    for number, name in enumerate(("one", "two")):
        own = sentences[100 * number : 100 * number + 100]
        folder = tmp_path / "retrieval" / name
        (folder / "qrels").mkdir(parents=True)
        (folder / "corpus.jsonl").write_text(
            "".join(json.dumps({"_id": str(i), "text": text}) + "\n" for i, text in enumerate(own[:80]))
        )
        (folder / "queries.jsonl").write_text(
            "".join(json.dumps({"_id": f"q{i}", "text": text}) + "\n" for i, text in enumerate(own[80:]))
        )
        judged = "".join(f"q{i}\t{i}\t1\n" for i in range(20))
        (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + judged)
    found = {
        tasks: evaluate(letters, tmp_path, "retrieval", transform="whitening", tasks=list(tasks)).values()
        for tasks in (("one", "two"), ("one",), ("two",))
    }
    for name in ("one", "two"):
        alone = {key: value for key, value in found[name,].items() if name in key.split(".")}
        assert alone
        assert {key: found["one", "two"][key] for key in alone} == pytest.approx(alone, abs=1e-9)
    heard = Heard()
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("\n".join(sentences[:200]) + "\n")
    (tmp_path / "sts" / "stsb").mkdir(parents=True)
    part = sts(sentences).tasks["stsb"].parts[0]
    rows = (f"{score}\t{a}\t{b}\n" for score, a, b in zip(part.scores, part.first, part.second, strict=True))
    (tmp_path / "sts" / "stsb" / "dev.tsv").write_text("".join(rows))
    scored = dict(
        evaluate_all([letters], tmp_path, ("dev", "retrieval"), transform="whitening", fit=corpus, progress=heard)
    )
    assert list(scored) == ["dev", "retrieval"]
    assert sum("whitening fitted on" in line for line in heard.said) == 1
