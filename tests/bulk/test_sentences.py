"""Vectors of documents come with the document and the text of each."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import opencse
from helpers import Heard
from opencse.bulk import sentences
from opencse.bulk.sentences import sentences_file, write_sentences
from opencse.crash_safe import ResumableFile
from opencse.errors import InterruptedRunError, UserError
from opencse.text.given import DocumentTexts, open_texts

EXPECTED = [
    {"id": "a.md#kettles", "text": "Fill it."},
    {"id": "a.md#kettles", "text": "Switch it on."},
    {"id": "b.txt", "text": "Snow fell all night."},
]


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    folder = tmp_path / "documents"
    folder.mkdir()
    (folder / "a.md").write_text("# Kettles\n\nFill it. Switch it on.\n", encoding="utf-8")
    (folder / "b.txt").write_text("Snow fell all night.\n", encoding="utf-8")
    return folder


def lines(file: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize(("out", "named"), [("v.npy", "v.sentences.jsonl"), ("v.2", "v.2/sentences.jsonl")])
def test_a_file_and_a_folder_have_the_document_of_each_vector(
    documents: Path, tmp_path: Path, out: str, named: str
) -> None:
    heard = Heard()
    written = opencse.encode("opencse-mini", documents, tmp_path / out, device="cpu", progress=heard)
    assert sentences_file(tmp_path / out) == tmp_path / named
    assert lines(tmp_path / named) == EXPECTED
    assert written.rows == len(EXPECTED)
    vectors = np.load(tmp_path / out if out.endswith(".npy") else tmp_path / out / "part-00000.npy")
    np.testing.assert_allclose(vectors[2], opencse.load("opencse-mini").encode(EXPECTED[2]["text"]), atol=1e-6)
    assert f"sentences  {tmp_path / named}: the id of the document and the text of each vector" in heard.said
    if not out.endswith(".npy"):  # a folder is continued, and is complete already
        assert opencse.encode("opencse-mini", documents, tmp_path / out, device="cpu").rows == len(EXPECTED)


def test_json_lines_have_the_document_too(documents: Path) -> None:
    stream = io.StringIO()
    opencse.encode("opencse-mini", documents, stream, device="cpu")
    written = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [{"id": one["id"], "text": one["text"]} for one in written] == EXPECTED


def test_documents_without_ids_are_numbered_as_in_an_index(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("title,text\nKettles,Fill it.\n,\nSnow,It fell.\n", encoding="utf-8")
    opencse.encode("opencse-mini", path, tmp_path / "v.npy", fields=["title", "text"], device="cpu")
    assert [one["id"] for one in lines(tmp_path / "v.sentences.jsonl")] == ["0", "1"]


def test_a_file_of_another_is_not_replaced(documents: Path, tmp_path: Path) -> None:
    (tmp_path / "v.sentences.jsonl").write_text("mine\n", encoding="utf-8")
    for overwrite in (False, True):
        with pytest.raises(UserError, match=r"v\.sentences\.jsonl"):
            opencse.encode("opencse-mini", documents, tmp_path / "v.npy", device="cpu", overwrite=overwrite)
    assert not (tmp_path / "v.npy").exists()


def test_the_text_is_not_replaced_where_it_has_the_name_of_the_sentences(tmp_path: Path) -> None:
    """Its lines have an id and a text, as those of an earlier call, which --overwrite replaced."""
    path = tmp_path / "v.sentences.jsonl"
    content = json.dumps({"id": "a", "text": "Fill it. Switch it on."}) + "\n"
    path.write_text(content, encoding="utf-8")
    for overwrite in (False, True):
        with pytest.raises(UserError, match=r"v\.sentences\.jsonl: is also an input"):
            opencse.encode("opencse-mini", path, tmp_path / "v.npy", fields=["text"], device="cpu", overwrite=overwrite)
    assert path.read_text(encoding="utf-8") == content
    opencse.encode("opencse-mini", path, tmp_path / "v.npy", column="text", device="cpu")  # vector i is of line i of it
    opencse.encode("opencse-mini", path, tmp_path / "v.npy", column="text", device="cpu", overwrite=True)


def test_lines_with_further_keys_are_not_replaced(documents: Path, tmp_path: Path) -> None:
    (tmp_path / "v.sentences.jsonl").write_text('{"id": "1", "text": "Mine.", "year": 2020}\n', encoding="utf-8")
    with pytest.raises(UserError, match=r"v\.sentences\.jsonl: exists and is no result of this command"):
        opencse.encode("opencse-mini", documents, tmp_path / "v.npy", device="cpu", overwrite=True)


def test_vectors_of_rows_are_not_written_next_to_sentences_of_other_vectors(documents: Path, tmp_path: Path) -> None:
    """Line i of the sentences was read as the text of vector i, which is of another text."""
    opencse.encode("opencse-mini", documents, tmp_path / "v.npy", device="cpu")
    rows, before = tmp_path / "rows.txt", (tmp_path / "v.npy").read_bytes()
    rows.write_text("One.\nTwo.\nThree.\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"v\.sentences\.jsonl: has the documents of other vectors than those of"):
        opencse.encode("opencse-mini", rows, tmp_path / "v.npy", device="cpu", overwrite=True)
    assert (tmp_path / "v.npy").read_bytes() == before


@pytest.mark.parametrize("out", ["v.npy", "v"])
@pytest.mark.parametrize(("fault", "error"), [(KeyboardInterrupt, InterruptedRunError), (OSError, UserError)])
def test_the_same_call_continues_where_the_sentences_could_not_be_written(
    documents: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, out: str, fault: type[BaseException],
    error: type[Exception],
) -> None:  # fmt: skip
    def stopped(source: DocumentTexts) -> Iterator[dict[str, str]]:
        raise fault

    with monkeypatch.context() as patched:
        patched.setattr(sentences, "sentences_of", stopped)
        with pytest.raises(error):
            opencse.encode("opencse-mini", documents, tmp_path / out, device="cpu")
    assert not (tmp_path / "v.npy").exists()
    opencse.encode("opencse-mini", documents, tmp_path / out, device="cpu")
    assert lines(sentences_file(tmp_path / out)) == EXPECTED
    assert {path.name for path in tmp_path.iterdir()} <= {"documents", "v", "v.npy", "v.sentences.jsonl"}


def test_the_same_call_continues_after_a_kill_between_the_sentences_and_the_vectors(
    documents: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(_: ResumableFile) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(ResumableFile, "finish", stopped)
        with pytest.raises(InterruptedRunError):
            opencse.encode("opencse-mini", documents, tmp_path / "v.npy", device="cpu")
    opencse.encode("opencse-mini", documents, tmp_path / "v.npy", device="cpu")
    assert lines(tmp_path / "v.sentences.jsonl") == EXPECTED


def test_a_text_that_changes_while_it_is_read_is_reported(documents: Path, tmp_path: Path) -> None:
    source = open_texts(documents)
    assert isinstance(source, DocumentTexts)
    with pytest.raises(UserError, match=r"changed while it was read \(4 texts, then 3\)"):
        write_sentences(source, tmp_path / "sentences.jsonl", 4)
    assert not (tmp_path / "sentences.jsonl").exists()


def test_rows_of_a_table_have_the_numbers_of_their_vectors(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("text\nKettles.\n", encoding="utf-8")
    opencse.encode("opencse-mini", path, tmp_path / "v.npy", device="cpu")
    assert not (tmp_path / "v.sentences.jsonl").exists()
