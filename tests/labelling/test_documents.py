"""Documents of an index as a corpus: joined passages, ids, and what would break a file of lines."""

from __future__ import annotations

import json
from pathlib import Path

from opencse.encoder.encoder import SentenceEncoder
from opencse.labelling.pooling import LONGEST, documents_with_ids, write_corpus
from opencse.progress import Silent
from opencse.search.building import BuildSettings
from opencse.search.index import Index
from opencse.search.rows import IndexRow


def corpus(index: Index, path: Path, ids: tuple[str, ...] = (), digests: tuple[str, ...] = ()) -> list[dict[str, str]]:
    with index.snapshot() as snapshot:
        survey = write_corpus(snapshot, path, ids, digests, Silent())
    lines = path.read_text(encoding="utf-8").split("\n")
    assert lines.pop() == ""
    assert survey.documents == len(lines)
    assert path.read_text(encoding="utf-8").splitlines() == lines, "a reader that splits at other line ends"
    return [json.loads(line) for line in lines]


def test_all_documents_once_with_their_whole_text(tmp_path: Path, encoder: SentenceEncoder) -> None:
    long = " ".join(f"Sentence {i} of a long text." for i in range(200))
    rows = [IndexRow("Title\nShort text.", "s"), IndexRow(long, "l"), IndexRow("line\u2028end", "a\tb")]
    for number, overlap in enumerate((0, 20)):
        how = BuildSettings(max_length=40, overlap=overlap)
        with Index.build(tmp_path / str(number), rows, encoder, how=how) as index:
            assert index.info().rows > 20, "the long text has passages"
            index.add([IndexRow("More.", "m")])
            index.delete(["m"])
            written = {one["_id"]: one["text"] for one in corpus(index, tmp_path / "corpus.jsonl")}
            with index.snapshot() as snapshot:
                documents = documents_with_ids(snapshot, ["s", "a\tb", "missing"])
        assert written == {"s": "Title\nShort text.", "l": long, "escaped:a%09b": "line\u2028end"}
        assert {name: one.title for name, one in documents.items()} == {"s": "Title", "a\tb": ""}


def test_ids_and_hashes_that_are_looked_for(tmp_path: Path, encoder: SentenceEncoder) -> None:
    rows = [IndexRow("One.", "query-1"), IndexRow("Two.", "query-query-x"), IndexRow("Two.", "b")]
    with Index.build(tmp_path / "index", rows, encoder) as index, index.snapshot() as snapshot:
        digest = documents_with_ids(snapshot, ["b"])["b"].digest
        survey = write_corpus(snapshot, tmp_path / "corpus.jsonl", ["b", "gone"], [digest, "other"], Silent())
    assert survey.digests == {"b": digest}
    assert survey.ids == {digest: "query-query-x"}
    assert survey.query_prefix == "query-query-query-"


def test_huge_texts_are_shortened_so_that_they_can_be_read(tmp_path: Path, encoder: SentenceEncoder) -> None:
    with Index.build(tmp_path / "index", ["\x01" * (LONGEST + 5), "b"], encoder, how=BuildSettings(cut=False)) as index:
        with index.snapshot() as snapshot:
            survey = write_corpus(snapshot, tmp_path / "corpus.jsonl", [], [], Silent())
        assert (survey.documents, survey.shortened) == (2, 1)
    assert max(map(len, (tmp_path / "corpus.jsonl").read_text().splitlines())) < 10_000_000
