"""Checks a text before training, and analyzes models afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Unpack

from opencse.adapting.adaptation import LOOSE, RECIPE
from opencse.analysis.inspection import AnalysisTexts, Findings, inspect
from opencse.analysis.pages import advice, how_to_load, lead, made_with, sections
from opencse.analysis.report import write_report
from opencse.api.declaring import public
from opencse.api.models import name_of, open_encoder
from opencse.api.options.looking import AnalyzeOptions, CheckOptions
from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.unknown_tokens import UNKNOWN_LIMIT
from opencse.environment import require_packages
from opencse.errors import UserError
from opencse.evaluation import Sts, read_scored_pairs
from opencse.evaluation.suites import suite_folder
from opencse.model_folder.layout import read_config
from opencse.model_folder.locate import BUILTIN
from opencse.outputs import foreign_files_message, made_folder, names_in, paths_of, require_apart
from opencse.progress import Silent
from opencse.recipes.recipe import resolve_recipe
from opencse.records import save_json
from opencse.runs.folder import NUMBERS, REPORT
from opencse.runs.report import open_subjects
from opencse.text import sample
from opencse.text.check import PAIRS_RECIPE, CorpusCheck, check_corpus, read_to_check
from opencse.text.given import Text, open_texts, texts_of
from opencse.text.readers import Texts

LONGEST = 1_000_000
"""The most ids of a text that are counted."""


@public
def check(text: Text, **options: Unpack[CheckOptions]) -> CorpusCheck:
    """Checks a text before training on it: kind, duplicates, lengths, unknown tokens, scripts, with advice.

    Example:
        >>> import opencse
        >>> result = opencse.check(["The kettle boils.", "Snow fell.", "The kettle boils."])
        >>> result.rows, round(result.duplicates, 2)
        (3, 0.33)

    Args:
        text: a file, a folder, a Hub data set id, a `Source`, or a list of texts, pairs or triples. Documents are read
            as `opencse.adapt` reads them, rows of pairs and triples as `opencse.train` does.
        **options: see `CheckOptions`.

    Raises:
        UserError: for bad input, in one line.
    """
    near_duplicates, max_length = options["near_duplicates"], options["max_length"]
    if near_duplicates is not None and not 0 < near_duplicates <= 1:
        raise UserError(f"near_duplicates is above 0 and at most 1, not {near_duplicates}")
    if max_length is not None and not 1 <= max_length <= LONGEST:
        raise UserError(f"max_length is from 1 to {LONGEST:,}, not {max_length}")
    sample_of_text = read_to_check(
        text,
        columns=options["columns"],
        split=options["split"],
        fields=options["fields"],
        keep_code=options["keep_code"],
    )
    texts, model = sample_of_text.texts, options["model"]
    encoder = open_encoder(
        model,
        options["progress"] or Silent(),
        device=None if isinstance(model, SentenceEncoder) else "cpu",
        trust_remote_code=options["trust_remote_code"],
    )
    checked = check_corpus(
        texts,
        encoder.tokenizer,
        max_length=max_length or _longest_read(texts, name_of(model), encoder),
        near_duplicates=near_duplicates,
        command=sample_of_text.command,
        read_as=sample_of_text.read_as,
        refused_unknown=UNKNOWN_LIMIT,
    )
    return checked.model_copy(update={"advice": [*sample_of_text.advice, *checked.advice]})


def _longest_read(texts: Texts, model: str, encoder: SentenceEncoder) -> int:
    """How many ids of a text the suggested command reads."""
    adapting = RECIPE if texts.documents is not None else f"{RECIPE}:{LOOSE}"
    recipe = PAIRS_RECIPE if texts.width > 1 else adapting
    longest = resolve_recipe(recipe, model=model).recipe.data.max_length
    return encoder.max_length if longest == "auto" else longest


@public
def analyze(
    models: str | Path | Sequence[str | Path], out: str | Path | None = None, **options: Unpack[AnalyzeOptions]
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
        **options: see `AnalyzeOptions`.

    Raises:
        UserError: for bad input, a model named twice, queries without a text, or an ``out`` that holds anything but an
            analysis.
    """
    progress = options["progress"] or Silent()
    text, data, pairs, queries = options["text"], options["data"], options["pairs"], options["queries"]
    names = [str(models)] if isinstance(models, str | Path) else [str(model) for model in models]
    folder = None if out is None else Path(out)
    if folder is not None:
        require_packages("a page with pictures", "train", "matplotlib")
        suite = None if data is None else suite_folder(data, "sts", alone=True)
        graded = None if str(pairs) == "sample" else pairs
        require_apart(folder, read=paths_of(text, graded, suite), models=paths_of(*names))
        _require_analysis(folder)
    texts = None if text is None else texts_of(open_texts(text, columns=options["columns"]))
    sts = None
    if data is not None:
        sts = Sts().load(suite_folder(data, "sts", alone=True), None)
    if isinstance(pairs, str | Path):
        pairs = read_scored_pairs(sample.TEST if str(pairs) == "sample" else Path(pairs))
    if queries and texts is None:
        raise UserError("--query needs --text FILE, the sentences in which neighbours are looked for")
    source = str(text) if isinstance(text, str | Path) else None
    material = AnalysisTexts(pairs=pairs, texts=texts, source=source, sts=sts, queries=queries)
    subjects = open_subjects(
        names,
        pooling=options["pooling"],
        device=options["device"],
        progress=progress,
        trust_remote_code=options["trust_remote_code"],
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


def _require_analysis(folder: Path) -> None:
    """Refuses a folder that is neither empty nor an analysis."""
    names = names_in(folder)
    if names and "subjects" not in read_config(folder / NUMBERS):
        raise UserError(foreign_files_message(folder, names))
