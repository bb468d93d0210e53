import errno
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer as RustTokenizer
from tokenizers.models import WordLevel
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from opencse.errors import UserError
from opencse.text import corpus as corpus_module
from opencse.text.corpus import Corpus, cache_root, text_key, tokenise
from opencse.text.readers import Source
from opencse.text.tokenizer import Tokenizer

TEXT = "The bread rises.\nA  cat sleeps\tin the sun.\n\nA cat sleeps in the sun.\n\n" + "word " * 30 + "\nThe end.\n"


@pytest.fixture(scope="module")
def tokenizer(tiny_folder: Path) -> Tokenizer:
    return Tokenizer.load(tiny_folder)


@pytest.fixture
def source(tmp_path: Path) -> Source:
    path = tmp_path / "a.txt"
    path.write_text(TEXT)
    return Source(str(path))


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def words(count: int) -> Tokenizer:
    """A tokenizer of ``count`` words w0, w1, ..., without special tokens; other words are w0."""
    backend = RustTokenizer(WordLevel({f"w{n}": n for n in range(count)}, unk_token="w0"))
    backend.normalizer = BertNormalizer(clean_text=True)
    backend.pre_tokenizer = WhitespaceSplit()
    fast = PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="w0", pad_token="w1")  # type: ignore[no-untyped-call]
    return Tokenizer(fast)


def folders(cache: Path) -> list[Path]:
    return sorted((cache / "corpora").iterdir())


def same(a: Corpus, b: Corpus) -> bool:
    pairs = [(a.ids, b.ids), (a.offsets, b.offsets), (a.keys, b.keys), (a.documents, b.documents)]
    return a.facts == b.facts and all(np.array_equal(x, y) for x, y in pairs)


