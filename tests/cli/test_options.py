"""How the options of a group are typed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict, Unpack

import pytest
import typer
from typer.testing import CliRunner

from opencse.api.declaring import Option
from opencse.cli.options import with_options
from opencse.errors import UserError


class Kinds(TypedDict, total=False):
    """An option of each kind."""

    names: Annotated[Sequence[str] | None, Option(None, "Names.")]
    suites: Annotated[Sequence[str], Option(("sts",), "Suites.")]
    settings: Annotated[Iterable[str], Option((), "Settings.", ("--set", "-s"), repeated=True)]
    engine: Annotated[Literal["local", "ray"], Option("local", "Engine.")]
    seeds: Annotated[Sequence[int], Option((1, 2), "Seeds.", typed="1-2")]
    processes: Annotated[int | None, Option(1, "Processes.", typed=None, least=1)]
    report: Annotated[bool, Option(False, "Report.", ("--report/--no-report",), typed=True)]
    fast: Annotated[bool, Option(False, "FastOptions.")]
    skip_lines: Annotated[Collection[int], Option((), "Lines.", typed=None, file=True)]
    secret: Annotated[str, Option("none", "secret.", hidden=True)]


def run(*arguments: str) -> dict[str, Any]:
    app = typer.Typer()
    passed: dict[str, Any] = {}

    @app.command()
    @with_options(seeds=lambda text: [int(part) for part in text.split("-")])
    def command(text: str, **options: Unpack[Kinds]) -> None:
        passed.update(options, text=text)

    result = CliRunner().invoke(app, ["words", *arguments])
    if result.exit_code:
        raise result.exception or UserError(result.output)
    return passed


def test_defaults() -> None:
    assert run() == {
        "text": "words",
        "names": None,
        "suites": ["sts"],
        "settings": (),
        "engine": "local",
        "seeds": [1, 2],
        "processes": None,
        "report": True,
        "fast": False,
        "skip_lines": (),
    }


def test_what_is_typed_becomes_what_the_function_takes(tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    lines.write_text("3\n5\n")
    typed = (
        "--names a,b --suites sts,probing -s a=1 --set b=2 --engine ray --seeds 4-6 --processes 2 --no-report --fast"
    )
    passed = run(*typed.split(), "--skip-lines", str(lines))
    assert passed["names"] == ["a", "b"]
    assert passed["suites"] == ["sts", "probing"]
    assert list(passed["settings"]) == ["a=1", "b=2"]
    assert (passed["engine"], passed["seeds"], passed["processes"]) == ("ray", [4, 6], 2)
    assert (passed["report"], passed["fast"], set(passed["skip_lines"])) == (False, True, {3, 5})


@pytest.mark.parametrize("arguments", [["--engine", "cloud"], ["--processes", "0"], ["--secret", "x"]])
def test_what_is_out_of_range_or_hidden_is_refused(arguments: list[str]) -> None:
    with pytest.raises(SystemExit):
        run(*arguments)
