"""The word list and the counts find what they are there to find; numbers, names and secrets as they are shown."""

from __future__ import annotations

import ast
import json
import shutil
from pathlib import Path

import pytest

from helpers import json_in, script
from opencse.encoder.encoder import SentenceEncoder
from opencse.environment import Environment
from opencse.errors import masked
from opencse.markdown import as_text, public_name, without_home
from opencse.recipes.recipe import load_recipe
from opencse.runs.finish import model_card
from opencse.runs.record import Identity, RunRecord
from opencse.text import sample
from opencse.text.corpus import CorpusFacts

ROOT = Path(__file__).parent.parent
counts, words = (script(ROOT / "tools" / f"{name}.py") for name in ("counts", "words"))


def repository(folder: Path, **modules: str) -> Path:
    for name, text in modules.items():
        path = folder / "src" / "opencse" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def test_a_phrase_in_a_docstring_is_named_with_its_line_and_what_to_write(tmp_path: Path) -> None:
    text = '"""First.\n\nBoth are alike.\n"""\nalike = 1  # the name of a variable is no language\n'
    (line,) = words.phrases(repository(tmp_path, a=text))
    assert line.startswith("src/opencse/a.py:3: 'alike': write the same")


def test_tokens_are_counted_without_docstrings_comments_and_imports() -> None:
    text = 'import os\n\n\ndef f(a):\n    """Doc."""\n    # why\n    return a\n'
    assert counts.tokens(ast.parse(text), text) == len(["def", "f", "(", "a", ")", ":", "return", "a"])


SECRET = "s3cret"


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (f"postgresql://anna:{SECRET}@db:5432/texts", "postgresql://anna:***@db:5432/texts"),
        (f"postgresql://anna:{SECRET}@x@db/texts", "postgresql://anna:***@db/texts"),
        (f"host=db user=anna password={SECRET} dbname=x", "host=db user=anna password=*** dbname=x"),
        (f"host=db password='a {SECRET}' dbname=x", "host=db password=*** dbname=x"),
        (f"https://{SECRET}@qdrant:6333", "https://***@qdrant:6333"),
        (f"https://qdrant:6333/?api_key={SECRET}&a=1", "https://qdrant:6333/?api_key=***&a=1"),
        (f"postgresql://db/texts?sslpassword={SECRET}&user=a", "postgresql://db/texts?sslpassword=***&user=a"),
    ],
)
def test_secrets_are_masked(given: str, shown: str) -> None:
    assert masked(given) == shown
    assert masked(f"{given} : refused") == f"{shown} : refused"
    assert masked(shown) == shown


def test_parts_of_a_secret_in_what_a_driver_says_are_masked() -> None:
    source = f"postgresql://anna:pa%20ss@{SECRET}@db/texts"
    said = masked(f"no host {SECRET}@db; password 'pa ss' is wrong", source)
    assert SECRET not in said
    assert "pa ss" not in said


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("opencse-mini", "opencse-mini"),
        ("runs/my_model 2.txt (p < 0.05) [0.1, 0.2]", "runs/my_model 2.txt (p < 0.05) [0.1, 0.2]"),
        ("a\\|b", "a&#92;&#124;b"),
        ("<script>x</script>", "&#60;script>x&#60;/script>"),
        ("[x](http://y)", "[x&#93;(http://y)"),
        ("a\n---\n# b", "a&#92;n---&#92;n# b"),
        ("a&lt;b & c", "a&#38;lt;b & c"),
        ("\x1b[31m\udc80", "&#92;x1b[31m&#92;udc80"),
    ],
)
def test_a_name_is_shown_as_it_is(name: object, shown: str) -> None:
    assert as_text(name) == shown


HOSTILE = "m | x |\n\n---\nlicense: other\n# Title\n<script>alert(1)</script> [a](http://b) `c`\x1b[31m"


def test_a_card_shows_names_as_they_are(encoder: SentenceEncoder) -> None:
    def record(model: str) -> RunRecord:
        identity = Identity(recipe={}, model=model, text="0" * 64, precision="float32", dev=None)
        counts = CorpusFacts("", "", 2, 1, 9, 0, 0, 0, 32)
        return RunRecord(identity=identity, source=HOSTILE, corpus=counts, steps=1, environment=Environment.here("cpu"))

    recipe = load_recipe("simcse").model_copy(update={"name": HOSTILE, "title": HOSTILE, "paper": HOSTILE})
    card = model_card(recipe, record(HOSTILE), encoder, which="last", verdict=f"best on {HOSTILE}", scores={})
    plain = model_card(load_recipe("simcse"), record("m"), encoder, which="last", verdict="v", scores={})
    assert len(card.splitlines()) == len(plain.splitlines())
    assert card.count("\n---\n") == plain.count("\n---\n")
    cells = [[line.count("|") for line in text.splitlines()] for text in (card, plain)]
    assert cells[0] == cells[1], "no name makes a cell of its own"
    assert not any(part in card for part in ("<script", "](http://b", "\x1b"))
    assert card.count("&#60;script>") == 4  # of the model, a path, the last part alone


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("/home/anna/models/e5", "e5"),
        ("./models/e5/", "e5"),
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
def test_no_card_or_page_holds_the_home_folder(
    tmp_path: Path, tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import opencse

    home = tmp_path / "anna"
    shutil.copytree(tiny_folder, home / "start")
    config = json_in(home / "start" / "config.json")
    (home / "start" / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 0}))
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
