"""Adapting further when a collection has grown: what is new, what is trained on again, what is asked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import opencse
from helpers import Heard
from opencse import UserError
from opencse.adapting.continuing import FILE, Growth, KnownDocuments
from opencse.adapting.holdout import normalised
from opencse.adapting.material import TrainingMaterial, material_of
from opencse.adapting.question_sets import QuestionSet
from opencse.text.documents import Document


def documents(topic: str, count: int) -> list[Document]:
    return [
        Document(
            f"{topic} number {n}",
            (f"The {topic} {n} is made of part {n * 7}.", f"It weighs {n} grams with its {topic} box {n * 3}."),
        )
        for n in range(count)
    ]


def sets_of(material: TrainingMaterial) -> tuple[QuestionSet, ...]:
    assert material.questions is not None
    return material.questions.sets


OLD, NEW = documents("kettle", 700), documents("lantern", 600)
KNOWN = KnownDocuments.of(OLD)


def test_documents_are_known_by_their_words(tmp_path: Path) -> None:
    KNOWN.write(tmp_path)
    read = KnownDocuments.read(tmp_path)
    assert read == KNOWN
    assert "kettle" not in (tmp_path / FILE).read_text()
    shouted = Document(OLD[3].title.upper(), OLD[3].sentences)
    new, old = read.split([NEW[0], shouted, *OLD[5:7]])
    assert (new, old) == ([NEW[0]], [shouted, *OLD[5:7]])
    assert read.joined(KnownDocuments.of(NEW)) == KnownDocuments.of([*NEW, *OLD])


def test_a_folder_that_adapt_did_not_write_and_nothing_new_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"has no documents\.json, which opencse adapt writes"):
        KnownDocuments.read(tmp_path)
    with pytest.raises(UserError, match="all 5 documents were there when m was adapted; nothing is new"):
        Growth.of(OLD[:5], KNOWN, "m")


def test_the_user_reads_what_is_new_and_what_is_missing() -> None:
    growth = Growth.of([*NEW, *OLD[:400]], KNOWN, "m")
    assert growth.lines("m") == ["continue   m: 600 documents are new, 400 are known, 300 of before are not there"]
    alone = Growth.of(NEW, KNOWN, "m")
    assert "nothing shows how much is forgotten" in alone.lines("m")[1]
    material = material_of(NEW)
    assert alone.material(material, material_of) is material


def test_rows_and_questions_of_both() -> None:
    growth = Growth.of([*OLD, *NEW], KNOWN, "m")
    new, old = material_of(NEW), material_of(OLD)
    both = growth.material(material_of(growth.new), material_of)
    assert len(new.rows) < len(both.rows) <= 2 * len(new.rows)
    of_old = [row for row in both.rows if "kettle" in " ".join(row)]
    assert len(of_old) == len(both.rows) - len(new.rows) > 0.8 * len(new.rows)
    assert set(of_old) < set(old.rows)
    assert both.questions is not None
    assert old.questions is not None
    assert new.questions is not None
    kinds = [one.kind for one in both.questions.sets]
    assert kinds == [f"new {one.kind}" for one in new.questions.sets] + [
        f"old {one.kind}" for one in old.questions.sets
    ]
    assert sum(both.questions.weights[: len(new.questions.sets)]) == pytest.approx(0.5)
    assert sum(both.questions.weights) == pytest.approx(1)
    held = {normalised(text) for text in both.questions.held_out()}
    assert held == {normalised(text) for one in (new, old) if one.questions for text in one.questions.held_out()}
    assert not any(normalised(text) in held for row in both.rows for text in row)
    units_of = [set(one.units.tolist()) for one in both.questions.sets]
    first_old = len(new.questions.sets)
    assert not set.union(*units_of[:first_old]) & set.union(*units_of[first_old:])
    backwards = Growth.of([*reversed(OLD), *NEW], KNOWN, "m").material(material_of(NEW), material_of)
    assert {row for row in backwards.rows if "kettle" in " ".join(row)} & set(of_old)


def written(folder: Path, rows: list[Document]) -> Path:
    folder.mkdir()
    lines = [json.dumps({"title": one.title, "text": one.body}) for one in rows]
    (folder / "docs.jsonl").write_text("\n".join(lines))
    return folder / "docs.jsonl"


def test_an_adapted_model_is_adapted_further(tmp_path: Path) -> None:
    settings = ["training.max_steps=2", "training.evaluate_every=1", "training.batch_size=8"]
    first = written(tmp_path / "first", OLD)
    grown = written(tmp_path / "grown", [*OLD, *NEW])
    opencse.adapt(first, tmp_path / "a", settings=settings, dev=None, report=False)
    heard = Heard()
    result = opencse.adapt(
        grown, tmp_path / "b", continue_from=tmp_path / "a", settings=settings, report=False, progress=heard
    )
    assert f"continue   {tmp_path / 'a'}: 600 documents are new, 700 are known" in heard.said
    assert ("; new pairs " in result.verdict) == (result.kept != "start")
    assert KnownDocuments.read(tmp_path / "b") == KnownDocuments.of([*OLD, *NEW])
    logged = [json.loads(line) for line in (tmp_path / "b" / "metrics.jsonl").read_text().splitlines()]
    assert any(key.startswith("dev_old_") for line in logged for key in line)
    with pytest.raises(UserError, match="nothing is new"):
        opencse.adapt(grown, tmp_path / "c", continue_from=tmp_path / "b", settings=settings)
    with pytest.raises(UserError, match="leave --model out"):
        opencse.adapt(grown, tmp_path / "c", continue_from=tmp_path / "a", model="other", settings=settings)
    opencse.adapt(first, tmp_path / "b", settings=settings, dev=None, report=False, overwrite=True)
    assert KnownDocuments.read(tmp_path / "b") == KnownDocuments.of(OLD)
