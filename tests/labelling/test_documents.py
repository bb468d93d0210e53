"""Documents of an index as a corpus: joined passages, ids, and what would break a file of lines."""

from __future__ import annotations

import csv
import json
from pathlib import Path

from opencse.encoder.encoder import SentenceEncoder
from opencse.labelling.documents import LONGEST, documents_with_ids, json_line, write_corpus
from opencse.progress import Silent
from opencse.search.building import BuildSettings
from opencse.search.index import Index
from opencse.search.rows import IndexRow, exported_id

IDS = ["7", "007", "docs/a b.html", "a\tb", "a\nb", "a%09b", "escaped:a%09b", '"quoted"', "ü\u2028é", "a\rb", "a\x85b"]


def corpus(index: Index, path: Path, ids: tuple[str, ...] = (), digests: tuple[str, ...] = ()) -> list[dict[str, str]]:
    with index.snapshot() as snapshot:
        survey = write_corpus(snapshot, path, ids, digests, Silent())
    lines = path.read_text(encoding="utf-8").split("\n")
    assert lines.pop() == ""
    assert survey.documents == len(lines)
    assert path.read_text(encoding="utf-8").splitlines() == lines, "a reader that splits at other line ends"
    return [json.loads(line) for line in lines]


def test_different_ids_stay_different_in_a_table_of_tabs(tmp_path: Path) -> None:
    names = [exported_id(one) for one in IDS]
    assert names[:3] == IDS[:3]
    assert len(set(names)) == len(IDS)
    file = tmp_path / "qrels.tsv"
    file.write_text("".join(f"q\t{name}\t1\n" for name in names), encoding="utf-8")
    with file.open(newline="", encoding="utf-8") as stream:
        assert [row[1] for row in csv.reader(stream, delimiter="\t")] == names


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
                documents = documents_with_ids(snapshot, ["s", "missing"])
        assert written == {"s": "Title\nShort text.", "l": long, "escaped:a%09b": "line\u2028end"}
        assert (list(documents), documents["s"].title) == (["s"], "Title")


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


def test_a_line_of_json_is_one_line() -> None:
    value = {"_id": "a", "text": "x\ny\u2028z\x85ü"}
    line = json_line(value)
    assert json.loads(line) == value
    assert line.splitlines() == [line[:-1]]
