"""Looking before and after: `check` a text, and `analyze` models."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from opencse.adapting.adaptation import LOOSE, RECIPE
from opencse.analysis.inspection import Findings, Material, inspect
from opencse.analysis.pages import advice, how_to_load, lead, made_with, sections
from opencse.analysis.report import write_report
from opencse.api.models import Model, name_of, open_encoder
from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.known import UNKNOWN
from opencse.environment import require_packages
from opencse.errors import UserError, plain_failures
from opencse.evaluation import ScoredPairs, Sts, read_scored_pairs
from opencse.evaluation.suites import suite_folder
from opencse.foreign import checks_trust
from opencse.model_folder.layout import read_config
from opencse.model_folder.locate import BUILTIN
from opencse.outputs import foreign, made_folder, names_in, paths_of, require_apart
from opencse.progress import Progress, Silent
from opencse.recipes.recipe import resolve_recipe
from opencse.records import write_json
from opencse.runs.folder import NUMBERS, REPORT
from opencse.runs.report import open_subjects
from opencse.text import sample
from opencse.text.check import CorpusCheck, check_corpus
from opencse.text.given import Text, open_texts, texts_of
from opencse.text.looking import PAIRS_RECIPE, look_at
from opencse.text.readers import Texts

LONGEST = 1_000_000
"""Ids of a text that are counted, at most."""


@plain_failures
@checks_trust
def check(
    text: Text,
    *,
    model: Model = BUILTIN,
    max_length: int | None = None,
    near_duplicates: float | None = None,
    columns: Sequence[str] | None = None,
    split: str | None = None,
    fields: Sequence[str] | None = None,
    keep_code: bool = False,
    trust_remote_code: bool = False,
    progress: Progress | None = None,
) -> CorpusCheck:
    """Looks at a text before training on it: kind, duplicates, lengths, unknown tokens, scripts, with advice.

    Args:
        text: a file, a folder, a Hub data set id, a `Source`, or a list of texts, pairs or triples. Documents are read
            as `opencse.adapt` reads them, rows of pairs and triples as `opencse.train` does.
        model: whose vocabulary is tried on it: the built-in encoder, a folder, a Hub id, or a `SentenceEncoder`.
        max_length: ids that training would read of a text; by default what the suggested command reads.
        near_duplicates: count rows that overlap with an earlier one by this much or more, for instance 0.8 (needs
            ``opencse[dedup]``).
        columns: of a file; see `opencse.train`.
        split: of a Hub data set.
        fields: of a file's documents; see `opencse.train`. Where neither these nor the default ones are there, those
            that look most like a title and a text are read, and named in the advice.
        keep_code: keep code blocks of HTML and Markdown.
        trust_remote_code: run the Python code that the model's folder brings; see `SentenceEncoder.load`.
        progress: hears of it.

    Raises:
        UserError: for bad input, in one line.
    """
    if near_duplicates is not None and not 0 < near_duplicates <= 1:
        raise UserError(f"near_duplicates is above 0 and at most 1, not {near_duplicates}")
    if max_length is not None and not 1 <= max_length <= LONGEST:
        raise UserError(f"max_length is from 1 to {LONGEST:,}, not {max_length}")
    looked_at = look_at(text, columns=columns, split=split, fields=fields, keep_code=keep_code)
    texts = looked_at.texts
    device = None if isinstance(model, SentenceEncoder) else "cpu"
    encoder = open_encoder(model, progress or Silent(), device=device, trust_remote_code=trust_remote_code)
    longest = max_length or _longest_read(texts, name_of(model), encoder)
    checked = check_corpus(
        texts,
        encoder.tokenizer,
        max_length=longest,
        near_duplicates=near_duplicates,
        command=looked_at.command,
        read_as=looked_at.read_as,
        refused_unknown=UNKNOWN,
    )
    return checked.model_copy(update={"advice": [*looked_at.advice, *checked.advice]})


def _longest_read(texts: Texts, model: str, encoder: SentenceEncoder) -> int:
    """The ids of a text that the suggested command reads."""
    adapting = RECIPE if texts.documents is not None else f"{RECIPE}:{LOOSE}"
    recipe = PAIRS_RECIPE if texts.width > 1 else adapting
    longest = resolve_recipe(recipe, model=model).recipe.data.max_length
    return encoder.max_length if longest == "auto" else longest


@plain_failures
@checks_trust
def analyze(
    models: str | Path | Sequence[str | Path],
    out: str | Path | None = None,
    *,
    text: Text | None = None,
    columns: Sequence[str] | None = None,
    data: str | Path | None = None,
    pairs: str | Path | ScoredPairs = "sample",
    queries: Sequence[str] | None = None,
    pooling: str | None = None,
    device: str | None = None,
    trust_remote_code: bool = False,
    progress: Progress | None = None,
) -> Findings:
    """Looks inside one model, or several side by side: verdict, tasks, geometry, layers, neighbours.

    Args:
        models: folders, Hub ids, ``opencse-mini``, ``words:FILE``, ``bag-of-words``, or a run that is still going; one
            or several.
        out: folder for the page, ``report.html``, and its numbers, ``report.json``; None writes neither.
        text: your own sentences, for neighbours, calibration and layers.
        columns: of the text; see `opencse.train`.
        data: folder with the STS tasks (or with ``sts/`` in it), or ``hub``.
        pairs: graded pairs: a file, ``sample`` (built in), or read already.
        queries: sentences whose neighbours in ``text`` are told; by default a few of it.
        pooling: replaces the models' own.
        device: where to run; a GPU if there is one.
        trust_remote_code: run the Python code that the models' folders bring; see `SentenceEncoder.load`.
        progress: hears of it.

    Raises:
        UserError: for bad input, a model named twice, queries without a text, or an ``out`` that holds anything but an
            analysis.
    """
    tell = progress or Silent()
    named = [str(models)] if isinstance(models, str | Path) else [str(model) for model in models]
    folder = None if out is None else Path(out)
    if folder is not None:
        require_packages("a page with pictures", "train", "matplotlib")
        suite = None if data is None else suite_folder(data, "sts", alone=True)
        graded = None if str(pairs) == "sample" else pairs
        require_apart(folder, read=paths_of(text, graded, suite), models=paths_of(*named))
        _require_own(folder)
    texts = None if text is None else texts_of(open_texts(text, columns=columns))
    sts = None
    if data is not None:
        sts = Sts().load(suite_folder(data, "sts", alone=True), None)
    if isinstance(pairs, str | Path):
        pairs = read_scored_pairs(sample.TEST if str(pairs) == "sample" else Path(pairs))
    if queries and texts is None:
        raise UserError("--query looks for neighbours among your own sentences; name them with --text")
    source = str(text) if isinstance(text, str | Path) else None
    material = Material(pairs=pairs, texts=texts, source=source, sts=sts, queries=queries)
    subjects = open_subjects(named, pooling=pooling, device=device, progress=tell, trust_remote_code=trust_remote_code)
    if folder is None:
        return inspect(subjects, material, progress=tell.say)
    with made_folder(folder):
        findings = inspect(subjects, material, progress=tell.say)
        write_json(folder / NUMBERS, findings.model_dump(mode="json"))
        title = " and ".join(one.judged.name for one in subjects) if len(named) < 3 else f"{len(named)} encoders"
        opening = lead(findings) + made_with(findings)
        advised = advice(findings, named[-1])
        parts = [*([] if advised is None else [advised]), *sections(findings)]
        if subjects[-1].encoder is not None and named[-1] != BUILTIN:
            parts.append(how_to_load(named[-1]))
        write_report(folder / REPORT, title, opening, parts)
    return findings


def _require_own(folder: Path) -> None:
    """Refuses a folder that holds anything, unless it is an analysis."""
    names = names_in(folder)
    if names and "subjects" not in read_config(folder / NUMBERS):
        raise UserError(foreign(folder, names))
