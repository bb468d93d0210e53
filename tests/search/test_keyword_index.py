"""Keyword search by BM25, and its cache in the folder of an index."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from opencse.encoder.encoder import SentenceEncoder
from opencse.search.index import Index
from opencse.search.keyword_index import KeywordIndex
from search_texts import TEXTS


def test_scores_are_bm25_as_lucene_computes_it() -> None:
    texts = ["cat cat dog", "dog", "rain on the roof"]
    lengths, mean = [3, 1, 4], 8 / 3
    idf = np.log(1 + (3 - 1 + 0.5) / (1 + 0.5))  # "cat" occurs in one of three texts
    expected = idf * 2 / (2 + 1.5 * (1 - 0.75 + 0.75 * lengths[0] / mean))
    scores = KeywordIndex.of(texts).scores("Cat")
    assert scores[0] == pytest.approx(expected, rel=1e-5)
    assert scores[1:].tolist() == [0, 0]


def test_accents_need_not_be_typed_and_count_where_they_are() -> None:
    for language in (None, "french"):
        index = KeywordIndex.of(["le café ouvert", "le cafe ouvert", "la pluie"], language)
        with_accent, without = index.scores("café"), index.scores("cafe")
        assert with_accent[0] > with_accent[1] > with_accent[2] == 0
        assert min(without[:2]) > without[2] == 0


ASIAN = {
    "Japanese": (["機械学習の入門", "水を沸かす方法", "PythonでWebサーバーを作る"], ["学習", "水", "python サーバー"]),
    "Chinese": (["深度学习入门", "如何烧水", "用Python写网络服务器"], ["学习", "水", "python服务器"]),
    "Korean": (
        ["기계 학습을 배우는 방법", "물을 끓이는 방법", "Python으로 서버를 만든다"],
        ["학습", "물", "python 서버"],
    ),
    "Thai": (["การเรียนรู้ของเครื่อง", "วิธีต้มน้ำ", "สร้างเว็บเซิร์ฟเวอร์ด้วยPython"], ["เรียนรู้", "น้ำ", "python เซิร์ฟเวอร์"]),
    "Khmer": (["ការរៀនម៉ាស៊ីន", "របៀបដាំទឹក", "បង្កើតម៉ាស៊ីនមេដោយPython"], ["រៀន", "ទឹក", "python ម៉ាស៊ីន"]),
}


def test_a_query_finds_its_text_where_words_have_no_spaces() -> None:
    for language, (texts, queries) in ASIAN.items():
        words = KeywordIndex.of(texts)
        for row, query in enumerate(queries):
            scores = words.scores(query)
            assert scores.argmax() == row, (language, query, scores)
            assert (scores == scores[row]).sum() == 1


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """BuildSettings many texts were counted, each time that words were."""
    counts: list[int] = []
    real = KeywordIndex.of

    def of(texts: list[str], language: str | None = None) -> KeywordIndex:
        counts.append(len(texts))
        return real(texts, language)

    monkeypatch.setattr(KeywordIndex, "of", of)
    return counts


def search(folder: Path, encoder: SentenceEncoder) -> list[tuple[str, float]]:
    with Index.open(folder, encoder=encoder) as opened:
        return [(hit.id, hit.score) for hit in opened.search(["the late cat"], 9, hybrid=True)[0]]


def caches(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("words-*"))


def test_words_are_counted_once_for_each_version(index: Index, mini: SentenceEncoder, counted: list[int]) -> None:
    first = search(index.folder, mini)
    assert search(index.folder, mini) == first
    assert counted == [5]
    (name,) = caches(index.folder)
    index.add([{"text": "The late cat.", "id": "new"}])
    assert search(index.folder, mini)[0][0] == "new"
    index.delete(["new"])
    assert search(index.folder, mini) == first
    assert counted == [5, 6, 5]
    assert len(caches(index.folder)) == 1
    assert caches(index.folder) != [name]
    Index.build(index.folder, TEXTS[:2], mini, overwrite=True)
    assert caches(index.folder) == []


def test_damaged_words_are_counted_again(index: Index, mini: SentenceEncoder, counted: list[int]) -> None:
    first = search(index.folder, mini)
    (name,) = caches(index.folder)
    folder = index.folder / name
    for path in sorted(folder.iterdir()):
        whole = path.read_bytes()
        for wrong in (None, whole[: len(whole) // 2]):
            shutil.copytree(folder, index.folder / "aside")
            path.unlink() if wrong is None else path.write_bytes(wrong)
            before = len(counted)
            assert search(index.folder, mini) == first
            assert len(counted) == before + 1, (path.name, wrong)
            shutil.rmtree(folder)
            (index.folder / "aside").rename(folder)
