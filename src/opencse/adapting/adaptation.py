"""Decides how `opencse adapt` trains: the training rows, the recipe's presets and how a checkpoint is selected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from opencse.adapting.continuing import Growth, KnownDocuments
from opencse.adapting.dev_choice import AUTO, TEXT, DevChoice, guarded
from opencse.adapting.material import TrainingMaterial, material_of
from opencse.adapting.preset_names import ASKED, DOUBLED, LOOSE, RECIPE, WHOLE
from opencse.adapting.start_advice import advice_for_builtin, language_of_documents
from opencse.adapting.text_questions import FEWEST
from opencse.adapting.user_queries import require_split
from opencse.adapting.written_questions import WrittenRow, numbers_of_documents, read_written
from opencse.asking.sources import references_of
from opencse.errors import UserError
from opencse.evaluation.retrieval.data import load_retrieval
from opencse.io import is_folder
from opencse.model_folder.locate import BUILTIN
from opencse.model_folder.reading import has_layers
from opencse.numerals import number_of
from opencse.progress import Counted, Progress
from opencse.ranking import Measure
from opencse.text.corpus_documents import documents_of
from opencse.text.documents import Document, GivenDocument
from opencse.text.given import GivenTexts, Text, open_texts


@dataclass(frozen=True, kw_only=True)
class Adaptation:
    """The decisions for a run of `opencse.adapt`: training rows, presets and how a checkpoint is selected.

    Attributes:
        text: the rows to train on.
        preset: presets of the recipe that suit the documents, joined by colons; None if there are none.
        dev: how the encoder to keep is selected; see `opencse.adapting.dev_choice.load_selector`.
        metric: by which answers are scored, where ``dev`` is still to be opened; None otherwise.
        known: the documents that the model will have been adapted to.
    """

    text: GivenTexts
    preset: str | None
    dev: DevChoice
    metric: str | None
    known: KnownDocuments


def plan_adaptation(
    corpus: str | Path | Sequence[GivenDocument],
    *,
    fields: Sequence[str] | None = None,
    keep_code: bool = False,
    pairs: Text | None = None,
    columns: Sequence[str] | None = None,
    questions: Text | None = None,
    model: str = BUILTIN,
    continues: bool = False,
    recipe: str = RECIPE,
    dev: str | Path | None = AUTO,
    metric: str | None = None,
    progress: Progress,
) -> Adaptation:
    """Reads documents and pairs, and decides how to train and select on them; takes the arguments of `opencse.adapt`.

    Raises:
        UserError: for bad input, in one line.
    """
    if pairs is None and columns is not None:
        raise UserError("--columns names the two columns of --pairs; add --pairs, or leave --columns out")
    if is_folder(pairs) and is_folder(dev) and Path(str(dev)).resolve() == Path(str(pairs)).resolve():
        require_split(Path(str(dev)), "dev", "its train judgements are the pairs that are trained on")
    question_pairs = () if pairs is None else read_pairs(pairs, columns)
    measure = None if metric is None else Measure.parse(metric)
    before = KnownDocuments.read(Path(model)) if continues else None
    documents, source = documents_of(corpus, fields, keep_code=keep_code, say=progress.say)
    written = [] if questions is None else read_written(questions)
    if written:  # among all documents, not among the new or the known ones alone
        references = references_of(documents)
        documents = [replace(one, name=name) for one, name in zip(documents, references, strict=True)]
    by_text = dev is not None and str(dev) in (AUTO, TEXT)  # else nothing would ask about what is held out
    known, count = KnownDocuments.of(documents, with_questions=by_text), Counted(progress, "shared words")
    make = partial(material_of, metric=measure, count=count, asks=by_text)
    if before is None:
        material = make(documents, pairs=question_pairs, written=written)
    else:
        growth = Growth.of(documents, before, model)
        for line in growth.lines(model):
            progress.say(line)
        of_new, of_old = written_about(written, documents, growth)
        new = make(growth.new, pairs=question_pairs, written=of_new)
        material = growth.material(new, partial(make, written=of_old), question_pairs)
        known = known.joined(before)
    progress.say(f"documents  {source}: {material.facts}")
    if model == BUILTIN:
        progress.say(advice_for_builtin(language_of_documents(documents)))
    selector: DevChoice = dev
    if by_text and material.questions is not None:
        selector = guarded(material.questions)
    elif by_text:
        _require_graded(source, str(dev), metric)
        clause = _of_other_language(documents)
        progress.say(
            f"selection  by 150 general English pairs{clause}, because the documents are too few for {FEWEST} "
            "questions; if you have queries with their relevant documents, select by them with --dev FOLDER"
        )
        selector = "sample"
    added = ", written questions" * bool(written) + " and given pairs" * bool(question_pairs)
    label = f"{source}, {material.kind}{added}"
    return Adaptation(
        text=GivenTexts(tuple(material.rows), label),
        preset=_presets(recipe, model, material, by_text=by_text, by_queries=is_folder(dev)),
        dev=selector,
        metric=metric if selector == dev else None,
        known=known,
    )


def written_about(
    written: Sequence[WrittenRow], documents: Sequence[Document], growth: Growth
) -> tuple[list[WrittenRow], list[WrittenRow]]:
    """Written questions about new documents, and those about the others."""
    new = {one.fingerprint for one in growth.new}
    flags = [documents[number].fingerprint in new for number in numbers_of_documents(written, documents).tolist()]
    of_new = [row for row, is_new in zip(written, flags, strict=True) if is_new]
    return of_new, [row for row, is_new in zip(written, flags, strict=True) if not is_new]


def _of_other_language(documents: Sequence[Document]) -> str:
    """A clause for the user where the documents are in another language than English."""
    language = language_of_documents(documents)
    return "" if language in (None, "english") else f", which say nothing about {str(language).capitalize()} text"


def _presets(recipe: str, model: str, material: TrainingMaterial, *, by_text: bool, by_queries: bool) -> str | None:
    """The recipe's presets that suit documents, model and selection, without the ones that the user named."""
    name, *presets_of_user = str(recipe).split(":")
    if name != RECIPE:
        return None
    loose, layers = material.kind == "sentences", has_layers(model)
    suits = {
        LOOSE: loose and len(material.rows[0]) == 1,
        DOUBLED: loose and len(material.rows[0]) == 2,
        ASKED: (by_text and material.many_pairs) or by_queries,
        WHOLE: material.many_pairs and layers,
    }
    presets = [preset for preset, does in suits.items() if does and preset not in presets_of_user]
    return ":".join(presets) or None


