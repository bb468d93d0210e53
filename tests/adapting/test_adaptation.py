"""Runs that adapt an encoder to documents, with pairs and without."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from helpers import Broken, Run
from opencse import SentenceEncoder, UserError, adapt, train
from opencse.adapting.adaptation import Adaptation, plan_adaptation
from opencse.adapting.adaptation_texts import AdaptationSources
from opencse.adapting.preset_names import RECIPE
from opencse.adapting.selection import DevScore
from opencse.adapting.selection_by_graded_pairs import GradedPairSelector
from opencse.errors import InterruptedRunError
from opencse.evaluation import read_scored_pairs
from opencse.progress import Silent
from opencse.recipes.recipe import resolve_recipe
from opencse.runs.job import TrainJob
from opencse.text import sample
from opencse.text.documents import read_documents
from opencse.text.given import Text
from opencse.training.averages import average

QUICK = ("training.max_steps=6", "training.evaluate_every=3", "training.batch_size=16", "training.precision=float32")


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first 120 documents of the sample, enough to hold some out and ask about them."""
    documents = sample.TRAIN.read_text(encoding="utf-8").split("\n\n")[:120]
    path = tmp_path_factory.mktemp("text") / "documents.txt"
    path.write_text("\n\n".join(documents), encoding="utf-8")
    return path


def planned(corpus: Path, *, pairs: Text | None = None, **options: Any) -> Adaptation:
    return plan_adaptation(AdaptationSources(corpus=corpus, pairs=pairs), progress=Silent(), **options)


def test_averages_of_weights() -> None:
    start = {"a": torch.tensor([0.0, 2.0]), "n": torch.tensor(3)}
    trained = {"a": torch.tensor([4.0, 2.0]), "n": torch.tensor(5)}
    mean = average(start, trained, 0.25)
    assert mean["a"].tolist() == [1.0, 2.0]
    assert mean["n"].item() == 5


