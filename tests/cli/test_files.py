"""Files of every kind through every command that reads text: the same documents under the same options."""

from __future__ import annotations

import json
import random
import re
import shlex
from pathlib import Path

import pytest

import opencse as opencse_package
from files_of_kinds import FILES, SENTENCES, TEXTS, TITLED, TITLES, Made, table
from helpers import Run, accepted
from opencse.text.files.kinds import recognise


def written(folder: Path, made: Made) -> Path:
    path = folder / made.name
    path.write_bytes(made.content)
    return path


def options(made: Made) -> tuple[str, ...]:
    return ("--fields", made.fields) if made.fields else ()


def sentences_of(path: Path, made: Made) -> tuple[str, ...]:
    """What names the documents where rows of a table are not split into sentences without it."""
    if made.fields or recognise(path).name not in ("table", "jsonl", "json", "xml"):
        return options(made)
    return ("--fields", "Title,TEXT" if b"TEXT" in made.content[:40] else "title,text")


PLAN = ("--dry-run", "--dev", "none", "--device", "cpu", "--model", "opencse-mini")


@pytest.mark.parametrize("kind", FILES)
def test_adapt_reads_the_documents(opencse: Run, tmp_path: Path, kind: str) -> None:
    made = FILES[kind]
    path = written(tmp_path, made)
    out, err = accepted(opencse("adapt", path, "--out", tmp_path / "o", *options(made), *PLAN))
    documents = f"{len(TITLED)} documents" if made.separate else "1 document"
    assert f"{documents}, {len(SENTENCES)} sentences" in out + err
    assert "read as    " in out + err


@pytest.mark.parametrize("kind", list(FILES)[::3])
def test_train_and_check_read_the_sentences(opencse: Run, tmp_path: Path, kind: str) -> None:
    made = FILES[kind]
    path = written(tmp_path, made)
    out, err = accepted(opencse("train", path, "--out", tmp_path / "o", *sentences_of(path, made), *PLAN))
    assert re.search(rf"text +{re.escape(str(path))}: {len(SENTENCES)} ", out + err), out + err
    out, _ = accepted(opencse("check", path, *options(made)))
    assert f"text        {path}: {len(SENTENCES)} rows of 1 text" in out
    assert out.startswith("file        read as ")
    assert "next        opencse adapt " in out


@pytest.mark.parametrize(
    ("option", "name", "content"),
    [
        ("--quoted", "a.tsv", table(",").replace('","', '"\t"')),
        ("--pages", "a.txt", "\f".join(f"ANNUAL REPORT\n\n{one}\n{two}\n\n7\n" for _, (one, two) in TITLED)),
    ],
)
def test_what_a_file_does_not_say_is_an_option(
    opencse: Run, tmp_path: Path, option: str, name: str, content: str
) -> None:
    path = tmp_path / name
    path.write_text(content)
    for command in (
        ("check", path),
        ("adapt", path, "--out", tmp_path / "o", *PLAN),
        ("train", path, *(("--fields", "title,text") * (name == "a.tsv")), "--out", tmp_path / "o", "--dry-run"),
    ):
        out, err = accepted(opencse(*command, option))
        assert re.search(rf"\b{len(SENTENCES)} (rows|sentences|examples)", out + err), out + err
    opencse("index", "build", tmp_path / "i", "opencse-mini", path, option)
    path = path.rename(tmp_path / f"b{path.suffix}")
    out, err = accepted(opencse("index", "add", tmp_path / "i", path))
    read = "tabs, fields in quotes" if name == "a.tsv" else "text taken from a PDF"
    assert read in out + err, out + err


@pytest.mark.parametrize("kind", list(FILES)[1::3])
def test_an_index_holds_titles_and_texts(opencse: Run, tmp_path: Path, kind: str) -> None:
    made = FILES[kind]
    path = written(tmp_path, made)
    accepted(opencse("index", "build", tmp_path / "ix", "opencse-mini", path, *options(made), "--device", "cpu"))
    with opencse_package.Index.open(tmp_path / "ix") as index:
        before = index.info().rows
    code, _, err = opencse("index", "add", tmp_path / "ix", path, *options(made), "--replace", "--device", "cpu")
    assert code == 0 or (code == 2 and f"{path}: no row has an id, so --replace would replace none" in err), err
    with opencse_package.Index.open(tmp_path / "ix") as index:
        assert index.info().rows == before
        texts = [" ".join(hit.text.split()) for hit in index.rows()]
    whole = " ".join(texts)
    for sentence in SENTENCES:
        assert sentence in whole
    for title in TITLES if made.titled else ():
        assert title in whole
    if made.separate and made.titled:
        assert any(text.endswith(TEXTS[1]) and TITLES[1] in text for text in texts)