def _require_graded(source: str, dev: str, metric: str | None) -> None:
    """Refuses to select by graded pairs, the only data left, where the user requested something else.

    Raises:
        UserError: naming the fix.
    """
    if dev == TEXT:
        raise UserError(
            f"{source}: too small to hold documents out and ask {FEWEST} questions about them; select by "
            "something else: --dev with graded pairs, or with a folder of queries and documents"
        )
    if metric is not None:
        raise UserError(
            f"{source}: too small to hold documents out, so graded pairs select, and --metric does not apply to "
            "them; leave it out, or select by a folder of queries and documents (--dev)"
        )


def read_pairs(pairs: Text, columns: Sequence[str] | None = None) -> list[tuple[str, str]]:
    """Reads pairs of a question and a text that answers it.

    Args:
        pairs: a file with two columns, or a list of pairs; or a folder in BEIR's layout, whose judgements called
            ``train`` make a pair of each query and each relevant document.
        columns: names of the two columns of a file; see `Source`.

    Raises:
        UserError: for bad input, or rows of one or three texts.
    """
    if is_folder(pairs):
        return [
            (query, task.documents[row])
            for task in load_retrieval(Path(str(pairs)), split="train").tasks.values()
            for query, levels in zip(task.queries, task.judged, strict=True)
            for row, level in levels.items()
            if level > 0 and task.documents[row]
        ]
    source = open_texts(pairs, columns=columns)
    texts = source.read()
    if texts.width != 2:
        raise UserError(
            f"{source.location}: {number_of(texts.width, 'text')} in a row; pairs have two, a question and its answer: "
            "name their columns with --columns question,answer"
        )
    return [(first, second) for first, second in texts.rows]
