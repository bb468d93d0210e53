import errno
from pathlib import Path

import numpy as np
import pytest
from transformers import AutoTokenizer, ByT5Tokenizer

from corpora import TEXT, folders, repaired, same
from helpers import write_lines
from opencse.errors import UserError
from opencse.text import tokenising
from opencse.text.corpus import text_key, tokenise
from opencse.text.readers import Source
from opencse.text.template import ColumnPrompts
from opencse.text.tokenising import GrowingArray, Tokenising
from opencse.text.tokenizer import Tokenizer


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
    facts = corpus.facts
    assert (facts.rows, facts.width, facts.max_length, facts.duplicates, facts.documents) == (5, 1, 12, 1, 3)
    assert facts.tokens == len(corpus.ids)
    assert facts.at_limit == sum(len(tokenizer.hf(text)["input_ids"]) >= 12 for text in texts)


def test_keys_are_the_same_everywhere_and_blind_to_white_space() -> None:
    assert text_key("A cat sleeps.") == -5577966672486710948
    assert text_key(" A\tcat \u00a0\n sleeps.") == text_key("A cat sleeps.")
    assert len({text_key(text) for text in ("A cat sleeps.", "a cat sleeps.", "A cat sleeps", "Acat sleeps.")}) == 4


def test_the_cache_serves_equal_content_under_its_own_name(
    source: Source, tokenizer: Tokenizer, tiny_folder: Path, cache: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    first = tokenise(source, tokenizer, 12, cache=cache)
    tokenizer.encode(["some other use of the tokenizer"], 5)
    copy = tmp_path / "copy.txt"
    copy.write_text(TEXT)
    request.getfixturevalue("no_reading")
    assert same(tokenise(source, Tokenizer.load(tiny_folder), 12, cache=cache), first)
    assert tokenise(Source(str(copy)), tokenizer, 12, cache=cache).facts.source == str(copy)
    assert len(folders(cache)) == 1


def test_another_length_tokenizer_or_text_is_another_corpus(source: Source, tokenizer: Tokenizer, cache: Path) -> None:
    tokenise(source, tokenizer, 12, cache=cache)
    assert tokenise(source, tokenizer, 13, cache=cache).facts.max_length == 13
    other = Tokenizer(ByT5Tokenizer())
    ids = tokenise(source, other, 12, cache=cache).text_ids(0, 0).tolist()
    assert ids == other.encode(["The bread rises."], 12)[0].tolist()
    assert len(tokenise(Source(source.location, skip_lines=frozenset({1})), tokenizer, 12, cache=cache)) == 4
    assert len(folders(cache)) == 4


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


@pytest.mark.parametrize("name", ["ids.npy", "words.npy", "facts.json", "checksum"])
def test_a_damaged_corpus_is_made_again(source: Source, tokenizer: Tokenizer, cache: Path, name: str) -> None:
    tokenise(source, tokenizer, 12, words=True, cache=cache)
    (folder,) = folders(cache)
    first = tokenise(source, tokenizer, 12, words=True, cache=cache / "other")
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    whole = before[name]
    for damage in (b"", whole[:-1], whole + b"\0", whole[:-1] + bytes([whole[-1] ^ 1]), None):
        (folder / name).unlink()
        if damage is not None:
            (folder / name).write_bytes(damage)
        assert same(repaired(source, tokenizer, cache, words=True), first)
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before


LINES = [f"the bread number {n % 17} rises" + " again" * (n % 5) for n in range(90)]


@pytest.fixture
def lines_file(tmp_path: Path) -> Source:
    path = tmp_path / "a.txt"
    write_lines(path, (f"{line}\n" if n % 7 == 6 else line for n, line in enumerate(LINES)))
    return Source(str(path))


def content(folder: Path) -> dict[str, bytes]:
    (made,) = (folder / "corpora").iterdir()
    return {path.name: path.read_bytes() for path in made.iterdir()}


def test_killed_it_begins_again(
    lines_file: Source, tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = tokenise(lines_file, tokenizer, 9, words=True, cache=tmp_path / "whole")
    cache = tmp_path / "cache"
    with monkeypatch.context() as patched:
        patched.setattr("shutil.rmtree", lambda *_, **__: None)  # nothing is removed after a kill
        patched.setattr(Tokenising, "__call__", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            tokenise(lines_file, tokenizer, 9, words=True, cache=cache)
    (left,) = (cache / "corpora").iterdir()
    assert left.name.endswith(".tmp")
    made = tokenise(lines_file, tokenizer, 9, words=True, cache=cache)
    assert made.facts == whole.facts
    assert content(cache) == content(tmp_path / "whole")


@pytest.mark.slow
def test_several_processes_make_the_same(
    lines_file: Source, tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = tokenise(lines_file, tokenizer, 9, cache=tmp_path / "alone")
    for name, value in (("CHUNK", 10), ("SHARED", 1), ("cores", lambda: 2)):
        monkeypatch.setattr(tokenising, name, value)
    several = tokenise(lines_file, tokenizer, 9, cache=tmp_path / "several")
    assert several.facts == alone.facts
    assert content(tmp_path / "several") == content(tmp_path / "alone")


def test_a_prompt_comes_before_every_text_and_is_none_of_its_words(
    source: Source, tokenizer: Tokenizer, cache: Path
) -> None:
    plain = tokenise(source, tokenizer, 64, words=True, cache=cache)
    prompted = tokenise(source, tokenizer, 64, prompts=ColumnPrompts("w5 w6 "), words=True, cache=cache)
    texts = ["w5 w6 " + " ".join(line.split()) for line in TEXT.splitlines() if line]
    assert [prompted.text_ids(row, 0).tolist() for row in range(5)] == [
        ids.tolist() for ids in tokenizer.encode(texts, 64)
    ]
    assert prompted.keys.tolist() == plain.keys.tolist()
    with_prompt, without = (one.text(0, 0).words for one in (prompted, plain))
    assert with_prompt is not None
    assert without is not None
    assert with_prompt[with_prompt >= 0].tolist() == without[without >= 0].tolist()
