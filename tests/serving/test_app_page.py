"""The page in a real browser: searching, comparing, the map, by mouse and keys; what is pasted stays text."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI

from opencse.encoder.encoder import SentenceEncoder
from opencse.reranking.cross_encoder import CrossEncoder
from opencse.reranking.second_stage import SecondStage
from opencse.search.building import BuildSettings
from opencse.search.index import Index
from opencse.search.rows import IndexRow
from opencse.serving.app import create_app
from opencse.serving.service import Service
from serving.browser import CHROMIUM, Browser
from serving.harness import live

pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")]

HOSTILE = [
    '<img src=x onerror="document.title=1">',
    "</script><script>document.title=2</script>",
    "<style>*{display:none}</style> & &lt;b&gt; \u202e right to left",
    "{{7*7}} ${7*7} <a href=javascript:document.title=3>go</a>",
]


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("profile")


@pytest.fixture
def browser(profile: Path) -> Iterator[Browser]:
    """A page of 390 pixels' width; whatever is done on it, nothing may go wrong in it."""
    with Browser(profile) as page:
        page.screen(390, 800)
        yield page
        assert page.faults == []


@pytest.fixture
def two(model: SentenceEncoder, tiny_folder: Path, sentences: list[str], tmp_path: Path) -> Iterator[FastAPI]:
    """Two models with the same texts, hostile ones among them."""
    models = {"tiny": model, "<b>other": SentenceEncoder.load(tiny_folder, device="cpu")}
    texts = [*HOSTILE, *list(dict.fromkeys(sentences))[:40]]
    rows = [IndexRow(text, f"<i>{i}", {"<u>col": "</script><i>x" if i % 2 else "even"}) for i, text in enumerate(texts)]
    indexes = {
        name: Index.build(tmp_path / str(i), rows, encoder, how=BuildSettings(cut=False))
        for i, (name, encoder) in enumerate(models.items())
    }
    service = Service(models, indexes)
    yield create_app(service)
    service.close()


def fits(browser: Browser) -> bool:
    return bool(browser.value("document.documentElement.scrollWidth <= innerWidth"))


def named_controls(browser: Browser) -> list[str]:
    """Controls without a name that a screen reader could tell."""
    found: list[str] = browser.value(
        "[...document.querySelectorAll('input, select, textarea, button, canvas')].filter((one) => "
        "!(one.labels?.length && one.labels[0].textContent.trim()) && !one.textContent.trim() && "
        "!one.getAttribute('aria-label')).map((one) => one.outerHTML)"
    )
    return found


def test_searching_with_two_models(browser: Browser, two: FastAPI) -> None:
    with live(two) as address:
        browser.open(f"{address}/")
        browser.until("document.querySelectorAll('.examples button').length")
        assert fits(browser)
        browser.press("/")
        browser.type(HOSTILE[0])
        browser.until("document.querySelectorAll('.hits li').length === 20")
        assert browser.value("document.querySelector('.hits .text').textContent") == HOSTILE[0]
        assert browser.value("document.querySelector('.hits .score').textContent") == "1.000"
        assert browser.value("[...document.querySelectorAll('.column h2')].map((one) => one.textContent)") == [
            "tiny", "<b>other",
        ]  # fmt: skip
        assert "10 results" in browser.value("document.getElementById('search-status').textContent")
        assert fits(browser)

        browser.click("summary")
        browser.value("document.getElementById('k').select()")
        browser.click("#k")
        browser.value("document.getElementById('k').select()")
        browser.type("3")
        browser.until("document.querySelectorAll('.hits li').length === 6")
        browser.value("document.getElementById('column').value = '<u>col'")
        browser.value("document.getElementById('column').dispatchEvent(new Event('change'))")
        browser.click("#value")
        browser.type("even")
        browser.until("[...document.querySelectorAll('.about')].every((one) => one.textContent.endsWith('even'))")
        browser.click("#threshold")
        browser.type("0.99999")
        browser.until("document.querySelectorAll('.hits li').length < 6")
        assert fits(browser)
        assert named_controls(browser) == []
        assert (
            browser.value("document.querySelectorAll('#results img, #results script, #results a, #results i i')") == {}
        )
        assert browser.value("document.title") == "opencse"
        assert all(request.startswith(address) for request in browser.requests)


def test_comparing_what_is_pasted(browser: Browser, two: FastAPI) -> None:
    with live(two) as address:
        browser.open(f"{address}/#similarity")
        browser.until("document.querySelectorAll('.matrix').length === 2")
        browser.value("document.getElementById('sentences').select()")
        browser.click("#sentences")
        browser.value("document.getElementById('sentences').select()")
        browser.type("\n".join(HOSTILE))
        browser.until("document.querySelector('.matrix tbody th').textContent.includes('onerror')")
        rows = browser.value("[...document.querySelectorAll('.matrix tbody th')].map((one) => one.title)")
        assert rows == HOSTILE * 2
        cells = browser.value("[...document.querySelectorAll('.matrix tbody td')].map((one) => one.textContent)")
        assert len(cells) == 32
        assert cells[0] == "1.00"
        assert browser.value("document.querySelector('img, main script') === null")
        assert browser.value("document.title") == "opencse"
        assert fits(browser)


