"""Synonyms from WordNet's files, on hand-made ones and, where they are installed, on the real ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from opencse.errors import UserError
from opencse.text.wordnet import read_synonyms

LICENCE = "  1 This software and database is provided to you\n  2 by whom it may concern\n"
NOUN = (
    '00000010 05 n 03 dog 0 hound 1 domestic_dog 0 002 @ 00000020 n 0000 ~ 00000030 n 0000 | a dog; "a cat hound"  \n'
    "00000020 05 n 02 dog 2 Frank 0 000 | a sausage  \n"
    "00000030 05 n 01 cat 0 000 | alone  \n"
    "00000040 05 n 0a w 0 wa 0 wb 0 wc 0 wd 0 we 0 wf 0 wg 0 wh 0 wi 0 000 | ten of them  \n"
)
VERB = "00000010 30 v 02 dog 0 chase 0 001 @ 00000020 v 0000 01 + 08 00 | follow  \n"
ADJ = "00000010 00 s 03 galore(ip) 0 abounding 0 A-one 0 000 | in abundance  \n"
ADV = "00000010 02 r 02 Dog 0 dog 1 000 | one word in two cases is no synonym  \n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for part, lines in {"noun": LICENCE + NOUN, "verb": VERB, "adj": ADJ, "adv": ADV}.items():
        (tmp_path / f"data.{part}").write_text(lines)
    return tmp_path


def test_synonyms_are_the_other_single_words_of_all_synsets(folder: Path) -> None:
    letters = "abcdefghi"
    assert read_synonyms(folder) == {
        "dog": ("Frank", "chase", "hound"),
        "hound": ("dog",),
        "frank": ("dog",),
        "chase": ("dog",),
        "galore": ("abounding",),
        "abounding": ("galore",),
        "w": tuple(f"w{c}" for c in letters),
        **{f"w{c}": ("w", *(f"w{other}" for other in letters if other != c)) for c in letters},
    }


@pytest.mark.parametrize("part", ["noun", "verb", "adj", "adv"])
def test_missing_files_are_reported_with_the_fix(folder: Path, part: str) -> None:
    (folder / f"data.{part}").unlink()
    with pytest.raises(UserError) as caught:
        read_synonyms(folder)
    message = str(caught.value)
    assert message.startswith(f"{folder}/data.{part}: WordNet cannot be read (")
    assert "wordnet-base" in message
    assert "view.wordnet" in message
    assert "\n" not in message


@pytest.mark.parametrize("line", ["what is this", "00000010 05 n zz dog 0 hound 0", "00000010 05 n 00 x", "abc"])
def test_another_format_is_refused_with_its_line(folder: Path, line: str) -> None:
    (folder / "data.verb").write_text(f"{LICENCE}{VERB}{line}\n")
    with pytest.raises(UserError, match=r"data\.verb: line 4 is not in WordNet's database format") as caught:
        read_synonyms(folder)
    assert "\n" not in str(caught.value)


def test_bytes_of_no_text_are_refused(folder: Path) -> None:
    (folder / "data.adj").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match=r"data\.adj: WordNet cannot be read"):
        read_synonyms(folder)


def test_the_real_files() -> None:
    folder = Path("/usr/share/wordnet")
    if not (folder / "data.noun").is_file():
        pytest.skip("WordNet's files are not installed")
    synonyms = read_synonyms(folder)
    assert "sea" not in synonyms["sea"]
    assert {"ocean"} <= set(synonyms["sea"])
    assert "large" in synonyms["big"]
    assert len(synonyms) > 40_000
