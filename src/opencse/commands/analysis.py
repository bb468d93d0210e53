"""Analyzes models: geometry, layers, neighbours, tasks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from opencse.commands.declared import Typed, command, needs
from opencse.commands.shared import Columns, Device, Pooling, Reporter, TrustRemoteCode
from opencse.progress import SILENT

if TYPE_CHECKING:
    from opencse.analysis.inspection import Findings
    from opencse.evaluation import ScoredPairs
    from opencse.text.given import Text


@command
@needs(queries="text")
def analyze(
    models: Annotated[
        str | Path | Sequence[str | Path],
        Typed(
            "Encoders: folders (also of an unfinished run), Hub ids, opencse-small or -mini, words:FILE, bag-of-words.",
            repeated=True,
            metavar="MODEL",
        ),
    ],
    out: Annotated[
        str | Path | None,
        Typed(
            "Folder of report.html and report.json.",
            ("--out", "-o"),
            default="analysis",
            parser=Path,
            metavar="FOLDER",
        ),
    ] = None,
    *,
    text: Text | None = None,
    data: str | Path | None = None,
    pairs: str | Path | ScoredPairs = "sample",
    queries: Annotated[
        Sequence[str] | None,
        Typed(
            "Sentence whose nearest neighbours are shown; may be repeated.",
            ("--query", "-q"),
            repeated=True,
            quoted=True,
        ),
    ] = None,
    columns: Columns = None,
    pooling: Pooling = None,
    device: Device = None,
    trust_remote_code: TrustRemoteCode = False,
    overwrite: bool = False,
    progress: Reporter = SILENT,
) -> Findings:
    """Analyzes one model, or several side by side: verdict, tasks, geometry, layers, neighbours.

    Example:
        >>> import opencse
        >>> findings = opencse.analyze("opencse-mini")
        >>> findings.subjects[0].spearman > 30  # on the built-in graded pairs
        True

    Args:
        models: folders, Hub ids, ``opencse-mini``, ``words:FILE``, ``bag-of-words``, or a run that is not finished;
            one or several.
        out: folder for the page, ``report.html``, and its numbers, ``report.json``; None writes neither.
        text: File of your own sentences, for neighbours, calibration and layers.
        data: Folder with the STS tasks (or with sts/ in it), or 'hub' to download them; by default none.
        pairs: Graded pairs: a file, or 'sample' (built in).
        queries: sentences whose nearest neighbours in ``text`` are shown; by default a few of its sentences.
        overwrite: Write into --out although it is not empty; the page and the numbers there are replaced.

    Raises:
        UserError: for bad input, a model named twice, queries without a text, or an ``out`` that is not empty.
    """
    from opencse.analysis.inspection import AnalysisTexts, inspect
    from opencse.analysis.report import advice, how_to_load, lead, made_with, sections, write_report
    from opencse.environment import require_packages
    from opencse.evaluation import Sts, read_scored_pairs
    from opencse.evaluation.suites import suite_folder
    from opencse.files import made_folder
    from opencse.model_folder.locate import BUILTIN
    from opencse.outputs import paths_of, require_apart, require_new
    from opencse.records import save_json
    from opencse.runs.folder import NUMBERS, REPORT
    from opencse.runs.report import open_subjects
    from opencse.text import sample
    from opencse.text.given import open_texts, texts_of

    names = [str(models)] if isinstance(models, str | Path) else [str(model) for model in models]
    folder = None if out is None else Path(out)
    if folder is not None:
        require_packages("a page with pictures", "train", "matplotlib")
        suite = None if data is None else suite_folder(data, "sts")
        graded = None if str(pairs) == "sample" else pairs
        require_apart(folder, read=paths_of(text, graded, suite), models=paths_of(*names))
        require_new(folder, overwrite=overwrite)
    texts = None if text is None else texts_of(open_texts(text, columns=columns))
    sts = None
    if data is not None:
        sts = Sts().load(suite_folder(data, "sts"), None)
    if isinstance(pairs, str | Path):
        pairs = read_scored_pairs(sample.TEST if str(pairs) == "sample" else Path(pairs))
    source = str(text) if isinstance(text, str | Path) else None
    material = AnalysisTexts(pairs=pairs, texts=texts, source=source, sts=sts, queries=queries)
    subjects = open_subjects(
        names,
        pooling=pooling,
        device=device,
        progress=progress,
        trust_remote_code=trust_remote_code,
    )
    if folder is None:
        return inspect(subjects, material, progress=progress.say)
    with made_folder(folder):
        findings = inspect(subjects, material, progress=progress.say)
        save_json(folder / NUMBERS, findings.model_dump(mode="json"))
        title = " and ".join(one.model.name for one in subjects) if len(names) < 3 else f"{len(names)} encoders"
        opening = lead(findings) + made_with(findings)
        advised = advice(findings, names[-1])
        parts = [*([] if advised is None else [advised]), *sections(findings)]
        if subjects[-1].encoder is not None and names[-1] != BUILTIN:
            parts.append(how_to_load(names[-1]))
        write_report(folder / REPORT, title, opening, parts)
    return findings
