"""Runs that adapt an encoder to documents, with pairs and without."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from helpers import Broken, Run, accepted, refused, rows_in, write_rows
from opencse import SentenceEncoder, adapt
from opencse.documents.adaptation import Adaptation, AdaptationSources, plan_adaptation
from opencse.documents.advice import RECIPE
from opencse.documents.dev_choice import Dev
from opencse.errors import InterruptedRunError
from opencse.model_folder.locate import BUILTIN
from opencse.objective.terms import imitation
from opencse.progress import Silent
from opencse.recipes.recipe import resolve_recipe
from opencse.text import sample
from opencse.text.documents import read_documents
from opencse.text.given import Text

PAIRS = [(f"what is thing {n} made of", f"thing {n} is made of {n} small parts") for n in range(600)]
QUICK = ("training.max_steps=6", "training.evaluate_every=3", "training.batch_size=16", "training.precision=float32")
SETS = [part for setting in QUICK for part in ("--set", setting)]


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first 120 documents of the sample, enough to hold some out and ask about them."""
    documents = sample.TRAIN.read_text(encoding="utf-8").split("\n\n")[:120]
    path = tmp_path_factory.mktemp("text") / "documents.txt"
    path.write_text("\n\n".join(documents), encoding="utf-8")
    return path


def planned(corpus: Path, *, pairs: Text | None = None, dev: Any = "auto", **options: Any) -> Adaptation:
    options |= {"dev": Dev.of(dev), "folder": corpus.parent / "out", "progress": Silent()}
    return plan_adaptation(AdaptationSources(corpus=corpus, pairs=pairs), **options)


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
    write_rows(folder / "corpus.jsonl", records)
    return folder


