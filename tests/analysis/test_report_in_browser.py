"""The page in a real browser: it asks for nothing, logs no error, and fits a phone."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from opencse.analysis.inspection import AnalysisTexts, Subject, inspect
from opencse.analysis.report import how_to_load, lead, made_with, sections, write_report
from opencse.evaluation import read_scored_pairs
from opencse.evaluation.embedding import EmbeddingModel
from opencse.text import sample
from serving.browser import CHROMIUM, Browser
from vectors_of_texts import lengths, letters

pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory, sentences: list[str]) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    subjects = [
        Subject(EmbeddingModel("a-model-with-a-rather-long-name-of-its-own", lengths)),
        Subject(EmbeddingModel("b", letters)),
    ]
    material = AnalysisTexts(pairs=read_scored_pairs(sample.TEST), texts=sentences[:200], source="mine")
    found = inspect(subjects, material, resamples=100)
    write_report(path, "two encoders", lead(found) + made_with(found), [*sections(found), how_to_load("b")])
    return path


def browse(page: Path, width: int, *flags: str) -> subprocess.CompletedProcess[str]:
    assert CHROMIUM is not None
    command = [
        CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files",
        "--enable-logging=stderr", f"--window-size={width},900", f"--user-data-dir={page.parent / 'profile'}",
        "--virtual-time-budget=4000", *flags, page.as_uri(),
    ]  # fmt: skip
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)


def test_no_error_and_no_request(page: Path) -> None:
    seen = browse(page, 1000, "--dump-dom")
    assert "Embedding geometry" in seen.stdout
    assert "CONSOLE" not in seen.stderr
    text = page.read_text(encoding="utf-8")
    assert not re.findall(r"<(?:script|img|link|iframe)\b", text)
    assert not re.findall(r"(?:src|href)=\"(?!#)[^\"]*\"|url\((?!#)", text)


@pytest.mark.parametrize("width", [390, 1000])
def test_it_fits(page: Path, width: int) -> None:
    frame = page.with_name(f"frame{width}.html")
    frame.write_text(
        f'<!doctype html><iframe id=f src="report.html" style="width:{width}px;height:900px;border:0"></iframe>'
        "<p id=told></p><script>f.onload=()=>{told.textContent='width '+f.contentDocument.documentElement.scrollWidth+"
        "' of '+f.contentDocument.documentElement.clientWidth}</script>"
    )
    seen = browse(frame, width + 40, "--dump-dom")
    found = re.search(r"width (\d+) of (\d+)", seen.stdout)
    assert found is not None, "the frame was not read"
    assert int(found[1]) <= int(found[2]), "something sticks out sideways"
    assert int(found[2]) >= width - 20


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("browser")) as browser:
        yield browser


@pytest.mark.parametrize(("width", "dark"), [(390, False), (1280, True)])
def test_no_rule_of_accessibility_is_broken(page: Path, browser: Browser, width: int, dark: bool) -> None:
    browser.screen(width, dark=dark)
    browser.open("about:blank")
    browser.open(page.as_uri())
    assert browser.value("matchMedia('(prefers-color-scheme: dark)').matches") is dark
    browser.value("document.querySelectorAll('details').forEach((one) => { one.open = true })")
    assert browser.broken_rules() == []
    browser.value("document.querySelector('main p').style.color = 'rgb(128, 128, 128)'")
    browser.value("document.querySelector('main p').style.background = 'rgb(120, 120, 120)'")
    assert "color-contrast" in " ".join(browser.broken_rules()), "the rules see what is wrong"
