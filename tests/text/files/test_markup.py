"""HTML as text."""

from __future__ import annotations

import time

import pytest

from opencse.text.files.markup import html_sections, text_of_html
from opencse.text.files.prose import rst_sections, split_front_matter


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("<p>One &amp; two.</p><p>Three.</p>", "One & two.\nThree."),
        ("One<br>two<br/>three", "One\ntwo\nthree"),
        ("A <b>bold</b>ness of <code>x</code>.", "A boldness of x."),
        ("<ul><li>One</li><li>Two</li></ul>", "One\nTwo"),
        ("<table><tr><td>a</td><td>b</td></tr><tr><th>c</th><td>d</td></tr></table>", "a, b\nc, d"),
        ("<script>var a = '<p>';</script>Text<style>p {}</style>", "Text"),
        ("<pre><code>x = 1\ny = 2</code></pre>Text", "Text"),
        ("<h2>Head: one</h2><p>Text</p>", "Head: one\nText"),
        ("a < b and c > d", "a < b and c > d"),
        ("<p>Open <b>tags <i>everywhere", "Open tags everywhere"),
        ("</p></div>Closed</nav>", "Closed"),
        ("<!-- no --><p>Text</p><![CDATA[x]]>", "Text"),
        ("<header><p>A site</p><nav>Home</nav><h1>Kettles</h1></header><p>Text</p>", "Kettles\nText"),
        ("<div><header>A site</header></div><article><header><h1>T</h1><p>Lead</p></header>Text", "T\nLead\nText"),
        ("<section><p>One</p></section><header>A site<h2>Two</h2></header>Text", "One\nTwo\nText"),
        ("<header><p>Never closed<p>Text", "Never closed\nText"),
        ("Text<footer>Terms</footer>", "Text"),
        ("One<!-- two <b>three", "One"),
        ("One<script>if (two < 3) '<!--'</script> three<style>", "One three"),
        ("<!DOCTYPE html [<!ENTITY a 'b'>]><?php x ?><p>One<![CDATA[ <b>", "One"),
        ("<a title='x > y' href=\"<b>\">One</a> <b and 2", "One <b and 2"),
        ("", ""),
    ],
)
def test_pieces(source: str, text: str) -> None:
    assert text_of_html(source) == text


def test_what_is_never_closed_takes_time_in_proportion_to_its_length() -> None:
    begun = time.process_time()
    pieces = (
        "<!-- <b>",
        "<script>a<b ",
        "<!DOCTYPE ",
        "<![CDATA[ <b> ",
        "<?x ",
        "<a ",
        '<a x=">"',
        "</",
        "<main>",
        "<h1>",
    )
    for piece in (*pieces, "<title>", "<div>", "<select>", "<td> ", "</a "):
        list(html_sections(piece * (100_000 // len(piece)), "a"))
    assert time.process_time() - begun < 10  # squares of these lengths take minutes


def test_code_is_kept_as_it_is() -> None:
    assert text_of_html("<p>One.</p><pre>x = 1\n  y = 2\n</pre>", keep_code=True) == "One.\nx = 1\n  y = 2"


def titles(source: str) -> list[str]:
    return [one.title for one in html_sections(source, "a")]


def test_titles_and_sections_of_a_page() -> None:
    body = "<body><nav>Home</nav><h1>Kettles</h1><p>One.</p><h2>Use</h2><p>Two.</p></body>"
    assert titles(f"<title>Kettles - A site</title>{body}") == ["Kettles", "Kettles: Use"]
    assert titles(f"<title>A shop</title>{body}") == ["A shop: Kettles", "A shop: Use"]
    assert titles(body) == ["Kettles", "Kettles: Use"]
    main = "<p>Around.</p><main><h1>In</h1><p>Main.</p></main><p>After.</p>"
    assert [one.paragraphs for one in html_sections(main, "a")] == [("Main.",)]


@pytest.mark.parametrize(
    ("source", "title", "text"),
    [
        ('---\ntitle: "A: page"\ntags: [a]\n---\nText.\n', "A: page", "Text.\n"),
        ("---\ntitle: A: page\n---\nText.\n", "A: page", "Text.\n"),
        ("---\ntitle: 2024\n...\nText.\n", "2024", "Text.\n"),
        ('+++\ntitle = "A page"\n+++\nText.\n', "A page", "Text.\n"),
        ("---\n---\nText.\n", "", "Text.\n"),
        ("---\nother: 1\n---\nText.\n", "", "Text.\n"),
        ("Text.\n\n---\ntitle: no\n---\n", "", "Text.\n\n---\ntitle: no\n---\n"),
        ("---\nnever closed\n", "", "---\nnever closed\n"),
    ],
)
def test_front_matter(source: str, title: str, text: str) -> None:
    assert split_front_matter(source) == (title, text)


def test_restructured_text() -> None:
    source = (
        "=====\nGuide\n=====\n\n.. note:: not\n   this\n\nUse :ref:`the valve <valve>` and ``on``\nto *start* it.\n\n"
        "Parts\n-----\n\n- One\n  more\n- Two\n\nAs follows::\n\n    code\n"
    )
    assert [(one.title, one.paragraphs) for one in rst_sections(source, "a")] == [
        ("Guide", ("Use the valve and on to start it.",)),
        ("Guide: Parts", ("One more", "Two", "As follows:")),
    ]
