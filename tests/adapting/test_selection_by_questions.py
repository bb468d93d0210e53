"""Who is kept: the best by the questions, noise or not, unless it forgot; and what the verdict says."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import numpy as np
import pytest
import torch

from opencse import SentenceEncoder, UserError
from opencse.adapting.dev_choice import graded_pairs, load_selector
from opencse.adapting.guard import TOLERANCE, Forgotten, Guard
from opencse.adapting.selection import DevScore, History, OwnPoolingScore
from opencse.adapting.selection_by_graded_pairs import GradedPairSelector
from opencse.adapting.selection_by_questions import QuestionSelector
from opencse.adapting.text_questions import text_questions
from opencse.adapting.trained_texts import TrainedTexts
from opencse.adapting.user_queries import UserQueries
from opencse.arrays import Floats, Integers
from opencse.evaluation.embedding import EmbeddingModel
from opencse.evaluation.retrieval.data import load_retrieval
from opencse.evaluation.retrieval.score import Retrieval
from opencse.ranking import Measure
from opencse.text import sample
from opencse.text.readers import Source, Texts


@dataclass(frozen=True)
class Fixed:
    """Questions whose values are told beforehand: a fake encoder is its values."""

    name: str = "made-up questions"
    source: str = "nowhere"
    measure: str = "nDCG@10"
    size: str = "4 questions"
    units: Integers = field(default_factory=lambda: np.arange(4))
    left_out: None = None
    unknown: str = "nothing is known"

    def held_out(self) -> list[str]:
        return []

    def forbidden_texts(self) -> list[str]:
        return []

    def without(self, trained: TrainedTexts) -> tuple[Fixed, list[str]]:
        del trained
        return self, []

    def fingerprint(self) -> str:
        return self.name

    def values(self, encoder: SentenceEncoder) -> Floats:
        return np.array(cast("Sequence[float]", encoder), dtype=np.float64)

    def parts(self, values: Floats) -> dict[str, float]:
        return {"first": float(values[0])}


def as_encoder(*values: float) -> SentenceEncoder:
    return cast("SentenceEncoder", values)


def never() -> bool:
    raise AssertionError("asked although the scores tell")


def verdict_of(chooser: QuestionSelector, history: History) -> str:
    return chooser.choose(history, 20, None, never).verdict


def test_a_gain_has_the_error_of_its_questions() -> None:
    chooser = QuestionSelector(Fixed())
    first = chooser.begin(as_encoder(10, 20, 30, 40))
    assert (first.value, first.error, first.forgets) == (25.0, 0.0, False)
    found = chooser.score(as_encoder(20, 20, 30, 50))
    assert found.value == 30.0
    assert found.error == pytest.approx(np.std([10, 0, 0, 10], ddof=1) / 2)
    assert found.record() == {"dev": 30.0, "dev_error": found.error, "dev_first": 20.0}
    with pytest.raises(RuntimeError, match="begin"):
        QuestionSelector(Fixed()).score(as_encoder(1, 2, 3, 4))


def test_noise_does_not_go_to_the_start_and_is_told() -> None:
    chooser = QuestionSelector(Fixed())
    history = History()
    history.add(0, chooser.begin(as_encoder(10, 20, 30, 40)))
    history.add(5, chooser.score(as_encoder(40, 0, 30, 34)))
    assert history.best_step == 5
    verdict = verdict_of(chooser, history)
    assert verdict.startswith(
        "the model of step 5 is kept: nDCG@10 of 4 questions from nowhere 25.00 before, 26.00 now"
    )
    assert "(+1.00, 95% interval -" in verdict
    assert "may be noise" in verdict
    history.add(10, chooser.score(as_encoder(20, 31, 40, 50)))
    assert "may be noise" not in verdict_of(chooser, history)
    assert verdict_of(chooser, history).endswith("nothing is known")


def test_the_start_is_kept_where_it_answers_best() -> None:
    chooser = QuestionSelector(Fixed())
    history = History({0: chooser.begin(as_encoder(10, 20, 30, 40)), 5: chooser.score(as_encoder(9, 20, 30, 40))})
    assert verdict_of(chooser, history) == (
        "the start is kept unchanged: no trained encoder answers better (nDCG@10 of 4 questions from nowhere: "
        "start 25.00, best of training 24.75 at step 5)"
    )


def test_what_forgets_is_not_kept_however_much_it_gained() -> None:
    history = History()
    history.add(0, DevScore(50.0, guard=60.0))
    assert not history.add(5, DevScore(90.0, guard=20.0, forgets=True))
    assert QuestionSelector(Fixed()).choose(history, 5, None, never).kept == "start"
    assert "forgot general English (general questions 60.00 before, 20.00 after)" in verdict_of(
        QuestionSelector(Fixed()), history
    )
    assert history.add(10, DevScore(55.0, guard=59.0))
    assert not history.add(15, DevScore(80.0, guard=30.0, forgets=True))
    assert history.best_step == 10
    assert "on general questions 60.00 before, 59.00 now" in verdict_of(QuestionSelector(Fixed()), history)


def test_the_models_own_pooling_is_held_against_training_too() -> None:
    chooser = QuestionSelector(Fixed())
    history = History({0: DevScore(40.0), 5: DevScore(60.0, error=1.0)})
    assert chooser.choose(history, 5, OwnPoolingScore("mean", 70.0), never).kept == "given"
    kept = chooser.choose(history, 5, OwnPoolingScore("mean", 50.0), never)
    assert kept.kept == "best"
    assert "40.00 before (with its own pooling mean 50.00), 60.00 now" in kept.verdict
    history.add(5, DevScore(30.0))
    assert chooser.choose(history, 5, OwnPoolingScore("mean", 35.0), never).kept == "start"


def test_the_guard_refuses_a_large_drop_and_lets_noise_pass() -> None:
    watch = Guard.of_pairs((f"question {n}", f"answer {n}") for n in range(80))
    good = np.random.default_rng(0).choice([0.0, 50.0, 100.0], 80)
    same = watch.compare(good, good)
    assert (same.value, same.lost, same.too_much) == (good.mean(), 0.0, False)
    ruined = watch.compare(good, 0 * good)
    assert ruined.lost > 30
    assert ruined.too_much
    other = good.copy()
    other[:16] = 100 - other[:16]
    other[16:22] = 0
    noisier = watch.compare(good, other)
    assert same.value - noisier.value > TOLERANCE, "more than is tolerated, but no more than noise"
    assert not noisier.too_much
    assert watch.compare(0 * good, good).lost < -30


def test_the_tolerance_counts_beyond_the_noise() -> None:
    assert not Forgotten(50.0, lost=TOLERANCE).too_much
    assert Forgotten(50.0, lost=TOLERANCE + 0.01).too_much


def test_the_guard_asks_each_pair_among_all_answers() -> None:
    watch = Guard.of_pairs([("who", "A man."), ("what", "A thing."), ("which one", "A thing.")])
    assert watch.questions.candidates == ["A man.", "A thing."]
    assert watch.questions.answers.tolist() == [0, 1, 1]
    assert len(watch) == 3
    other = Guard.of_pairs([("who", "A man."), ("what", "A thing."), ("which one", "A man.")])
    assert watch.fingerprint() != other.fingerprint()


@pytest.mark.slow
def test_the_built_in_guard_knows_a_good_encoder_from_a_ruined_one() -> None:
    chosen = load_selector("text", Source(str(sample.TRAIN)))
    assert isinstance(chosen, QuestionSelector)
    assert chosen.guard is not None
    assert len(chosen.guard) == 1560
    encoder = SentenceEncoder.load(device="cpu")
    before = chosen.guard.values(encoder)
    asked = chosen.guard.questions
    vectors = encoder.encode([*asked.queries, *asked.candidates], normalize_embeddings=True)
    found = vectors[: len(before)] @ vectors[len(before) :].T
    right = found[np.arange(len(before)), asked.answers]
    ranks = (found > right[:, None]).sum(axis=1) + 1
    assert before.mean() == pytest.approx(np.where(ranks <= 10, 100 / np.log2(ranks + 1), 0).mean(), abs=0.05)
    with torch.no_grad():
        for weights in encoder.parameters():
            weights.add_(weights.std() * torch.randn(weights.shape, generator=torch.Generator().manual_seed(0)))
    assert chosen.guard.compare(before, chosen.guard.values(encoder)).too_much


def running(documents: int = 300) -> Texts:
    rows: list[tuple[str, ...]] = [
        (f"The {d} sheep of farm {d} ate {s} apples at {d} o'clock.",) for d in range(documents) for s in range(4)
    ]
    return Texts(rows, [n // 4 for n in range(len(rows))], "text")


@pytest.mark.slow
def test_kinds_of_questions_weigh_the_same() -> None:
    found = text_questions(running())
    assert found is not None
    assert [questions.kind for questions in found.sets] == ["neighbours"], "60 documents are too few to ask for halves"
    found = text_questions(running(1_500))
    assert found is not None
    assert [questions.kind for questions in found.sets] == ["neighbours", "halves"]
    encoder = SentenceEncoder.load(device="cpu")
    values = found.values(encoder)
    by_kind = found.parts(values)
    assert values.mean() == pytest.approx(sum(by_kind.values()) / 2)
    assert len(values) == len(found.units) == sum(len(questions) for questions in found.sets)
    assert by_kind["neighbours"] != pytest.approx(by_kind["halves"])


def test_a_small_text_allows_no_questions(tmp_path: Path) -> None:
    few = tmp_path / "few.txt"
    few.write_text("".join(f"Sentence number {n} of a small text says little.\n" for n in range(90)))
    assert isinstance(load_selector("auto", Source(str(few))), GradedPairSelector)
    with pytest.raises(UserError, match=r"few.txt: too small to hold a share out.*--dev"):
        load_selector("text", Source(str(few)))


def test_what_dev_says(tmp_path: Path) -> None:
    text = Source(str(sample.TRAIN))
    assert load_selector(None, text) is None
    assert load_selector("none", text) is None
    chosen = load_selector("auto", text, "mrr@5")
    assert isinstance(chosen, QuestionSelector)
    assert chosen.measure == "MRR@5 x 100"
    assert chosen.left_out is not None
    assert chosen.guard is not None
    graded = load_selector(sample.DEV, text)
    assert isinstance(graded, GradedPairSelector)
    assert graded.left_out is None
    with pytest.raises(UserError, match="not graded pairs"):
        load_selector("sample", text, "ndcg@10")
    for dev in ("auto", "text", "sample", sample.DEV, tmp_path):
        assert len(graded_pairs(dev) or "") == 150
    assert graded_pairs("none") is None


@pytest.fixture
def beir(tmp_path: Path) -> Path:
    lines = [line for line in sample.TRAIN.read_text().splitlines() if line][:200]
    documents = [{"_id": f"d{n}", "title": "", "text": line} for n, line in enumerate(lines)]
    queries = [{"_id": f"q{n}", "text": " ".join(lines[n].split()[:4])} for n in range(0, 200, 5)]
    (tmp_path / "corpus.jsonl").write_text("".join(json.dumps(d) + "\n" for d in documents))
    (tmp_path / "queries.jsonl").write_text("".join(json.dumps(q) + "\n" for q in queries))
    (tmp_path / "qrels").mkdir()
    judged = "".join(f"q{n}\td{n}\t1\nq{n}\td{n + 1}\t2\n" for n in range(0, 200, 5))
    (tmp_path / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{judged}")
    return tmp_path


@pytest.mark.slow
def test_given_queries_are_judged_as_evaluation_judges_them(beir: Path) -> None:
    encoder = SentenceEncoder.load(device="cpu")
    data = load_retrieval(beir)
    score = next(iter(Retrieval().evaluate(EmbeddingModel("m", encoder.encode), data).record.retrieval.values()))
    for metric, wanted in (("ndcg@10", score.ndcg_at_10), ("mrr@10", score.mrr_at_10), ("recall@1", score.recall_at_1)):
        values = UserQueries.read(beir, Measure.parse(metric)).values(encoder)
        assert len(values) == 40
        assert values.mean() == pytest.approx(wanted)
        assert 0 < wanted < 100
    chooser = load_selector(beir, Source(str(sample.TRAIN)))
    assert isinstance(chooser, QuestionSelector)
    assert chooser.left_out is None
    first = chooser.begin(encoder)
    assert first.value == pytest.approx(score.ndcg_at_10)
    assert chooser.guard is not None
    assert first.guard == pytest.approx(chooser.guard.values(encoder).mean())


def test_judgements_called_dev_come_before_test(beir: Path) -> None:
    (beir / "qrels" / "dev.tsv").write_text("query-id\tcorpus-id\tscore\nq0\td7\t1\n")
    assert len(UserQueries.read(beir).task.queries) == 1


def test_of_one_unit_the_error_is_not_known() -> None:
    chooser = QuestionSelector(Fixed(units=np.zeros(4, dtype=np.int64)))
    history = History({0: chooser.begin(as_encoder(10, 20, 30, 40)), 5: chooser.score(as_encoder(20, 20, 30, 50))})
    assert history.by_step[5].error is None
    assert "(+5.00, all from one document, so it may be noise)" in verdict_of(chooser, history)
