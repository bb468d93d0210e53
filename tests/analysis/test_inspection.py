"""Analyzing models: what is found, on what, and the page it becomes."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers import Run, accepted, json_in, write_lines
from opencse.analysis.geometry import geometry
from opencse.analysis.inspection import AnalysisTexts, Findings, Subject, inspect
from opencse.analysis.report import lead, sections
from opencse.encoder.encoder import SentenceEncoder
from opencse.evaluation import EmbeddingModel, load_sts, read_scored_pairs
from opencse.evaluation.embedding import distinct
from opencse.records import read_record, save_json
from opencse.text import sample
from scores import spearman_of
from vectors_of_texts import lengths, letters

PAIRS = read_scored_pairs(sample.TEST)


@pytest.fixture(scope="module")
def tiny(tiny_folder: Path) -> Subject:
    encoder = SentenceEncoder.load(tiny_folder, device="cpu")
    return Subject(EmbeddingModel("tiny", encoder.encode, "mean", "cpu"), encoder)


@pytest.mark.slow
def test_two_callables_on_pairs_and_text(sentences: list[str]) -> None:
    subjects = [Subject(EmbeddingModel("lengths", lengths)), Subject(EmbeddingModel("letters", letters))]
    found = inspect(subjects, AnalysisTexts(pairs=PAIRS, texts=sentences[:300], source="mine"), resamples=200)
    one = found.subjects[1]
    assert one.spearman == pytest.approx(spearman_of(letters, PAIRS))
    texts = distinct([PAIRS.first, PAIRS.second])
    assert one.geometry is not None
    assert one.geometry.uniformity == pytest.approx(geometry(letters(texts)).uniformity)
    assert one.geometry.positives is not None
    assert one.geometry.positives.n == int((PAIRS.scores > 4).sum())
    assert one.layers is None
    assert found.difference is not None
    first = found.subjects[0].spearman
    assert first is not None
    assert one.spearman is not None
    assert found.difference.difference == pytest.approx(one.spearman - first)
    assert found.neighbours is not None
    assert [list(asked.models) for asked in found.neighbours.queries] == [["lengths", "letters"]] * 4
    assert one.random_pairs is not None
    assert one.random_pairs.texts == len(set(sentences[:300]))
    again = inspect(subjects, AnalysisTexts(pairs=PAIRS, texts=sentences[:300], source="mine"), resamples=200)
    assert again.model_copy(update={"created": found.created}) == found, "every draw is seeded"


@pytest.mark.slow
def test_sts_decides_the_difference(small_sts: Path) -> None:
    data = load_sts(small_sts)
    subjects = [Subject(EmbeddingModel("lengths", lengths)), Subject(EmbeddingModel("letters", letters))]
    found = inspect(subjects, AnalysisTexts(pairs=PAIRS, sts=data), resamples=100)
    assert found.difference is not None
    assert set(found.difference.tasks) == set(data.tasks)
    before, after = (one.sts["sts.average"] for one in found.subjects if one.sts)
    assert found.difference.difference == pytest.approx(after - before)
    assert f"{before:.2f} to {after:.2f} on 7 STS tasks" in lead(found)


@pytest.mark.slow
def test_the_page_says_what_was_found(tiny: Subject, sentences: list[str], tmp_path: Path) -> None:
    subjects = [Subject(EmbeddingModel("lengths <b>", lengths)), tiny]
    found = inspect(subjects, AnalysisTexts(pairs=PAIRS, texts=sentences[:200], source="mine"), resamples=100)
    titles = [section.title for section in sections(found)]
    assert titles == [
        "Embedding geometry", "Similarity by gold score", "Length and overlap bias", "Layer by layer",
        "What a cosine means on your text", "Nearest neighbours",
    ]  # fmt: skip
    page = lead(found) + "".join(section.body for section in sections(found))
    assert "lengths &lt;b&gt;" in page
    assert "lengths <b>" not in page
    save_json(tmp_path / "f.json", found.model_dump(mode="json"))
    assert read_record(Findings, tmp_path / "f.json") == found


@pytest.mark.slow
def test_the_command(
    opencse: Run,
    tiny_folder: Path,
    small_sts: Path,
    tmp_path: Path,
    sentences: list[str],
) -> None:
    text = tmp_path / "mine.txt"
    write_lines(text, sentences[:60])
    words = tmp_path / "words.txt"
    known = dict.fromkeys(word for sentence in sentences for word in sentence.lower().split())
    words.write_text(
        "".join(f"{word} {number % 7} {number % 5} {number % 3 + 1}\n" for number, word in enumerate(known))
    )
    out = tmp_path / "out"
    stdout, _ = accepted(
        opencse(
            "analyze",
            tiny_folder,
            f"words:{words}",
            "--text",
            text,
            "--data",
            small_sts,
            "--query",
            "How cold is it?",
            "--out",
            out,
        )
    )
    assert stdout.strip() == str(out / "report.html")
    page = (out / "report.html").read_text()
    assert "How cold is it?" in page
    assert "<script" not in page
    assert "://" not in page.replace("http://www.w3.org/", "")
    told = json_in(out / "report.json")
    assert [one["name"] for one in told["subjects"]] == [tiny_folder.name, "words.txt"]
    assert f">{told['subjects'][0]['geometry']['positives']['alignment']:.3f}<" in page
    assert f"opencse evaluate words:{words} OTHER_MODEL" in page
