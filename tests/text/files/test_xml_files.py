"""XML dumps: which elements are records, their names, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from opencse.errors import UserError
from opencse.text.files import xml_files
from opencse.text.files.xml_files import read_xml, wikipedia_sections


def records(path: Path, content: str) -> list[dict[str, object]]:
    path.write_text(content, encoding="utf-8")
    return [record for _, record in read_xml(path)]


def test_elements_that_repeat_nearest_to_the_root(tmp_path: Path) -> None:
    path = tmp_path / "a.xml"
    assert records(path, "<d><r a='1'>One.</r>\n<r a='2'><b c='x'>Two.</b></r></d>") == [
        {"a": "1", "text": "One."},
        {"a": "2", "b.c": "x", "b": "Two."},
    ]
    feed = "<rss><channel><link/><link/>" + "<item><t>A title of it</t><d>One</d><d>Two</d></item>" * 2
    assert records(path, feed + "</channel></rss>") == [{"t": "A title of it", "d": "One\nTwo"}] * 2
    assert records(path, "<x:d xmlns:x='u'><x:r>One.</x:r><x:r>Two.</x:r></x:d>") == [
        {"text": "One."},
        {"text": "Two."},
    ]
    assert records(path, "<d><r><t>One.</t></r></d>") == [{"t": "One."}]
    assert records(path, "<d><t>One.</t><s>Two.</s></d>") == [{"t": "One.", "s": "Two."}]


def test_lines_of_records(tmp_path: Path) -> None:
    path = tmp_path / "a.xml"
    path.write_text("<d>\n<r>One.</r>\n\n<r>Two.</r>\n</d>")
    assert [number for number, _ in read_xml(path)] == [2, 4]


BOMB = "<!DOCTYPE d [<!ENTITY a 'ha'>" + "".join(
    f"<!ENTITY {chr(98 + n)} '{f'&{chr(97 + n)};' * 10}'>" for n in range(9)
)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (BOMB + "]><d><r>&j;</r><r>&j;</r></d>", "line 1: declares XML entities, which are not expanded"),
        ("<!DOCTYPE d [<!ENTITY e SYSTEM 'file:///etc/passwd'>]><d><r>&e;</r></d>", "line 1: declares XML entities"),
        ("<d><r>One.</r>\n<r>Two.</d>", "line 2: not well-formed XML (mismatched tag)"),
        ("<d><r>One.</r>", "not well-formed XML (no element found)"),
        ("<d>&nbsp;</d>", "line 1: not well-formed XML (undefined entity)"),
        ("<d><r " + " ".join(f"a{n}=''" for n in range(1_001)) + "/></d>", "more than 1,000 attributes and elements"),
        ("<d><r>One.</r>\n<!-- " + " " * 200_000, "line 2: a tag or comment of more than 100,000 bytes"),
        ("<!DOCTYPE d [" + "<!ELEMENT b (c)>" * 260_000 + "]><d>One.</d>", "no element in its first 4,000,000"),
        ("<a>" * 300 + "x" + "</a>" * 300, "elements more than 200 deep"),
    ],
)
def test_faults_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str, message: str) -> None:
    monkeypatch.setattr(xml_files, "MAX_RECORD_CHARACTERS", 100_000)
    path = tmp_path / "a.xml"
    with pytest.raises(UserError) as refused:
        records(path, content)
    assert message in str(refused.value)
    assert str(refused.value).startswith(str(path))


def test_articles_of_a_wikipedia_dump(tmp_path: Path) -> None:
    path = tmp_path / "w.xml"
    text = (
        "{{Infobox|a={{b|c}}}}\n{| class=x\n| cell {| inner |}\n|}\n'''Kettles''' are [[Vessel|vessels]].&lt;ref&gt;no"
        "&lt;/ref&gt;\n\n== History ==\n* They [http://a.b boil] water.\n[[File:a.jpg|thumb|A [[picture]]]]\n"
        "[[Category:Things]]\n&lt;!-- no --&gt;__NOTOC__"
    )
    page = "<page><title>{}</title><ns>{}</ns><id>{}</id>{}<revision><text>{}</text></revision></page>\n"
    path.write_text(
        "<mediawiki xmlns='http://www.mediawiki.org/xml/export-0.11/'>"
        + page.format("Kettle", 0, 7, "", text)
        + page.format("Talk:Kettle", 1, 8, "", "Talk.")
        + page.format("Kettles", 0, 9, '<redirect title="Kettle"/>', "#REDIRECT [[Kettle]]")
        + "</mediawiki>"
    )
    (section,) = wikipedia_sections(path)
    assert (section.name, section.title) == ("7", "Kettle")
    assert section.paragraphs == ("Kettles are vessels.", "History", "They boil water.")
