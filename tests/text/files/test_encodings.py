"""Which encoding a file is taken to be in."""

from __future__ import annotations

from pathlib import Path

import pytest

from opencse.errors import UserError
from opencse.text.files.encodings import detect_encoding
from opencse.text.files.lines import encoding_of, read_lines, read_text

GERMAN = "Die Zündung läuft nicht – Größe, Nässe und Öl. Können Sie die Straße nennen?"
POLISH = "Zażółć gęślą jaźń. Dzieci poszły do szkoły i powiedziały, że jest tam dziś ładnie."
CZECH = "Děti šly do školy a řekly, že je tam dnes také pěkně. Vlak přijel včera večer."
RUSSIAN = "Дети пошли в школу и сказали, что сегодня там тоже хорошо."
GREEK = "Τα παιδιά πήγαν στο σχολείο και είπαν ότι είναι ωραία."
JAPANESE = "子供たちは学校に行って、今日もそこはいいと言いました。"
TURKISH = "Çocuklar okula gitti ve bugün de güzel olduğunu söylediler. İstanbul’da yağmur yağıyor, şimdi."


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        (GERMAN, "cp1252"),
        ("Señor Ibáñez", "cp1252"),
        ("caf\xe9 au lait", "cp1252"),
        (POLISH, "cp1250"),
        (CZECH, "cp1250"),
        (RUSSIAN, "cp1251"),
        (RUSSIAN, "koi8_r"),
        (GREEK, "cp1253"),
        (TURKISH, "cp1254"),
        (JAPANESE, "shift_jis"),
        (GERMAN, "utf-8"),
        (GERMAN, "utf-8-sig"),
        (GERMAN, "utf-16"),
        (GERMAN, "utf-16-le"),
        (GERMAN, "utf-16-be"),
        (RUSSIAN + " " * 40, "utf-16-le"),
        (GERMAN, "utf-32"),
    ],
)
def test_text_is_read_as_it_was_written(tmp_path: Path, text: str, encoding: str) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(f"Nummer;Betreff;Text\n{text}\nthe end\n".encode(encoding))
    assert [line for _, line in read_lines(path)] == ["Nummer;Betreff;Text", text, "the end"]
    assert read_text(path).split("\n")[1] == text


def test_a_letter_far_behind_decides_too(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"Plain lines of ASCII.\n" * 150_000 + GERMAN.encode("cp1252") + b"\n")
    assert encoding_of(path) == "cp1252"
    assert list(read_lines(path))[-1] == (150_001, GERMAN)
    path.write_bytes(b"Plain lines of ASCII.\n" * 150_000 + GERMAN.encode() + b"\n")
    assert encoding_of(path) == "utf-8"


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("Zürich\nGenève\n".encode() + b"caf\xe9\n", 3),
        (b"one\n\xff\n", 2),
        (b"one\n" + bytes(range(14, 256)) + b"\n", 2),
        ("\N{SNOWMAN} text\n".encode()[:-4] + b"\xe2\n" + "ä ö ü ß\n".encode(), 1),
    ],
)
def test_nothing_is_guessed_of_damage(tmp_path: Path, content: bytes, line: int) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(content)
    with pytest.raises(UserError, match=rf"a\.txt, line {line}: not UTF-8 text"):
        list(read_lines(path))
    with pytest.raises(UserError, match=rf"a\.txt, line {line}: not UTF-8 text"):
        read_text(path)


def test_what_a_page_declares_counts_where_its_bytes_are_text_in_it() -> None:
    page = '<html><head><meta charset="{}"></head><body>{}</body></html>'
    assert detect_encoding([page.format("windows-1253", GREEK).encode("cp1253")]) == "cp1253"
    assert detect_encoding([page.format("iso-8859-1", GERMAN).encode("cp1252")]) == "cp1252"
    assert detect_encoding([page.format("utf-8", GERMAN).encode("cp1252")]) == "cp1252"
    assert detect_encoding([page.format("no-such", GERMAN).encode("cp1252")]) == "cp1252"
