import errno
import json
import os
import re
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from transformers import ByT5Tokenizer

from corpora import TEXT, folders, repaired, same
from opencse.errors import UserError
from opencse.text import corpus as corpus_room
from opencse.text.corpus import cache_root, describe_cache, tokenise
from opencse.text.files.formats import RawRow
from opencse.text.given import TextSource
from opencse.text.readers import Source
from opencse.text.tokenising import CorpusCounts, GrowingArray, write_arrays
from opencse.text.tokenizer import Tokenizer


@pytest.mark.usefixtures("no_reading")
def test_the_first_time_the_source_is_read(tmp_path: Path, tokenizer: Tokenizer, cache: Path) -> None:
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
    other = Tokenizer(ByT5Tokenizer())
    assert (
        tokenise(source, other, 12, cache=cache).text_ids(0, 0).tolist()
        == other.encode(["The bread rises."], 12)[0].tolist()
    )
    assert len(tokenise(Source(source.location, skip_lines=frozenset({1})), tokenizer, 12, cache=cache)) == 4
    assert len(folders(cache)) == 4


def test_an_interrupted_write_leaves_nothing(
    source: Source, tokenizer: Tokenizer, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add = GrowingArray.add
    saved: list[np.ndarray] = []

    def interrupted(array: GrowingArray, values: np.ndarray) -> None:
        if len(saved) == 2:
            raise KeyboardInterrupt
        saved.append(values)
        add(array, values)

    monkeypatch.setattr(GrowingArray, "add", interrupted)
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
    def full(array: GrowingArray, values: np.ndarray) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(GrowingArray, "add", full)
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
    monkeypatch.setattr(corpus_room, "_checksum", lambda folder, words: os.urandom(8).hex())
    assert "the token cache cannot be read back; " in told(source, tokenizer, cache)


@pytest.mark.parametrize("name", ["ids.npy", "offsets.npy", "keys.npy", "documents.npy", "facts.json", "checksum"])
def test_a_damaged_corpus_is_made_again(source: Source, tokenizer: Tokenizer, cache: Path, name: str) -> None:
    tokenise(source, tokenizer, 12, cache=cache)
    (folder,) = folders(cache)
    first = tokenise(source, tokenizer, 12, cache=cache / "other")  # its files stay whole under the memory map
    copy = shutil.copytree(folder, cache / "copy")
    whole = (folder / name).read_bytes()
    flipped = whole[:-1] + bytes([whole[-1] ^ 1])
    zeroed = whole[:-9] + bytes(9)
    for damage in (b"", b"{}", whole[:-1], whole + b"\0", flipped, zeroed, None):
        if damage == whole:
            continue  # its end is zeros
        (folder / name).unlink()
        if damage is not None:
            (folder / name).write_bytes(damage)
        assert same(repaired(source, tokenizer, cache), first)
    for file in copy.iterdir():
        assert (folder / file.name).read_bytes() == file.read_bytes()


def test_damage_is_warned_of_where_nobody_listens(source: Source, tokenizer: Tokenizer, cache: Path) -> None:
    tokenise(source, tokenizer, 12, cache=cache)
    (folder,) = folders(cache)
    (folder / "ids.npy").unlink()
    with pytest.warns(UserWarning, match="token cache is damaged"):
        tokenise(source, tokenizer, 12, cache=cache)


def test_two_processes_repair_the_same_corpus_at_once(
    source: Source, tokenizer: Tokenizer, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both find it damaged; the other has mended it when this one is done."""
    first = tokenise(source, tokenizer, 12, cache=cache / "other")
    tokenise(source, tokenizer, 12, cache=cache)
    (folder,) = folders(cache)
    (folder / "ids.npy").unlink()
    read = Source.examples
    kept: list[int] = []

    def slow(source: Source) -> Iterator[tuple[RawRow, tuple[str, ...]]]:
        monkeypatch.setattr(Source, "examples", read)
        tokenise(source, tokenizer, 12, cache=cache, say=lambda line: None)
        kept.append((folder / "ids.npy").stat().st_ino)
        return read(source)

    monkeypatch.setattr(Source, "examples", slow)
    made = tokenise(source, tokenizer, 12, cache=cache, say=lambda line: None)
    assert same(made, first)
    assert kept == [(folder / "ids.npy").stat().st_ino], "the other's was replaced"
    assert folders(cache) == [folder]


def test_many_processes_make_one_corpus(source: Source, tiny_folder: Path, cache: Path) -> None:
    first = tokenise(source, Tokenizer.load(tiny_folder), 12, cache=cache / "other")
    (cache / "corpora").mkdir(parents=True)
    (cache / "corpora" / folders(cache / "other")[0].name).mkdir()  # damaged: nothing is in it
    with ThreadPoolExecutor(8) as pool:
        tokenizers = [Tokenizer.load(tiny_folder)] * 16
        made = list(pool.map(lambda t: tokenise(source, t, 12, cache=cache, say=lambda line: None), tokenizers))
    assert all(same(one, first) for one in made)
    assert len(folders(cache)) == 1


def test_what_a_killed_process_left_is_removed_a_day_later(source: Source, tokenizer: Tokenizer, cache: Path) -> None:
    old, new = cache / "corpora" / "a.1.tmp", cache / "corpora" / "a.2.tmp"
    for folder in (old, new):
        folder.mkdir(parents=True)
        (folder / "ids.npy").touch()
    os.utime(old, (0, 0))
    tokenise(source, tokenizer, 12, cache=cache)
    assert not old.exists()
    assert new.exists()


def test_what_was_begun_long_ago_is_continued(
    source: Source, tokenizer: Tokenizer, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = tokenise(source, tokenizer, 12, cache=cache)
    (folder,) = folders(cache)
    unfinished = folder.with_name(f"{folder.name}.tmp")
    folder.rename(unfinished)
    os.utime(unfinished, (0, 0))
    seen: list[set[str]] = []

    def spy(source: TextSource, folder: Path, *rest: Any, **more: Any) -> tuple[CorpusCounts, int]:
        seen.append({path.name for path in folder.iterdir()})
        return write_arrays(source, folder, *rest, **more)

    monkeypatch.setattr(corpus_room, "write_arrays", spy)
    assert same(tokenise(source, tokenizer, 12, cache=cache), made)
    assert "ids.npy" in seen[0]


def test_the_cache_is_tried_before_the_work(
    source: Source, tokenizer: Tokenizer, no_reading: None, cache: Path
) -> None:
    cache.write_text("a file")
    assert "the token cache cannot be written" in told(source, tokenizer, cache)


def test_the_cache_described(
    source: Source, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OPENCSE_CACHE", str(tmp_path / "a" / "b"))
    assert re.fullmatch(rf"{tmp_path}/a/b \(0\.0 MB; [\d,.]+ GB free\)", describe_cache())
    tokenise(source, tokenizer, 12)
    assert str(tmp_path / "a" / "b") in describe_cache()
    monkeypatch.setenv("OPENCSE_CACHE", f"{source.location}/cache")
    assert describe_cache().endswith(f"(cannot be written: {source.location} is a file)")
    monkeypatch.setenv("OPENCSE_CACHE", str(tmp_path / ("x" * 300)))
    assert "(cannot be read: " in describe_cache()


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
