"""Keyword search by BM25, and its cache in the folder of an index."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.search import keyword_index
from opencse.search.index import Index
from opencse.search.keyword_index import KeywordIndex, best_rows
from opencse.text import sample
from search_texts import TEXTS

MANY = [line for line in sample.TRAIN.read_text(encoding="utf-8").splitlines() if line][:9]


def test_scores_are_bm25_as_lucene_computes_it() -> None:
    texts = ["cat cat dog", "dog", "rain on the roof"]
    lengths, mean = [3, 1, 4], 8 / 3
    idf = np.log(1 + (3 - 1 + 0.5) / (1 + 0.5))  # "cat" occurs in one of three texts
    expected = idf * 2 / (2 + 1.5 * (1 - 0.75 + 0.75 * lengths[0] / mean))
    scores = KeywordIndex.of(texts).scores("Cat")
    assert scores[0] == pytest.approx(expected, rel=1e-5)
    assert scores[1:].tolist() == [0, 0]


ASIAN = {
    "Japanese": ["機械学習の入門", "水を沸かす方法", "PythonでWebサーバーを作る", "東京都の天気"],
    "Chinese": ["深度学习入门", "如何烧水", "用Python写网络服务器", "北京的天气"],
    "Korean": ["기계 학습을 배우는 방법", "물을 끓이는 방법", "Python으로 서버를 만든다", "서울의 날씨가 좋다"],
    "Thai": ["การเรียนรู้ของเครื่อง", "วิธีต้มน้ำ", "สร้างเว็บเซิร์ฟเวอร์ด้วยPython", "อากาศในกรุงเทพ"],
    "Lao": ["ການຮຽນຮູ້ຂອງເຄື່ອງ", "ວິທີຕົ້ມນ້ຳ", "ສ້າງດ້ວຍPython", "ອາກາດໃນວຽງຈັນ"],
    "Khmer": ["ការរៀនម៉ាស៊ីន", "របៀបដាំទឹក", "បង្កើតម៉ាស៊ីនមេដោយPython", "អាកាសធាតុនៅភ្នំពេញ"],
    "Burmese": ["စက်သင်ယူမှု", "ရေနွေးကျိုနည်း", "Pythonဖြင့်ဆာဗာ", "ရန်ကုန်ရာသီဥတု"],
}
QUERIES = {
    "Japanese": ["学習", "水", "python サーバー", "天気"],
    "Chinese": ["学习", "水", "python服务器", "天气"],
    "Korean": ["학습", "물", "python 서버", "날씨"],
    "Thai": ["เรียนรู้", "น้ำ", "python เซิร์ฟเวอร์", "อากาศ"],
    "Lao": ["ຮຽນຮູ້", "ນ້ຳ", "python", "ອາກາດ"],
    "Khmer": ["រៀន", "ទឹក", "python ម៉ាស៊ីន", "អាកាស"],
    "Burmese": ["သင်ယူ", "ရေနွေး", "python ဆာဗာ", "ရာသီ"],
}


@pytest.mark.parametrize("language", list(ASIAN))
def test_a_query_finds_its_text_where_words_have_no_spaces(language: str) -> None:
    words = KeywordIndex.of(ASIAN[language])
    for row, query in enumerate(QUERIES[language]):
        scores = words.scores(query)
        assert scores.argmax() == row, (query, scores)
        assert (scores == scores[row]).sum() == 1


def test_best_rows_match_a_sort() -> None:
    scores = np.random.default_rng(0).integers(0, 6, 200).astype(np.float64)
    for most in (1, 7, 50, 500):
        expected = sorted((row for row in range(200) if scores[row] > 0), key=lambda row: (-scores[row], row))
        assert best_rows(scores, most).tolist() == expected[:most]
    assert best_rows(np.zeros(3), 2).tolist() == []


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
    assert caches(index.folder) == []
    first = search(index.folder, mini)
    assert [search(index.folder, mini) for _ in range(2)] == [first, first]
    assert counted == [5]
    (name,) = caches(index.folder)
    index.add([{"text": "The late cat.", "id": "new"}])
    assert caches(index.folder) == [name]  # of the version before; no longer read
    assert search(index.folder, mini)[0][0] == "new"
    assert counted == [5, 6]
    index.delete(["new"])
    assert search(index.folder, mini) == first
    assert counted == [5, 6, 5]
    assert len(caches(index.folder)) == 1
    assert caches(index.folder) != [name]
    with pytest.raises(UserError):
        index.delete(["nowhere"])
    assert search(index.folder, mini) == first
    assert counted == [5, 6, 5]  # a failed change deletes nothing
    Index.build(index.folder, TEXTS[:2], mini, overwrite=True)
    assert caches(index.folder) == []


def test_damaged_words_are_counted_again(index: Index, mini: SentenceEncoder, counted: list[int]) -> None:
    first = search(index.folder, mini)
    (name,) = caches(index.folder)
    folder = index.folder / name
    for path in sorted(folder.iterdir()):
        whole = path.read_bytes()
        for wrong in (None, b"", whole[:-1], whole[: len(whole) // 2]):
            shutil.copytree(folder, index.folder / "aside")
            path.unlink() if wrong is None else path.write_bytes(wrong)
            if wrong == whole[: len(whole) // 2] and path.name != keyword_index._SIZES:  # as if the sizes were right
                sizes = keyword_index._sizes(folder)
                (folder / keyword_index._SIZES).write_text(json.dumps(sizes))
            before = len(counted)
            assert search(index.folder, mini) == first
            assert len(counted) == before + 1, (path.name, wrong)
            shutil.rmtree(folder)
            (index.folder / "aside").rename(folder)
    sizes = json.loads((folder / keyword_index._SIZES).read_text())
    assert len(sizes) == 5


def test_the_cache_of_another_index_is_not_used(
    index: Index, tmp_path: Path, mini: SentenceEncoder, counted: list[int]
) -> None:
    first = search(index.folder, mini)
    other = Index.build(tmp_path / "other", MANY, mini)
    search(other.folder, mini)
    (name,), (foreign,) = caches(index.folder), caches(other.folder)
    assert name != foreign
    shutil.rmtree(index.folder / name)
    shutil.copytree(other.folder / foreign, index.folder / name)
    assert search(index.folder, mini) == first
    assert counted == [5, 9, 5]


def test_a_folder_that_cannot_be_written_is_still_searched(
    index: Index, mini: SentenceEncoder, counted: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(KeywordIndex, "save", full)
        first = search(index.folder, mini)
    assert caches(index.folder) == []
    assert search(index.folder, mini) == first
    assert counted == [5, 5]
    assert len(caches(index.folder)) == 1


def test_texts_without_words(tmp_path: Path, mini: SentenceEncoder) -> None:
    index = Index.build(tmp_path / "i", ["...", "!"], mini)
    assert [hit.id for hit in index.search(["cat"], 2, hybrid=True)[0]] == [
        hit.id for hit in index.search(["cat"], 2)[0]
    ]
    assert caches(index.folder) == []


def test_words_of_a_language_without_spaces() -> None:
    keywords = KeywordIndex.of(["今天天气很好", "深度学习很好用", "他在学校里学习深度"])
    assert best_rows(keywords.scores("深度学习"), 3).tolist() == [1, 2]
    assert best_rows(keywords.scores("天气"), 3).tolist() == [0]
    assert not keywords.scores("不是").any()


def test_a_cache_of_another_tokenisation_or_stemmer_is_not_read(
    index: Index, mini: SentenceEncoder, counted: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = search(index.folder, mini)
    (name,) = caches(index.folder)
    with monkeypatch.context() as patch:
        patch.setattr(keyword_index, "_COUNTING", 2)
        search(index.folder, mini)
    with monkeypatch.context() as patch:
        patch.setattr(keyword_index, "rules_version", lambda: "2.2.0")
        search(index.folder, mini)
    assert counted == [5, 5, 5]
    assert search(index.folder, mini) == first
    assert caches(index.folder) == [name]