@pytest.fixture
def no_reading(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whoever reads a source fails."""

    def refuse(source: Source) -> None:
        raise AssertionError(f"{source.location} was read again")

    with monkeypatch.context() as patch:
        patch.setattr(Source, "read", refuse)
        yield


def test_ids_offsets_keys_and_documents(source: Source, tokenizer: Tokenizer, tiny_folder: Path, cache: Path) -> None:
    corpus = tokenise(source, tokenizer, 12, cache=cache)
    direct = AutoTokenizer.from_pretrained(tiny_folder)
    texts = [" ".join(line.split()) for line in TEXT.splitlines() if line]
    ids = direct(texts, truncation=True, max_length=12)["input_ids"]
    assert [corpus.text_ids(row, 0).tolist() for row in range(5)] == ids
    assert corpus.ids.tolist() == [token for row in ids for token in row]
    assert corpus.offsets.tolist() == [0, *np.cumsum([len(row) for row in ids])]
    assert corpus.documents.tolist() == [0, 0, 1, 2, 2]
    assert (len(corpus), corpus.width, corpus.keys.shape) == (5, 1, (5, 1))
    keys = corpus.keys[:, 0].tolist()
    assert keys[1] == keys[2]
    assert len(set(keys)) == 4


def test_facts(source: Source, tokenizer: Tokenizer, cache: Path) -> None:
    corpus = tokenise(source, tokenizer, 12, cache=cache)
    facts = corpus.facts
    assert (facts.source, facts.fingerprint) == (source.location, source.fingerprint())
    assert (facts.rows, facts.width, facts.max_length) == (5, 1, 12)
    assert (facts.duplicates, facts.documents) == (1, 3)
    assert facts.tokens == np.diff(corpus.offsets).sum() == len(corpus.ids)
    uncut = sorted(len(tokenizer.hf(text)["input_ids"]) for text in TEXT.splitlines() if text)
    assert facts.at_limit == sum(length >= 12 for length in uncut) == 3
    for limit in (uncut[-1], uncut[-1] + 1):
        reached = tokenise(source, tokenizer, limit, cache=cache).facts.at_limit
        assert reached == (1 if limit == uncut[-1] else 0)


def test_rows_of_three_and_no_documents(tmp_path: Path, tokenizer: Tokenizer, cache: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("anchor,positive,negative\na,b,c\na,b,d\na, b,c\nb,a,c\n")
    corpus = tokenise(Source(str(path)), tokenizer, 8, cache=cache)
    assert (corpus.width, corpus.keys.shape, corpus.offsets.shape) == (3, (4, 3), (13,))
    assert (corpus.facts.duplicates, corpus.facts.documents) == (1, 0)
    assert corpus.documents.tolist() == [0, 0, 0, 0]
    for row, texts in enumerate(("abc", "abd", "abc", "bac")):
        for column, text in enumerate(texts):
            assert corpus.text_ids(row, column).tolist() == tokenizer.hf(text)["input_ids"]
            assert corpus.keys[row, column] == text_key(text)


def test_keys_are_the_same_everywhere_and_blind_to_white_space() -> None:
    assert text_key("A cat sleeps.") == -5577966672486710948
    assert text_key(" A\tcat \u00a0\n sleeps.") == text_key("A cat sleeps.")
    assert len({text_key(text) for text in ("A cat sleeps.", "a cat sleeps.", "A cat sleeps", "Acat sleeps.")}) == 4


def test_arrays_are_memory_mapped_and_texts_are_copies(source: Source, tokenizer: Tokenizer, cache: Path) -> None:
    corpus = tokenise(source, tokenizer, 12, cache=cache)
    for array in (corpus.ids, corpus.offsets, corpus.keys, corpus.documents):
        assert isinstance(array, np.memmap)
        assert not array.flags.writeable
    ids = corpus.text_ids(0, 0)
    assert ids.dtype == np.int32
    assert type(ids) is np.ndarray
    assert ids.flags.writeable
    ids[:] = 0
    assert corpus.text_ids(0, 0).all()


@pytest.mark.usefixtures("no_reading")
def test_the_second_time_it_comes_from_the_cache(tmp_path: Path, tokenizer: Tokenizer, cache: Path) -> None:
    path = tmp_path / "b.txt"
    path.write_text(TEXT)
    with pytest.raises(AssertionError, match="read again"):
        tokenise(Source(str(path)), tokenizer, 12, cache=cache)


def test_the_cache_serves_equal_content_under_its_own_name(
    source: Source, tokenizer: Tokenizer, tiny_folder: Path, cache: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    first = tokenise(source, tokenizer, 12, cache=cache)
    tokenizer.encode(["some other use of the tokenizer"], 5)
    copy = tmp_path / "copy.txt"
    copy.write_text(TEXT)
    request.getfixturevalue("no_reading")
    calls: list[tuple[int, int]] = []
    again = tokenise(
        source, Tokenizer.load(tiny_folder), 12, cache=cache, progress=lambda done, total: calls.append((done, total))
    )
    assert same(again, first)
    assert calls == []
    assert tokenise(Source(str(copy)), tokenizer, 12, cache=cache).facts.source == str(copy)
    assert len(folders(cache)) == 1


def test_another_length_tokenizer_or_text_is_another_corpus(source: Source, tokenizer: Tokenizer, cache: Path) -> None:
    tokenise(source, tokenizer, 12, cache=cache)
    assert tokenise(source, tokenizer, 13, cache=cache).facts.max_length == 13
    assert tokenise(source, words(9), 12, cache=cache).ids.tolist() == [0] * (3 + 6 + 6 + 12 + 2)
    assert len(tokenise(Source(source.location, skip_lines=frozenset({1})), tokenizer, 12, cache=cache)) == 4
    assert len(folders(cache)) == 4


def test_the_smallest_whole_number_that_holds_the_ids(tmp_path: Path, cache: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("w1 w65535\nw2\n")
    large = words(65_537)
    small = tokenise(Source(str(path)), large, 8, cache=cache)
    assert small.ids.dtype == np.uint16
    assert small.ids.tolist() == [1, 65_535, 2]
    path.write_text("w1 w65536\nw2\n")
    wide = tokenise(Source(str(path)), large, 8, cache=cache)
    assert wide.ids.dtype == np.int32
    assert wide.ids.tolist() == [1, 65_536, 2]
    ids = wide.text_ids(0, 0)
    assert ids.tolist() == [1, 65_536]
    assert type(ids) is np.ndarray
    assert ids.flags.writeable


def test_progress_is_told_in_rows(
    tmp_path: Path, tokenizer: Tokenizer, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.csv"
    path.write_text("anchor,positive\n" + "".join(f"a {n},b {n}\n" for n in range(5)))
    whole = tokenise(Source(str(path)), tokenizer, 8, cache=cache)
    monkeypatch.setattr(corpus_module, "_CHUNK", 4)
    calls: list[tuple[int, int]] = []
    chunked = tokenise(
        Source(str(path)),
        tokenizer,
        8,
        cache=cache / "other",
        progress=lambda done, total: calls.append((done, total)),
    )
    assert calls == [(2, 5), (4, 5), (5, 5)]
    assert same(chunked, whole)


def test_an_interrupted_write_leaves_nothing(
    source: Source, tokenizer: Tokenizer, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save = np.save
    saved: list[Path] = []

    def interrupted(path: Path, array: np.ndarray) -> None:
        if len(saved) == 2:
            raise KeyboardInterrupt
        saved.append(path)
        save(path, array)

    monkeypatch.setattr(np, "save", interrupted)
    with pytest.raises(KeyboardInterrupt):
        tokenise(source, tokenizer, 12, cache=cache)
    assert len(saved) == 2
    assert folders(cache) == []
    monkeypatch.undo()
    assert len(tokenise(source, tokenizer, 12, cache=cache)) == 5


def told(source: Source, tokenizer: Tokenizer, cache: Path) -> str:
    with pytest.raises(UserError) as caught:
        tokenise(source, tokenizer, 12, cache=cache)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_full_disk(source: Source, tokenizer: Tokenizer, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, array: np.ndarray) -> None:
        path.write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(np, "save", full)
    assert told(source, tokenizer, cache) == (
        f"{cache / 'corpora'}: the token cache cannot be written ([Errno 28] No space left on device); "
        "make room there, or name another folder in the environment variable OPENCSE_CACHE"
    )
    assert folders(cache) == []


def test_cache_folder_that_cannot_be_made(source: Source, tokenizer: Tokenizer, tmp_path: Path) -> None:
    blocked = tmp_path / "blocked"
    blocked.write_text("a file")
    message = told(source, tokenizer, blocked)
    assert message.startswith(f"{blocked / 'corpora'}: the token cache cannot be written (")
    assert message.endswith("OPENCSE_CACHE")


def test_cache_that_cannot_be_read_back(
    source: Source, tokenizer: Tokenizer, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(path: Path, array: np.ndarray) -> None:
        path.write_bytes(b"")

    monkeypatch.setattr(np, "save", lost)
    assert "the token cache cannot be read back; " in told(source, tokenizer, cache)


@pytest.mark.parametrize("name", ["ids.npy", "keys.npy", "facts.json"])
def test_a_damaged_corpus_is_made_again(source: Source, tokenizer: Tokenizer, cache: Path, name: str) -> None:
    tokenise(source, tokenizer, 12, cache=cache)
    (folder,) = folders(cache)
    first = tokenise(source, tokenizer, 12, cache=cache / "other")  # its files stay whole under the memory map
    copy = shutil.copytree(folder, cache / "copy")
    for damage in (b"", b"{}", (folder / name).read_bytes()[:-1]):
        (folder / name).unlink()
        (folder / name).write_bytes(damage)
        assert same(tokenise(source, tokenizer, 12, cache=cache), first)
    (folder / name).unlink()
    assert same(tokenise(source, tokenizer, 12, cache=cache), first)
    assert folders(cache) == [folder]
    for file in copy.iterdir():
        assert (folder / file.name).read_bytes() == file.read_bytes()


def test_another_process_may_finish_first(
    source: Source, tokenizer: Tokenizer, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = Path.rename
    races: list[Path] = []

    def late(path: Path, target: Path) -> Path:
        shutil.copytree(path, target)
        races.append(target)
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", late)
    corpus = tokenise(source, tokenizer, 12, cache=cache)
    assert len(corpus) == 5
    assert folders(cache) == races


def test_text_without_a_token(tmp_path: Path, cache: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("w1\n\u200b\u200b\nw2\n")
    message = told(Source(str(path)), words(3), cache)
    assert message == f"{path}: the tokenizer makes no token of the text '\\u200b\\u200b'; drop it"
    assert not (cache / "corpora").exists()


def test_where_the_cache_is(
    monkeypatch: pytest.MonkeyPatch, source: Source, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("OPENCSE_CACHE")
    assert cache_root() == Path("/home/someone/.cache/opencse")
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/cache")
    assert cache_root() == Path("/var/cache/opencse")
    monkeypatch.setenv("OPENCSE_CACHE", str(tmp_path / "own"))
    assert cache_root() == tmp_path / "own"
    tokenise(source, tokenizer, 12)
    (folder,) = folders(tmp_path / "own")
    assert re.fullmatch(r"[0-9a-f]{32}", folder.name)
    assert json.loads((folder / "facts.json").read_text())["rows"] == 5


def test_no_home_for_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("OPENCSE_CACHE")
    monkeypatch.setattr(Path, "home", homeless)
    with pytest.raises(UserError, match=r"no folder for the token cache \(Could not determine.*OPENCSE_CACHE$"):
        cache_root()
