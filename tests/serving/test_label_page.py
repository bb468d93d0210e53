"""The page of `opencse label` in a real browser: by keys and by mouse, in two tabs, with hostile texts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI

from opencse.encoder.encoder import SentenceEncoder
from opencse.labelling.labels import LabelFolder
from opencse.labelling.pooling import PooledIndexes
from opencse.labelling.session import LabelSession
from opencse.search.index import Index
from opencse.search.rows import IndexRow
from opencse.serving.label_app import create_label_app
from serving.browser import CHROMIUM, Browser
from serving.harness import live

pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")]

HOSTILE = [
    '<img src=x onerror="document.title=1"> water',
    "</script><script>document.title=2</script> water",
    "A title of water\n" + "long text of water. " * 300,
]
WATER = [f"Water number {i} is cold." for i in range(20)]


@pytest.fixture
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A page; whatever is done on it, nothing may go wrong in it."""
    with Browser(tmp_path_factory.mktemp("profile")) as page:
        page.screen(1000, 900)
        yield page
        assert page.faults == []


@pytest.fixture
def app(model: SentenceEncoder, tmp_path: Path) -> Iterator[FastAPI]:
    """Saves in ``tmp_path / "out"``."""
    rows = [IndexRow(text, f"<i>{i}", {"<u>col": "</script>x"}) for i, text in enumerate([*HOSTILE, *WATER])]
    folder = LabelFolder(tmp_path / "out")
    with Index.build(tmp_path / "index", rows, model) as index, folder.opened() as labels:
        yield create_label_app(
            LabelSession(PooledIndexes({"index": index}), folder, labels), indexes=["<b>index"], models=["tiny"]
        )


def levels(folder: Path) -> list[str]:
    """The relevance of each line of the judgements."""
    file = folder / "out" / "qrels" / "test.tsv"
    return [line.split("\t")[2] for line in file.read_text().splitlines()[1:]] if file.exists() else []


def ask(browser: Browser, text: str) -> None:
    """Types a query and waits for its texts."""
    browser.value("document.querySelector('#query').focus()")
    browser.type(text)
    browser.press("Enter")
    browser.until(f"document.querySelector('#query-title').textContent === {json.dumps(text)}")
    browser.until("document.activeElement.matches('#texts li')")


def test_by_keys(browser: Browser, app: FastAPI, tmp_path: Path) -> None:
    with live(app) as address:
        browser.open(f"{address}/?token={app.state.token}")
        browser.until("document.activeElement.id === 'query'")
        ask(browser, "cold water")
        count = browser.value("document.querySelectorAll('#texts li').length")
        assert count >= 10
        browser.press("1")
        browser.until("document.querySelector('#texts .mark-right').getAttribute('aria-pressed') === 'true'")
        for _ in range(2):
            browser.press("2")
        browser.press("3")
        browser.press("u")
        browser.until("document.querySelector('#status').textContent === 'Undone.'")
        assert levels(tmp_path) == ["2", "1"]
        for _ in range(7):  # from the third, whose mark was undone
            browser.press("ArrowDown")
        browser.until("document.querySelectorAll('#texts li')[9].querySelector('kbd')?.textContent === '1'")
        browser.press("r")
        browser.until("document.querySelector('#status').textContent === 'Saved.'")
        assert levels(tmp_path) == ["2", "1", "2"]
        assert browser.value(f"document.querySelector('#pool-note').textContent.includes('{count - 3} without a mark')")
        assert browser.value("[...document.querySelectorAll('#texts li')].indexOf(document.activeElement)") == 10
        browser.press("Enter")
        browser.until("document.activeElement.id === 'query'")
        assert sorted(levels(tmp_path), reverse=True) == ["2", "2", "1", *["0"] * (count - 3)]
        assert browser.value("document.querySelector('#aim').value") == 1
        assert browser.value("document.querySelector('#aim-text').textContent") == "1 of 20 queries have a right text"
        browser.value("document.querySelector('#queries button').focus()")
        browser.press("u")  # opens the query again
        browser.until("!document.querySelector('#judging').hidden")
        browser.until("document.querySelector('#status').textContent === 'Undone.'")
        assert levels(tmp_path) == ["2", "1", "2"]


def test_scores_editing_deleting_and_rules_of_accessibility(browser: Browser, app: FastAPI, tmp_path: Path) -> None:
    with live(app) as address:
        browser.open(f"{address}/?token={app.state.token}")
        browser.until("document.activeElement.id === 'query'")
        assert browser.broken_rules() == []
        for number in range(5):
            ask(browser, f"water number {number}")
            browser.press("1")
            browser.press("Enter")
            browser.until(f"document.querySelector('#aim').value === {number + 1}")
        browser.until("document.querySelectorAll('#scores-table tbody tr').length === 3")
        browser.click("#queries button")
        browser.until("!document.querySelector('#judging').hidden && document.querySelectorAll('#texts li').length")
        browser.click("#texts li:nth-child(2) .mark-not")
        browser.until(
            "document.querySelector('#texts li:nth-child(2) .mark-not').getAttribute('aria-pressed') === 'true'"
        )
        for dark in (False, True):
            browser.screen(1000, 900, dark=dark)
            assert browser.broken_rules() == []
        browser.screen(390, 800)
        assert browser.value("document.documentElement.scrollWidth <= innerWidth")
        browser.screen(1000, 900)
        browser.click("#edit")
        browser.value("document.querySelector('#edit-text').value = 'ice'")
        browser.click("#edit-form button[type=submit]")
        browser.until("document.querySelector('#query-title').textContent === 'ice'")
        browser.click("#delete")
        browser.click("#delete-form button[type=submit]")
        browser.until("document.querySelectorAll('#queries button').length === 4")
        assert "ice" not in (tmp_path / "out" / "queries.jsonl").read_text()


def test_texts_stay_texts_and_nothing_comes_from_elsewhere(browser: Browser, app: FastAPI) -> None:
    with live(app) as address:
        browser.open(f"{address}/?token={app.state.token}")
        browser.until("document.activeElement.id === 'query'")
        ask(browser, "<b>water</b> onerror document.title")
        assert browser.value("document.title") == "opencse label"
        assert browser.value("document.querySelectorAll('#texts img, #texts script, #texts b').length") == 0
        assert browser.value("document.querySelector('#texts').textContent.includes('<img src=x')")
        browser.value("[...document.querySelectorAll('.more')].find((one) => !one.hidden).click()")
        browser.until("document.querySelector('.text.all')?.textContent.length > 5000")
        assert browser.requests
        assert all(request.startswith(address) for request in browser.requests)