@pytest.mark.parametrize("kind", list(FILES)[2::3])
def test_encode_makes_a_vector_for_each_sentence(opencse: Run, tmp_path: Path, kind: str) -> None:
    made = FILES[kind]
    path = written(tmp_path, made)
    out, _ = accepted(
        opencse("encode", "opencse-mini", path, *sentences_of(path, made), "--out", "-", "--device", "cpu")
    )
    assert [json.loads(line)["text"] for line in out.splitlines()] == list(SENTENCES)


def commands_of(out: str) -> list[str]:
    """Every command that a check suggests, with its options."""
    lines = [line[12:] for line in out.splitlines() if line.startswith(("advice", "next"))]
    return [line[line.index("opencse ") :] for line in lines if re.search(r"(?:^|: )opencse ", line)]


def rows(line: str, count: int = 60) -> str:
    """The line many times, with its number in the place of ``#``."""
    return "".join(line.replace("#", str(number)) + "\n" for number in range(count))


def foreign(count: int) -> str:
    """Words of a script that the built-in encoder does not know."""
    draw = random.Random(0)
    words = ["".join(chr(draw.randrange(0x0531, 0x0556)) for _ in range(4)) for _ in range(6 * count)]
    return "".join(" ".join(words[6 * line : 6 * line + 6]) + "\n" for line in range(count))


CHECKED = {
    "nested": ("a.jsonl", rows('{"m": {"t": "A title #", "b": "One text #. It ends."}}')),
    "long": ("a.txt", rows("# " + "word " * 200 + "\n\nOther text.\nMore.\n\n")),
    "duplicates": ("a.csv", "text\n" + "The same sentence here.\n" * 60 + "Another one here.\n" * 3),
    "foreign": ("a.txt", foreign(1_100)),
    "pairs": ("my pairs.csv", "anchor,positive\n" + rows("question # here,answer # there is long")),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CHECKED)
def test_every_command_that_check_suggests_runs(
    opencse: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    file, content = CHECKED[name]
    Path(file).write_text(content, encoding="utf-8")
    out, _ = accepted(opencse("check", file, *(["--near-duplicates", "0.8"] if name == "duplicates" else [])))
    commands = commands_of(out)
    assert commands
    for command in commands:
        words = shlex.split(command)
        short = PLAN if words[1] in ("adapt", "train") else ()
        accepted(opencse(words[1], *short, *words[2:]))
    assert any(" static " in command for command in commands) == (name == "foreign")


def test_titles_without_a_text_are_used_and_counted(opencse: Run, tmp_path: Path) -> None:
    path = tmp_path / "catalogue.jsonl"
    path.write_text(
        rows('{"_id": "t#", "title": "A catalogue title number #", "text": ""}', 40)
        + rows('{"_id": "d#", "title": "The title of work #", "text": "Work # tells one thing. Then it ends."}', 40)
        + '{"_id": "x", "title": " ", "text": ""}\n'
    )
    out, err = accepted(opencse("adapt", path, "--out", tmp_path / "o", "--dry-run", "--device", "cpu"))
    told = out + err
    assert "titles     40 documents have a title and no text: the title is their text" in told
    assert "left out   1 document without a title and a text" in told
    assert "80 documents (40 with only a title)" in told
    accepted(opencse("index", "build", tmp_path / "ix", "opencse-mini", path, "--device", "cpu"))
    with opencse_package.Index.open(tmp_path / "ix") as index:
        hits = {hit.id: hit.text for hit in index.rows()}
    assert len(hits) == 80
    assert hits["t3"] == "A catalogue title number 3"
    assert hits["d3"] == "The title of work 3\nWork 3 tells one thing. Then it ends."
