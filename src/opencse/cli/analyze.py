"""``opencse analyze``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from opencse.cli.jobs import out_folder
from opencse.cli.models import Trust


def analyze(
    models: Annotated[
        list[str],
        typer.Argument(
            help="Encoders: folders, Hub ids, opencse-mini, words:FILE, bag-of-words; or a run that is still going.",
            metavar="MODEL...",
        ),
    ],
    out: Annotated[
        Path,
        typer.Option("--out", "-o", parser=out_folder, metavar="FOLDER", help="Folder of report.html and report.json."),
    ] = Path("analysis"),
    text: Annotated[
        str | None,
        typer.Option("--text", help="Your own sentences, for neighbours, calibration and layers."),
    ] = None,
    data: Annotated[str | None, typer.Option(help="Folder with the STS tasks (or with sts/ in it), or 'hub'.")] = None,
    pairs: Annotated[str, typer.Option(help="Graded pairs: a file, or 'sample' (built in).")] = "sample",
    query: Annotated[
        list[str] | None, typer.Option("--query", "-q", help="A sentence whose neighbours to show; may be repeated.")
    ] = None,
    columns: Annotated[str | None, typer.Option(help="Columns of --text to read; see opencse train.")] = None,
    pooling: Annotated[str | None, typer.Option(help="Replaces the models' own.")] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, mps; by default a GPU if there is one.")] = None,
    trust_remote_code: Trust = False,
    show: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
) -> None:
    """See inside one model, or several side by side: a page with verdict, tasks, geometry, layers, neighbours."""
    import webbrowser

    from opencse.analysis.inspection import Material, inspect
    from opencse.analysis.pages import how_to_load, lead, made_with, sections
    from opencse.analysis.report import write_report
    from opencse.cli.console import ConsoleReporter, echo
    from opencse.cli.jobs import make_folder, open_source
    from opencse.errors import UserError
    from opencse.evaluation import load_sts, load_sts_hub, read_scored_pairs
    from opencse.evaluation.sts.data import HUB
    from opencse.evaluation.suites import suite_folder
    from opencse.records import write_json
    from opencse.runs.report import open_subjects
    from opencse.text import sample

    _require_own(out)
    texts = None
    if text is not None:
        texts = [one for row in open_source(text, columns, "train", None).read().rows for one in row]
    sts = None
    if data is not None:
        sts = load_sts_hub() if data == HUB else load_sts(suite_folder(data, "sts", alone=True))
    material = Material(
        pairs=read_scored_pairs(sample.TEST if pairs == "sample" else Path(pairs)),
        texts=texts,
        source=text,
        sts=sts,
        queries=query,
    )
    if query and texts is None:
        raise UserError("--query looks for neighbours among your own sentences; name them with --text")
    reporter = ConsoleReporter()
    subjects = open_subjects(
        models, pooling=pooling, device=device, reporter=reporter, trust_remote_code=trust_remote_code
    )
    make_folder(out)
    findings = inspect(subjects, material, progress=reporter.say)
    write_json(out / "report.json", findings.model_dump(mode="json"))
    page = out / "report.html"
    title = " and ".join(one.judged.name for one in subjects) if len(models) < 3 else f"{len(models)} encoders"
    write_report(page, title, lead(findings) + made_with(findings), [*sections(findings), how_to_load(models[-1])])
    echo(str(page))
    if show:
        webbrowser.open(page.resolve().as_uri())


def _require_own(out: Path) -> None:
    """Refuses to write over a page that is no analysis: that of a run, or another's."""
    from opencse.encoder.layout import read_config
    from opencse.errors import UserError

    page, told = out / "report.html", out / "report.json"
    if (page.exists() or told.exists()) and "subjects" not in read_config(told):
        raise UserError(f"{page}: is there and is no analysis, so it is not written over; choose another --out")