@pytest.mark.parametrize(("width", "dark"), [(390, False), (1280, True)])
def test_no_rule_of_accessibility_is_broken(browser: Browser, two: FastAPI, width: int, dark: bool) -> None:
    browser.screen(width, dark=dark)
    with live(two) as address:
        browser.open(f"{address}/")
        browser.until("document.querySelectorAll('.examples button').length")
        assert browser.broken_rules() == []
        browser.click("summary")
        browser.click("#query")
        browser.type("snow")
        browser.until("document.querySelectorAll('.hits li').length === 20")
        browser.value("document.getElementById('results').setAttribute('aria-busy', 'true')")
        assert browser.broken_rules() == []
        browser.click("#tab-similarity")
        browser.until("document.querySelectorAll('.matrix').length === 2")
        browser.value("document.getElementById('matrices').setAttribute('aria-busy', 'true')")
        assert browser.broken_rules() == []
        browser.click("#tab-map")
        browser.until("!document.getElementById('map-figure').hidden")
        assert browser.broken_rules() == []


def test_without_an_index_and_with_a_key(browser: Browser, serve: Callable[..., FastAPI]) -> None:
    with live(serve(indexed=False, keys=["open-sesame"])) as address:
        browser.open(f"{address}/")
        browser.until("document.getElementById('key').open")
        browser.type("wrong")
        browser.press("Enter")
        browser.until("document.getElementById('key-error').textContent === 'This key is not valid.'")
        browser.type("open-sesame")
        browser.press("Enter")
        browser.until("document.querySelector('.state pre')")
        assert "opencse index build" in browser.value("document.querySelector('.state pre').textContent")
        assert fits(browser)
        browser.click("#tab-similarity")
        browser.until("document.querySelectorAll('.matrix').length === 1")
        told = [fault["params"] for fault in browser.faults]
        assert all("401" in str(one) for one in told), told  # the browser itself logs those
        browser.faults.clear()


def test_markup_in_texts_does_not_run(browser: Browser, serve: Callable[..., FastAPI]) -> None:
    """Were a text ever read as HTML, the policy would stop it, and these tests would hear of it."""
    with live(serve(indexed=False)) as address:
        browser.open(f"{address}/")
        browser.until("document.querySelector('.state pre')")
        browser.value("document.getElementById('results').innerHTML = '<img src=x onerror=\"document.title=1\">'")
        browser.value("document.body.insertAdjacentHTML('beforeend', '<i style=\"color: red\">x</i>')")
        browser.until("document.querySelector('#results img').complete")
        assert browser.value("document.title") == "opencse"
        assert "unsafe-inline" in str(browser.faults) or "Content Security Policy" in str(browser.faults)
        browser.faults.clear()


SHOWN = "[...document.querySelectorAll('.hits .text')].map((one) => one.textContent)"


def hits(browser: Browser, query: str, rerank: bool) -> list[str]:
    """The texts that the server finds, by the page's own way to ask it."""
    body = json.dumps({"query": query, "k": 5, "model": "tiny", "rerank": rerank})
    found: list[str] = browser.value(
        f"import('/page/api.js').then((api) => api.ask('search', {body}))"
        ".then((answer) => answer.data[0].hits.map((hit) => hit.text))"
    )
    return found


def test_the_box_of_reranking(browser: Browser, model: SentenceEncoder, cross_encoder: Path, tmp_path: Path) -> None:
    """Hostile texts and queries are re-ranked as others are; scores of a cross-encoder may be any numbers."""
    texts = [*HOSTILE, "a dog in snow", "a dog", "music on a stage"]
    index = Index.build(tmp_path / "index", texts, model)
    stage = SecondStage(CrossEncoder.load(cross_encoder, device="cpu"), depth=6)
    service = Service({"tiny": model}, {"tiny": index}, stage=stage)
    try:
        with live(create_app(service)) as address:
            browser.open(f"{address}/")
            browser.until("!document.querySelector('#rerank-choice').hidden")
            browser.value("document.querySelector('#k').value = 5")
            for query in (HOSTILE[0], 'it\'s "a" dog & <b>'):
                expected = {rerank: hits(browser, query, rerank) for rerank in (True, False)}
                assert expected[True] != expected[False]
                browser.value("document.querySelector('#query').value = ''; document.querySelector('#query').focus()")
                browser.type(query)
                for rerank in (True, False, True):
                    if rerank != browser.value("document.querySelector('#rerank').checked"):
                        browser.value("document.querySelector('#rerank').click()")
                    browser.until(f"JSON.stringify({SHOWN}) === JSON.stringify({json.dumps(expected[rerank])})")
            browser.value("document.querySelector('#threshold').value = -7.25")
            assert browser.value("document.querySelector('#search-form').checkValidity()"), "logits are below -1 too"
            browser.value("document.querySelector('#k').value = 1")
            browser.value("document.querySelector('#search-form').requestSubmit()")
            browser.until("document.querySelectorAll('.hits li').length === 1")
            assert browser.value("document.querySelector('.hits .track i').style.width") == "100%", "the best of all"
            browser.value("document.querySelector('#query').value = '  '")
            browser.value("document.querySelector('#search-form').requestSubmit()")
            browser.until("document.querySelectorAll('.hits li').length === 0")
            assert browser.value("document.title").startswith("opencse")
    finally:
        service.close()
