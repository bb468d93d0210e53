"""Names in Markdown stay text."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from opencse.analysis.pages import how_to_load
from opencse.analysis.report import paragraph, write_report
from opencse.encoder.encoder import SentenceEncoder
from opencse.markdown import as_text, public_name, without_home
from opencse.recipes.recipe import load_recipe
from opencse.runs.card import model_card
from opencse.text import sample
from opencse.text.corpus import CorpusFacts


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("opencse-mini", "opencse-mini"),
        ("runs/my_model 2.txt (p < 0.05) [0.1, 0.2]", "runs/my_model 2.txt (p < 0.05) [0.1, 0.2]"),
        ("a|b", "a&#124;b"),
        ("a\\|b", "a&#92;&#124;b"),
        ("<script>x</script>", "&#60;script>x&#60;/script>"),
        ("[x](http://y)", "[x&#93;(http://y)"),
        ("`code` *bold*", "&#96;code&#96; &#42;bold&#42;"),
        ("a\n---\n# b", "a&#92;n---&#92;n# b"),
        ("a&lt;b & c", "a&#38;lt;b & c"),
        ("\x1b[31m\udc80", "&#92;x1b[31m&#92;udc80"),
        (5, "5"),
    ],
)
def test_a_name_is_shown_as_it_is(name: object, shown: str) -> None:
    assert as_text(name) == shown


HOSTILE = "m | x |\n\n---\nlicense: other\n# Title\n<script>alert(1)</script> [a](http://b) `c`\x1b[31m"


def test_a_card_shows_names_as_they_are(encoder: SentenceEncoder) -> None:
    facts = CorpusFacts(
        source=HOSTILE,
        fingerprint="0" * 64,
        rows=2,
        width=1,
        tokens=9,
        documents=0,
        duplicates=0,
        at_limit=0,
        max_length=32,
    )
    recipe = load_recipe("simcse").model_copy(update={"name": HOSTILE, "title": HOSTILE, "paper": HOSTILE})
    told = {"which": "last", "scores": "none"}
    card = model_card(recipe, HOSTILE, facts, encoder, verdict=f"best on {HOSTILE}", **told)
    plain = model_card(load_recipe("simcse"), "m", facts, encoder, verdict="v", **told)
    assert len(card.splitlines()) == len(plain.splitlines())
    assert card.count("\n---\n") == plain.count("\n---\n")
    cells = [[line.count("|") for line in text.splitlines()] for text in (card, plain)]
    assert cells[0] == cells[1], "no name makes a cell of its own"
    assert not any(part in card for part in ("<script", "](http://b", "\x1b"))
    assert card.count("&#60;script>") == 4  # of the model, a path, the last part alone


def test_a_page_shows_names_as_they_are(tmp_path: Path) -> None:
    folder = 'x"); import os; ("\x1b</code><script>\udc80'
    page = tmp_path / "report.html"
    write_report(page, folder, paragraph(folder), [how_to_load(folder)])
    text = page.read_text(encoding="utf-8")
    assert "<script" not in text
    assert "\x1b" not in text
    assert "opencse.load(&#34;x\\&#34;); import os" in text, "quoted as a string of Python"


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("/home/anna/models/e5", "e5"),
        ("./models/e5/", "e5"),
        ("models/mine/e5", "e5"),
        ("intfloat/e5-small", "intfloat/e5-small"),
        ("opencse-mini", "opencse-mini"),
        (".", Path.cwd().name),
        ("C:\\Users\\anna\\e5", "e5"),
    ],
)
def test_names_that_leave_this_machine_hold_no_folders(name: str, shown: str) -> None:
    assert public_name(name) == shown


def test_the_home_folder_is_written_as_a_tilde(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/al")
    given = "/home/al/x /home/alice/y '/home/al' /data/home/al C:\\Users\\al /Users/al http://x.org/home/al"
    assert without_home(given) == "~/x ~/y '~' /data/home/al ~ ~ http://x.org/home/al"
    monkeypatch.setenv("HOME", "/data/al")
    assert without_home("/data/al/x /data/alice") == "~/x /data/alice"


@pytest.mark.slow
@pytest.mark.usefixtures("not_drawn")
def test_no_card_or_page_holds_the_home_folder(
    tmp_path: Path, tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import opencse

    home = tmp_path / "anna"
    shutil.copytree(tiny_folder, home / "start")
    config = json.loads((home / "start" / "config.json").read_text())
    (home / "start" / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 1}))
    text = home / "mine.txt"
    text.write_text("\n".join(sample.TRAIN.read_text().splitlines()[:300]))
    monkeypatch.setenv("HOME", str(home))
    start = home / "start"
    opencse.whiten(start, text, home / "white", dimension=2)
    opencse.export_static(start, home / "table", corpus=text)
    opencse.static(text, home / "counted", model=start)
    opencse.export_onnx(start, home / "onnx", text=text)
    few = ["training.max_steps=2", "training.batch_size=8"]
    opencse.train(text, home / "run", model=start, dev=None, settings=few, report=True)
    opencse.analyze(start, home / "page", text=text)
    written = [path for path in home.rglob("*") if path.name in ("README.md", "report.html", "export.json")]
    assert len(written) == 9
    assert {path.name: str(home) for path in written if str(home) in path.read_text()} == {}
    assert all("start" in path.read_text() for path in written)
