"""Decides how `opencse adapt` trains: the training rows, the recipe's presets and how a checkpoint is selected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from opencse.adapting.adaptation_texts import AdaptationSources
from opencse.adapting.continuing import Growth, KnownDocuments
from opencse.adapting.dev_choice import AUTO, SAMPLE, TEXT, DevChoice, guarded, load_selector
from opencse.adapting.material import TrainingMaterial, material_of
from opencse.adapting.preset_names import ASKED, DOUBLED, LOOSE, RECIPE, WHOLE
from opencse.adapting.selection import Selector
from opencse.adapting.selection_by_graded_pairs import GradedPairSelector
from opencse.adapting.start_advice import advice_for_start, advice_on_words, language_of_documents
from opencse.adapting.text_questions import FEWEST
from opencse.adapting.written_questions import WrittenRow, numbers_of_documents
from opencse.errors import UserError
from opencse.io import is_folder
from opencse.model_folder.locate import BUILTIN, BUILTINS
from opencse.model_folder.reading import has_layers
from opencse.progress import Counted, Progress
from opencse.ranking import Measure
from opencse.text.documents import Document
from opencse.text.given import GivenTexts


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
    sources: AdaptationSources,
    *,
    model: str = BUILTIN,
    continues: bool = False,
    recipe: str = RECIPE,
    dev: str | Path | None = AUTO,
    metric: str | None = None,
    progress: Progress,
) -> Adaptation:
    """Reads documents and pairs, and decides how to train and select on them; see `opencse.adapt`.

    Args:
        sources: where documents and pairs are.
        model: to adapt.
        continues: whether ``model`` was adapted to a part of the documents before.
        recipe: by name, with the presets that the user chose.
        dev: data that the encoder to keep is selected by.
        metric: by which answers are scored; nDCG@10 by default.
        progress: receives what was read and decided.

    Raises:
        UserError: for bad input, in one line.
    """
    sources.require_apart_from(dev)
    measure = None if metric is None else Measure.parse(metric)
    before = KnownDocuments.read(Path(model)) if continues else None
    texts = sources.read(progress.say)
    by_text = dev is not None and str(dev) in (AUTO, TEXT)  # else nothing would ask about what is held out
    known = KnownDocuments.of(texts.documents, with_questions=by_text)
    make = partial(material_of, metric=measure, count=Counted(progress, "shared words"), asks=by_text)
    if before is None:
        material = make(texts.documents, pairs=texts.pairs, written=texts.written)
    else:
        growth = Growth.of(texts.documents, before, model)
        for line in growth.lines(model):
            progress.say(line)
        of_new, of_old = written_about(texts.written, texts.documents, growth)
        new = make(growth.new, pairs=texts.pairs, written=of_new)
        material = growth.material(new, partial(make, written=of_old), texts.pairs)
        known = known.joined(before)
    progress.say(f"documents  {texts.source}: {material.facts}")
    if model in BUILTINS and (on_start := advice_for_start(model, language_of_documents(texts.documents))):
        progress.say(on_start)
    selector: DevChoice = dev
    if by_text and material.questions is not None:
        on_words = advice_on_words(material.questions)
        if on_words is not None:
            progress.say(on_words)
        selector = guarded(material.questions)
    elif by_text:
        _require_graded(texts.source, str(dev), metric)
        clause = _of_other_language(texts.documents)
        progress.say(
            f"selection  by 150 general English pairs{clause}, because the documents are too few for {FEWEST} "
            "questions; if you have queries with their relevant documents, select by them with --dev FOLDER"
        )
        selector = SAMPLE
    text = GivenTexts(tuple(material.rows), f"{texts.source}, {material.kind}{texts.added}")
    if not (isinstance(selector, Selector) or is_folder(selector)):
        selector = load_selector(selector, text, metric)
    if isinstance(selector, GradedPairSelector):
        selector = replace(selector, strict=True)
    return Adaptation(
        text=text,
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