@pytest.fixture
def folder(text: Path, tmp_path: Path) -> Path:
    """Articles with their first sentences as titles."""
    articles = read_documents(text)
    records = [
        {"_id": str(number), "title": " ".join(article.sentences[:1]), "text": " ".join(article.sentences[1:])}
        for number, article in enumerate(articles)
    ]
    folder = tmp_path / "articles"
    folder.mkdir()
    (folder / "corpus.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return folder


@pytest.mark.slow
def test_every_pair_that_was_written_is_trained_on(folder: Path, tmp_path: Path) -> None:
    """What is held out is not among them, so none is left out a second time."""
    adaptation = planned(folder)
    job = TrainJob(text=adaptation.text, recipe=RECIPE, preset=adaptation.preset, dev=adaptation.dev)
    plan = job.prepare(Silent()).plan
    assert plan.dev is not None
    assert plan.dev.name == "questions from the text itself"
    assert plan.examples == plan.corpus.rows == len(adaptation.text.rows)


@pytest.mark.slow
def test_a_run_chooses_among_averages_too(folder: Path, tmp_path: Path) -> None:
    result = adapt(folder, tmp_path / "out", settings=[*QUICK, "training.learning_rate=0.05"])
    lines = [json.loads(line) for line in (tmp_path / "out" / "metrics.jsonl").read_text().splitlines()]
    found = [line for line in lines if "dev" in line and "average_of_step" not in line]
    assert [line["step"] for line in found] == [0, 3, 6]
    assert any(line.get("dev_share") == 0.5 for line in found), "a large rate goes too far, and half the way is better"
    SentenceEncoder.load(result.folder)


@pytest.mark.slow
@pytest.mark.parametrize(("shares", "told"), [("[0.25]", 0.25), ("[1.0]", None)])
def test_only_the_shares_that_were_named_are_evaluated(
    shares: str, told: float | None, folder: Path, tmp_path: Path
) -> None:
    adapt(folder, tmp_path / "out", settings=[*QUICK, f"training.average_with_start={shares}"])
    lines = [json.loads(line) for line in (tmp_path / "out" / "metrics.jsonl").read_text().splitlines()]
    found = [line.get("dev_share") for line in lines if "dev" in line and "average_of_step" not in line]
    assert found == [None, told, told]


class Contrary(GradedPairSelector):
    """Prefers what is worse, so that the encoder that has moved farthest is kept."""

    def score(self, encoder: SentenceEncoder) -> DevScore:
        found = super().score(encoder)
        return replace(found, value=-found.value)


@pytest.mark.slow
def test_the_order_of_the_shares_does_not_matter(text: Path, tmp_path: Path) -> None:
    """The trained encoder itself is scored with its own weights, before and after an average."""
    pairs = read_scored_pairs(sample.DEV)
    settings = (*QUICK, "training.learning_rate=0.05")
    found = []
    for number, shares in enumerate(("[1.0,0.01]", "[0.01,1.0]")):
        dev = Contrary("the sample", pairs)
        train(text, tmp_path / f"{number}", dev=dev, settings=[*settings, f"training.average_with_start={shares}"])
        lines = [json.loads(line) for line in (tmp_path / f"{number}" / "metrics.jsonl").read_text().splitlines()]
        found.append(
            [(line["dev"], line.get("dev_share")) for line in lines if "dev" in line and "average_of_step" not in line]
        )
    assert found[0] == found[1]
    assert [share for _, share in found[0]] == [None, None, None], "the trained encoder is worse than the average"


@pytest.mark.slow
def test_a_resumed_run_is_the_same(folder: Path, tmp_path: Path) -> None:
    settings = [*QUICK, "training.checkpoint_every=2", "training.learning_rate=0.05"]
    whole = adapt(folder, tmp_path / "whole", settings=settings)
    with pytest.raises(InterruptedRunError):
        adapt(folder, tmp_path / "broken", settings=settings, progress=Broken(5, KeyboardInterrupt()))
    resumed = adapt(folder, tmp_path / "broken", settings=settings, resume=True)
    assert resumed.verdict == whole.verdict
    for name in ("model.safetensors", "metrics.jsonl"):
        assert (tmp_path / "broken" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


@pytest.mark.slow
def test_the_command(opencse: Run, text: Path, tmp_path: Path) -> None:
    sets = [part for setting in QUICK for part in ("--set", setting)]
    code, out, err = opencse("adapt", text, "-o", tmp_path / "out", "--no-report", *sets)
    assert code == 0, err
    assert out.strip() == str(tmp_path / "out")
    assert "120 documents" in err
    assert "questions from held-out text" in err
    few = tmp_path / "few.txt"
    few.write_text("One of them says this.\nTwo of them say that.\n")
    code, _, err = opencse("adapt", few, "-o", tmp_path / "o", "--dev", "text")
    assert code == 2
    assert "too small to hold documents out" in err
    code, _, err = opencse("adapt", few, "-o", tmp_path / "o", "--metric", "mrr@5")
    assert code == 2
    assert "--metric does not apply to" in err


@pytest.mark.slow
def test_fields_of_a_file_and_documents_at_hand_train_alike(opencse: Run, text: Path, tmp_path: Path) -> None:
    documents = read_documents(text)
    rows = [{"headline": f"On {one.sentences[0][:12]}", "body": one.body} for one in documents]
    lines = tmp_path / "own.jsonl"
    lines.write_text("".join(json.dumps(row) + "\n" for row in rows))
    sets = [part for setting in QUICK for part in ("--set", setting)]
    code, _, err = opencse("adapt", lines, "-o", tmp_path / "a", "--fields", "headline,body", "--no-report", *sets)
    assert code == 0, err
    assert f"{len(rows)} documents" in err
    at_hand = [(row["headline"], row["body"]) for row in rows]
    adapt(at_hand, tmp_path / "b", settings=QUICK)
    assert (tmp_path / "a" / "model.safetensors").read_bytes() == (tmp_path / "b" / "model.safetensors").read_bytes()
    with pytest.raises(UserError, match=r"fields, keep_code, quoted, \.\.\. apply to files"):
        adapt(at_hand, tmp_path / "c", fields=["a", "b"])


@pytest.mark.slow
def test_the_command_with_pairs(opencse: Run, text: Path, tmp_path: Path) -> None:
    table = tmp_path / "pairs.csv"
    table.write_text("question,answer\n" + "".join(f"what is {n} made of,it is made of {n} parts\n" for n in range(30)))
    given = ["--pairs", table, "--columns", "question,answer"]
    sets = [part for setting in QUICK for part in ("--set", setting)]
    code, _, err = opencse("adapt", text, "-o", tmp_path / "out", "--no-report", *given, *sets)
    assert code == 0, err
    assert "and 30 given pairs, 30 times each" in err
    code, _, err = opencse("adapt", text, "-o", tmp_path / "o", "--pairs", table, "--columns", "answer")
    assert code == 2
    assert "1 text in a row; pairs have two" in err
    code, _, err = opencse("adapt", text, "-o", tmp_path / "o", "--columns", "question,answer")
    assert code == 2
    assert "add --pairs" in err


def test_where_people_ask_all_the_way_may_be_kept_too(tiny_folder: Path, text: Path, tmp_path: Path) -> None:
    """Questions that the text asks itself see half the way alone; pairs held out, and queries, see both."""
    pairs = [(f"what is thing {n} made of", f"thing {n} is made of {n} small parts") for n in range(600)]
    queries = tmp_path / "queries"
    (queries / "qrels").mkdir(parents=True)
    (queries / "corpus.jsonl").write_text("".join(f'{{"_id": "{n}", "text": "{pairs[n][1]}"}}\n' for n in range(9)))
    (queries / "queries.jsonl").write_text('{"_id": "q", "text": "what is thing 1 made of"}\n')
    (queries / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\t1\t1\n")

    def shares(settings: Sequence[str] = (), **options: Any) -> tuple[float, ...]:
        model = str(tiny_folder)
        preset = planned(text, model=model, **options).preset
        return resolve_recipe(RECIPE, preset=preset, model=model, overrides=settings).recipe.training.average_with_start

    assert shares() == (0.5,)
    assert shares(pairs=pairs[:10]) == (0.5,), "too few to hold any out"
    assert shares(pairs=pairs) == (1.0, 0.5)
    assert shares(dev=queries) == (1.0, 0.5)
    assert shares(dev=None, pairs=pairs) == (0.5,)
    assert shares(pairs=pairs, settings=["training.average_with_start=[0.3]"]) == (0.3,)


def test_documents_are_held_out_only_where_questions_about_them_select(tiny_folder: Path, text: Path) -> None:
    pairs = [(f"what is thing {n} made of", f"thing {n} is made of {n} small parts") for n in range(600)]

    def rows_of(dev: Any) -> tuple[set[tuple[str, ...]], bool]:
        adaptation = planned(text, model=str(tiny_folder), dev=dev, pairs=pairs)
        return {*adaptation.text.rows}, adaptation.known.asked

    rows, asked = rows_of("auto")
    assert asked
    assert len(rows & {*pairs}) < 600
    for dev in (None, "none", "sample", [(0.5, "one", "two"), (1.0, "one", "one")]):
        every, asked = rows_of(dev)
        assert {*pairs} < every
        assert len(every) > len(rows)
        assert not asked


def test_with_pairs_an_encoder_with_layers_reads_texts_to_their_end(tiny_folder: Path, text: Path) -> None:
    pairs = [(f"what is thing {n} made of", f"thing {n} is made of {n} small parts") for n in range(600)]

    def read(model: str, settings: Sequence[str] = (), **options: Any) -> int | str:
        preset = planned(text, model=model, **options).preset
        return resolve_recipe(RECIPE, preset=preset, model=model, overrides=settings).recipe.data.max_length

    assert [read(str(tiny_folder)), read(str(tiny_folder), pairs=pairs)] == [64, "auto"]
    assert read(str(tiny_folder), pairs=pairs[:30]) == 64, "few pairs must not make a run several times slower"
    assert read(str(tiny_folder), pairs=pairs, dev=None) == "auto"
    assert [read("opencse-mini"), read("opencse-mini", pairs=pairs)] == [64, 64]
    assert read(str(tiny_folder), pairs=pairs, settings=["data.max_length=32"]) == 32


def test_word_vectors_are_trained_at_their_rate_under_any_name(tiny_folder: Path, text: Path, tmp_path: Path) -> None:
    copy = tmp_path / "adapted-before"
    SentenceEncoder.load("opencse-mini").save(copy)

    def rate(model: str, recipe: str = RECIPE) -> tuple[float, int]:
        plan = planned(text, model=model, recipe=recipe)
        job = TrainJob(text=plan.text, recipe=recipe, preset=plan.preset, model=model)
        training = job.resolved.recipe.training
        return training.learning_rate, training.batch_size

    assert rate(str(copy)) == rate("opencse-mini") == rate(str(copy), f"{RECIPE}:opencse-mini") == (3e-3, 256)
    assert rate(str(tiny_folder)) == (5e-5, 64)


@pytest.mark.parametrize("option", ["pairs", "dev"])
def test_a_name_too_long_for_the_system_is_told_in_one_line(option: str, opencse: Run, tmp_path: Path) -> None:
    code, _, err = opencse("adapt", sample.TRAIN, "-o", tmp_path / "out", f"--{option}", "x" * 300)
    assert code == 2
    assert len(err.strip().splitlines()[-1]) < 1_000
    assert "Traceback" not in err