@pytest.mark.slow
def test_a_resumed_run_is_the_same_and_chooses_among_averages_too(folder: Path, tmp_path: Path) -> None:
    settings = [*QUICK, "training.checkpoint_every=2", "training.learning_rate=0.05"]
    whole = adapt(folder, tmp_path / "whole", model=BUILTIN, settings=settings)
    lines = rows_in(tmp_path / "whole" / "metrics.jsonl")
    found = [line for line in lines if "dev" in line and "average_of_step" not in line]
    assert [line["step"] for line in found] == [0, 3, 6]
    assert any(line.get("dev_share") == 0.5 for line in found), "a large rate goes too far, and half the way is better"
    with pytest.raises(InterruptedRunError):
        adapt(folder, tmp_path / "broken", model=BUILTIN, settings=settings, progress=Broken(5, KeyboardInterrupt()))
    resumed = adapt(folder, tmp_path / "broken", model=BUILTIN, settings=settings, resume=True)
    assert resumed.verdict == whole.verdict
    for name in ("model.safetensors", "metrics.jsonl"):
        assert (tmp_path / "broken" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    SentenceEncoder.load(resumed.folder)


class Teaching(Silent):
    """Breaks off while the teacher reads its second block of texts."""

    title = ""

    def start(self, title: str, total: int, done: int = 0) -> None:
        self.title = title

    def advance(self, done: int, note: str = "") -> None:
        if self.title == "teacher" and done > 500:
            raise KeyboardInterrupt


@pytest.mark.slow
def test_a_teacher_reads_each_text_once_and_is_imitated_by_a_resumed_run_too(
    text: Path, tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENCSE_CACHE", str(tmp_path / "cache"))
    read: list[str] = []
    encode = SentenceEncoder.encode

    def recorded(self: SentenceEncoder, texts: Any, *args: Any, **options: Any) -> Any:
        read.extend(texts if self.dimension == 448 and "normalize_embeddings" in options else [])
        return encode(self, texts, *args, **options)

    monkeypatch.setattr(SentenceEncoder, "encode", recorded)
    monkeypatch.setattr(imitation, "_BLOCK", 500)
    settings = [
        "training.max_steps=30",
        "training.evaluate_every=30",
        "training.batch_size=16",
        "objective.negatives=[]",
        "encoder.layers=1",
    ]
    settings += ["training.checkpoint_every=2", "training.learning_rate=0.003", "training.log_every=1"]
    how: dict[str, Any] = {"model": tiny_folder, "teacher": "opencse-mini", "settings": settings}
    with pytest.raises(InterruptedRunError):
        adapt(text, tmp_path / "broken", **how, progress=Teaching())
    assert len(read) == 1000
    del read[500:]  # of the block that was broken off nothing was kept
    whole = adapt(text, tmp_path / "whole", **how)
    kept = list((tmp_path / "cache" / "teachers").glob("*/*.npz"))
    assert len(set(read)) == len(read) > 1000
    before = len(read)
    with pytest.raises(InterruptedRunError):
        adapt(text, tmp_path / "broken", **how, progress=Broken(5, KeyboardInterrupt()))
    resumed = adapt(text, tmp_path / "broken", **how, resume=True)
    assert len(read) == before
    assert kept == list((tmp_path / "cache" / "teachers").glob("*/*.npz"))
    assert resumed.verdict == whole.verdict
    for name in ("model.safetensors", "last/model.safetensors", "metrics.jsonl"):
        assert (tmp_path / "broken" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    lines = rows_in(tmp_path / "whole" / "metrics.jsonl")
    distances = [line["teacher_distance"] for line in lines if "teacher_distance" in line]
    assert sum(distances[-5:]) < 0.92 * sum(distances[:5])


@pytest.mark.slow
def test_the_command(opencse: Run, text: Path, tmp_path: Path) -> None:
    out, err = accepted(opencse("adapt", text, "-o", tmp_path / "out", "-m", BUILTIN, "--no-report", *SETS))
    assert out.strip() == str(tmp_path / "out")
    assert "120 documents" in err
    assert "questions from held-out text" in err
    few = tmp_path / "few.txt"
    few.write_text("One of them says this.\nTwo of them say that.\n")
    refused(opencse("adapt", few, "-o", tmp_path / "o", "--dev", "text"), "too small to hold a share out")
    refused(opencse("adapt", few, "-o", tmp_path / "o", "--metric", "mrr@5"), "too small to hold a share out")


@pytest.mark.slow
def test_the_command_with_pairs(opencse: Run, text: Path, tmp_path: Path) -> None:
    table = tmp_path / "pairs.csv"
    table.write_text("question,answer\n" + "\n".join(map(",".join, PAIRS[:30])))
    given = ["--pairs", table, "--columns", "question,answer"]
    _, err = accepted(opencse("adapt", text, "-o", tmp_path / "out", "-m", BUILTIN, "--no-report", *given, *SETS))
    assert "and 30 given pairs, 30 times each" in err
    refused(
        opencse("adapt", text, "-o", tmp_path / "o", "--pairs", table, "--columns", "answer"),
        "1 text in a row; pairs have two",
    )
    refused(opencse("adapt", text, "-o", tmp_path / "o", "--columns", "question,answer"), "add --pairs")


@pytest.mark.slow
def test_documents_are_held_out_only_where_questions_about_them_select(tiny_folder: Path, text: Path) -> None:

    def rows_of(dev: Any) -> tuple[set[tuple[str, ...]], bool]:
        adaptation = planned(text, model=str(tiny_folder), dev=dev, pairs=PAIRS)
        return {*adaptation.text.rows}, adaptation.known.asked

    rows, asked = rows_of("auto")
    assert asked
    assert len(rows & {*PAIRS}) < 600
    for dev in (None, "none", "sample", [(0.5, "one", "two"), (1.0, "one", "one")]):
        every, asked = rows_of(dev)
        assert {*PAIRS} < every
        assert len(every) > len(rows)
        assert not asked


@pytest.mark.slow
def test_with_pairs_an_encoder_with_layers_reads_texts_to_their_end(tiny_folder: Path, text: Path) -> None:

    def read(model: str, settings: Sequence[str] = (), **options: Any) -> int | str:
        preset = planned(text, model=model, dev="none", **options).preset
        return resolve_recipe(RECIPE, preset=preset, model=model, overrides=settings).recipe.data.max_length

    assert [read(str(tiny_folder)), read(str(tiny_folder), pairs=PAIRS)] == [64, "auto"]
    assert read(str(tiny_folder), pairs=PAIRS[:30]) == 64, "few pairs must not make a run several times slower"
    assert [read(BUILTIN), read(BUILTIN, pairs=PAIRS)] == [64, 64]
    assert read(str(tiny_folder), pairs=PAIRS, settings=["data.max_length=32"]) == 32


def test_a_sentence_without_order_is_its_own_pair_next_to_pairs(tmp_path: Path) -> None:
    text = tmp_path / "loose.txt"
    text.write_text("".join(f"Thing {n} is here.\n\n" for n in range(60)))
    presets = [planned(text, model=BUILTIN, pairs=given, dev="none").preset for given in (None, PAIRS[:30])]
    assert presets == ["sentences", "doubled"]


@pytest.mark.slow
def test_a_narrow_network_has_its_rate_and_a_wide_one_its_share(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for widest, chosen in ((256, ["narrow", "asked:whole:narrow"]), (255, ["wide", "wide:asked:whole"])):
        monkeypatch.setattr("opencse.documents.adaptation.MOST_OF_NARROW", widest)
        assert [planned(text, model="opencse-small", pairs=given).preset for given in (None, PAIRS)] == chosen
    recipe = resolve_recipe(RECIPE, preset="asked:whole:narrow", model="opencse-small").recipe
    assert (recipe.training.learning_rate, recipe.encoder.token_weights) == (3e-4, None)
