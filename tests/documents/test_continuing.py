"""Adapting further when a collection has grown: what is new, what is trained on again, what is asked."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import opencse
from helpers import Heard, rows_in
from opencse import InterruptedRunError, UserError
from opencse.documents.adaptation import AdaptationSources, plan_adaptation, written_about
from opencse.documents.continuing import Growth, KnownDocuments
from opencse.documents.dev_choice import Dev
from opencse.documents.material import material_of
from opencse.documents.questions import TextQuestions
from opencse.progress import Silent
from opencse.text.documents import Document
from opencse.text.scripts import normalised


def documents(topic: str, count: int) -> list[Document]:
    return [
        Document(
            f"{topic} number {n}",
            (f"The {topic} {n} is made of part {n * 7}.", f"It weighs {n} grams with its {topic} box {n * 3}."),
        )
        for n in range(count)
    ]


OLD, NEW = documents("kettle", 700), documents("lantern", 600)
KNOWN = KnownDocuments.of(OLD)


def test_a_folder_that_adapt_did_not_write_and_nothing_new_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"has no documents\.json, which opencse adapt writes"):
        KnownDocuments.read(tmp_path)
    with pytest.raises(UserError, match=r"give the folder of a model that it wrote$"):
        KnownDocuments.read(tmp_path / "nothing is here")
    with pytest.raises(UserError, match="all 5 documents were there when m was adapted; nothing is new"):
        Growth.of(OLD[:5], KNOWN, "m")


def test_the_user_reads_what_is_new_and_what_is_missing() -> None:
    growth = Growth.of([*NEW, *OLD[:400]], KNOWN, "m")
    assert growth.lines("m") == ["continue   m: 600 documents are new, 400 are known, 300 of before are not there"]
    alone = Growth.of(NEW, KNOWN, "m")
    assert "nothing shows how much is forgotten" in alone.lines("m")[1]
    material = material_of(NEW)
    assert alone.material(material, material_of) is material
    for few, known, asked in ((NEW[:50], OLD, "known"), (NEW, OLD[:50], "new")):
        grown = Growth(few, known, 0).material(material_of(few), material_of)
        assert grown.questions is not None
        assert all(one.label.endswith(f"about {asked} documents") for one in grown.questions.sets)
        assert "too few" in grown.facts


@pytest.mark.slow
def test_rows_and_questions_of_both() -> None:
    growth = Growth.of([*OLD, *NEW], KNOWN, "m")
    new, old = material_of(NEW), material_of(OLD)
    both = growth.material(material_of(growth.new), material_of)
    assert len(new.rows) < len(both.rows) <= 2 * len(new.rows)
    of_old = [row for row in both.rows if "kettle" in " ".join(row)]
    assert len(of_old) == len(both.rows) - len(new.rows) > 0.8 * len(new.rows)
    assert set(of_old) < set(old.rows)
    assert both.questions is not None
    assert new.questions is not None
    assert [one.kind for one in both.questions.sets] == ["new titles", "old titles"]
    assert both.questions.weights == pytest.approx((0.5, 0.5))
    held = {normalised(text) for text in both.questions.held_out()}
    assert held == {normalised(text) for one in (new, old) if one.questions for text in one.questions.held_out()}
    assert not any(normalised(text) in held for row in both.rows for text in row)
    units_of = [set(one.units.tolist()) for one in both.questions.sets]
    first_old = len(new.questions.sets)
    assert not set.union(*units_of[:first_old]) & set.union(*units_of[first_old:])


def unnamed(topic: str, count: int) -> list[Document]:
    return [replace(one, title="") for one in documents(topic, count)]


@pytest.mark.slow
def test_written_questions_without_ids_stay_with_their_documents(tmp_path: Path, tiny_folder: Path) -> None:
    everything = [one for both in zip(unnamed("kettle", 800), unnamed("lantern", 800), strict=True) for one in both]
    before = KnownDocuments.of(everything[::2])
    rows = [(f"asked of {one.sentences[0]}", one.body, f"text-{one.fingerprint}") for one in everything]
    growth = Growth.of(everything, before, "m")
    of_new, of_old = written_about(rows, everything, growth)
    assert (of_new, of_old) == (rows[1::2], rows[::2])
    new, old = material_of(growth.new), material_of(growth.old)
    held = {text for one in (new, old) if one.questions for text in one.questions.held_out()}
    shutil.copytree(tiny_folder, tmp_path / "model")
    before.write(tmp_path / "model")
    adaptation = plan_adaptation(
        AdaptationSources(corpus=[("", one.body) for one in everything], questions=rows),
        model=str(tmp_path / "model"),
        continues=True,
        dev=Dev.of("auto"),
        folder=tmp_path,
        progress=Silent(),
    )
    assert isinstance(adaptation.dev.source, TextQuestions)
    sets = {one.kind: one for one in adaptation.dev.source.sets}
    for topic, kind in (("lantern", "new written"), ("kettle", "old written")):
        assert len(sets[kind]) >= 30
        assert all(topic in query for query in sets[kind].queries)
        assert any(query.removeprefix("asked of ") in held for query in sets[kind].queries)
    asked = {query for one in sets.values() for query in one.queries}
    trained = [row for row in adaptation.text.rows if row[0].startswith("asked of ")]
    assert all(any(topic in row[0] for row in trained) for topic in ("lantern", "kettle"))
    assert not asked & {row[0] for row in trained}
    with pytest.raises(UserError, match="1 of 1 questions are about documents that CORPUS does not have"):
        written_about([("Why?", "So.", "document 2000")], everything, growth)


def written(folder: Path, rows: list[Document]) -> Path:
    folder.mkdir()
    lines = [json.dumps({"title": one.title, "text": one.body}) for one in rows]
    (folder / "docs.jsonl").write_text("\n".join(lines))
    return folder / "docs.jsonl"


@pytest.mark.slow
def test_an_adapted_model_is_adapted_further(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = ["training.max_steps=2", "training.evaluate_every=1", "training.batch_size=8"]
    first = written(tmp_path / "first", OLD)
    grown = written(tmp_path / "grown", [*OLD, *NEW])
    opencse.adapt(first, tmp_path / "a", model="opencse-mini", settings=settings, dev=None, report=False)
    heard = Heard()
    result = opencse.adapt(
        grown, tmp_path / "b", continue_from=tmp_path / "a", settings=settings, report=False, progress=heard
    )
    assert f"continue   {tmp_path / 'a'}: 600 documents are new, 700 are known" in heard.said
    assert ("; new titles " in result.verdict) == (result.kept != "start")
    assert KnownDocuments.read(tmp_path / "b") == KnownDocuments.of([*OLD, *NEW], with_questions=False)
    logged = rows_in(tmp_path / "b" / "metrics.jsonl")
    assert any(key.startswith("dev_old_") for line in logged for key in line)
    with pytest.raises(UserError, match="nothing is new"):
        opencse.adapt(grown, tmp_path / "c", continue_from=tmp_path / "b", settings=settings)
    with pytest.raises(UserError, match="leave --model out"):
        opencse.adapt(grown, tmp_path / "c", continue_from=tmp_path / "a", model="other", settings=settings)

    def pressed(*_: object) -> None:
        raise InterruptedRunError("stopped before training began")

    with monkeypatch.context() as patch:
        patch.setattr("opencse.commands.training._run_or_plan", pressed)
        with pytest.raises(InterruptedRunError):
            opencse.adapt(first, tmp_path / "b", settings=settings, dev=None, report=False, overwrite=True)
    unchanged = KnownDocuments.of([*OLD, *NEW], with_questions=False)
    assert KnownDocuments.read(tmp_path / "b") == unchanged, "the model there is still the other"
    opencse.adapt(
        first, tmp_path / "b", model="opencse-mini", settings=settings, dev=None, report=False, overwrite=True
    )
    assert KnownDocuments.read(tmp_path / "b") == KnownDocuments.of(OLD, with_questions=False)
