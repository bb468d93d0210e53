"""Lines of printed pages."""

from __future__ import annotations

from opencse.text.files.pages import page_sections


def paragraphs(*pages: str) -> tuple[str, ...]:
    return tuple(text for one in page_sections(pages, "a") for text in one.paragraphs)


def test_broken_words_keep_a_hyphen_that_is_theirs() -> None:
    page = (
        "A well-known thing is a well-\nknown thing, and a ket-\ntle is none of them at all, says\n"
        "the North-\nSouth line. It costs 3-\n4 coins, and twenty\u00ad\nfive more."
    )
    (text,) = paragraphs(page)
    assert "is a well-known thing, and a kettle is none" in text
    assert "North- South" in text
    assert "3- 4" in text
    assert "twentyfive" in text


def test_running_heads_and_numbers_go_and_text_stays() -> None:
    pages = [
        f"Chapter {n} – Kettles\n\nThe text of page {n} begins with many words in it\nand goes on to the end of it.\n\n"
        f"Page {n} of 9"
        for n in range(1, 10)
    ]
    text = " ".join(paragraphs(*pages))
    assert "Chapter" not in text
    assert "Page" not in text
    assert text.count("The text of page") == 9
    assert paragraphs("Heading\n\nOne text of a page.", "Heading\n\nAnother text of it.")[0].startswith("Heading")


def test_paragraphs_go_on_over_pages() -> None:
    one = "The sentence begins here at the foot of a page and it is\n"
    two = "continued at the head of the next one until it ends.\nEnd.\n\nA new paragraph begins behind a blank line.\n"
    assert paragraphs(one, two)[0].startswith("The sentence begins here at the foot of a page and it is continued")
    assert paragraphs(one, two)[-1] == "A new paragraph begins behind a blank line."
