"""Decides how `opencse adapt` trains: the training rows, the recipe's presets and how a checkpoint is selected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from opencse.asking.plan import references_of
from opencse.documents.advice import (
    ASKED,
    DOUBLED,
    LOOSE,
    MOST_OF_NARROW,
    NARROW,
    RECIPE,
    TAUGHT,
    WHOLE,
    WIDE,
    advice_for,
    advice_for_start,
    advice_on_words,
    language_of_documents,
)
from opencse.documents.continuing import Growth, KnownDocuments
from opencse.documents.dev_choice import (
    QUERIES,
    TOO_SMALL,
    Dev,
    SavedQuestions,
    UserQueries,
    require_split,
)
from opencse.documents.given import WrittenRow, numbers_of_documents, read_written
from opencse.documents.material import TrainingMaterial, material_of
from opencse.documents.questions import TextQuestions
from opencse.errors import UserError
from opencse.evaluation.retrieval.data import load_retrieval
from opencse.files import is_folder
from opencse.model_folder.description import describe
from opencse.model_folder.layout import entry
from opencse.model_folder.locate import BUILTINS, SMALL
from opencse.numerals import number_of
from opencse.outputs import is_same
from opencse.progress import Counted, Progress, Say
from opencse.text.documents import Document, GivenDocument, documents_of
from opencse.text.files.kinds import Reading
from opencse.text.given import GivenTexts, Text, open_texts, say_left_out_rows
from opencse.training.callbacks import Callback, Record
from opencse.training.questions import FEWEST
from opencse.training.selection import GradedPairSelector, TrainedTexts


@dataclass(frozen=True, kw_only=True)
class AdaptationSources(Reading):
    """Where the texts of an adaptation are; see `opencse.adapt` for the arguments.

    Attributes:
        corpus: a file, a folder or a pattern, or documents in memory.
        fields: names of the columns with title and text; for files only.
        pairs: questions with texts that answer them.
        columns: names of the two columns of ``pairs``.
        questions: that a language model wrote about the documents.

    Example:
        >>> sources = AdaptationSources(corpus=["A text.", "Another."], pairs=[("What?", "That.")])
        >>> documents, source, pairs, written = sources.read(print)
        >>> len(documents), pairs
        (2, [('What?', 'That.')])
    """

    corpus: str | Path | Sequence[GivenDocument]
    fields: Sequence[str] | None = None
    pairs: Text | None = None
    columns: Sequence[str] | None = None
    questions: Text | None = None

    def require_apart_from(self, dev: Dev) -> None:
        """Refuses to select by the pairs that are trained on.

        Raises:
            UserError: where ``dev`` is the folder of ``pairs`` and has no judgements of its own to select by.
        """
        if isinstance(dev.source, Path) and is_folder(self.pairs) and is_same(dev.source, Path(str(self.pairs))):
            require_split(dev.source, "dev", "its train judgements are the pairs that are trained on")

    def read(self, say: Say) -> tuple[list[Document], str, Sequence[tuple[str, str]], list[WrittenRow]]:
        """Reads all of it.

        Args:
            say: called with what was read and what was left out.

        Returns:
            The documents, each with a name where there are written questions; the name of the collection; the user's
            pairs, a question and a text that answers it; and questions of a language model.

        Raises:
            UserError: for bad input, in one line.
        """
        if self.pairs is None and self.columns is not None:
            raise UserError("--columns names the two columns of --pairs; add --pairs, or leave --columns out")
        pairs = () if self.pairs is None else read_pairs(self.pairs, self.columns, say, quoted=self.quoted)
        documents, source = documents_of(self.corpus, self.fields, say=say, **self.how)
        written = [] if self.questions is None else read_written(self.questions)
        if written:  # among all documents, not among the new or the known ones alone
            references = references_of(documents)
            documents = [replace(one, name=name) for one, name in zip(documents, references, strict=True)]
        return documents, source, pairs, written


def read_pairs(
    pairs: Text, columns: Sequence[str] | None = None, say: Say | None = None, *, quoted: bool = False
) -> list[tuple[str, str]]:
    """Reads pairs of a question and a text that answers it.

    Args:
        pairs: a file with two columns, or a list of pairs; or a folder in BEIR's layout, whose judgements called
            ``train`` make a pair of each query and each relevant document.
        columns: names of the two columns of a file; see `Source`.
        say: called with what was left out.
        quoted: of a file; see `opencse.text.files.kinds.Reading`.

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
    source = open_texts(pairs, columns=columns, quoted=quoted and isinstance(pairs, str | Path))
    say_left_out_rows(source, say)
    texts = source.read()
    if texts.width != 2:
        raise UserError(
            f"{source.location}: {number_of(texts.width, 'text')} in a row; pairs have two, a question and its answer: "
            "name their columns with --columns question,answer"
        )
    return [(first, second) for first, second in texts.rows]


@dataclass(kw_only=True)
class Adaptation(Callback):
    """The decisions for a run of `opencse.adapt`: training rows, presets and how a checkpoint is selected.

    When training begins it writes what `opencse.finish` needs, documents and queries, next to the model. As soon as the
    questions from the text show that the start is weak, it advises another one.

    Attributes:
        text: the rows to train on.
        preset: presets of the recipe that suit the documents, joined by colons; None if there are none.
        dev: how the encoder to keep is selected.
        known: the documents that the model will have been adapted to.
        folder: of the run.
        advises: whether another start is advised.
        progress: receives the advice.
        queries: of the user that select; None before training begins, and where there are none.
    """

    text: GivenTexts
    preset: str | None
    dev: Dev
    known: KnownDocuments
    folder: Path
    advises: bool
    progress: Progress
    queries: UserQueries | None = None

    def on_begin(self, step: int) -> None:
        """Writes ``documents.json`` and ``questions.json``."""
        del step
        self.known.write(self.folder)
        if self.dev.kind == QUERIES:
            # Questions that the text asks fit no weight: they share its words, and people use others.
            queries = self.dev.queries()
            self.queries, _ = queries.without(TrainedTexts.among(self.text.rows, queries.forbidden_texts()))
            SavedQuestions.of(self.queries, Path(str(self.dev.source))).write(self.folder)

    def on_evaluate(self, step: int, record: Record) -> None:
        """Compares the start with the built-in encoder."""
        if step == 0 and self.advises and isinstance(self.dev.source, TextQuestions):
            line = advice_for(self.dev.source, float(record["dev"]))
            if line is not None:
                self.progress.say(line)


def plan_adaptation(
    sources: AdaptationSources,
    *,
    model: str = SMALL,
    continues: bool = False,
    recipe: str = RECIPE,
    dev: Dev,
    folder: Path,
    taught: bool = False,
    progress: Progress,
) -> Adaptation:
    """Reads documents and pairs, and decides how to train and select on them; see `opencse.adapt`.

    Args:
        sources: where documents and pairs are.
        model: to adapt.
        continues: whether ``model`` was adapted to a part of the documents before.
        recipe: by name, with the presets that the user chose.
        dev: data that the encoder to keep is selected by.
        folder: of the run.
        taught: whether a stronger encoder is imitated.
        progress: receives what was read and decided.

    Raises:
        UserError: for bad input, in one line.
    """
    sources.require_apart_from(dev)
    before = KnownDocuments.read(Path(model)) if continues else None
    documents, source, pairs, written = sources.read(progress.say)
    by_text = dev.asks_text  # else nothing would ask about what is held out
    known = KnownDocuments.of(documents, with_questions=by_text)
    make = partial(material_of, metric=dev.measure, count=Counted(progress, "shared words"), asks=by_text)
    if before is None:
        material = make(documents, pairs=pairs, written=written)
    else:
        growth = Growth.of(documents, before, model)
        for line in growth.lines(model):
            progress.say(line)
        of_new, of_old = written_about(written, documents, growth)
        new = make(growth.new, pairs=pairs, written=of_new)
        material = growth.material(new, partial(make, written=of_old), pairs)
        known = known.joined(before)
    progress.say(f"documents  {source}: {material.facts}")
    if model in BUILTINS:
        progress.say(advice_for_start(model, language_of_documents(documents)))
    selected_by = dev
    if by_text and material.questions is not None:
        on_words = advice_on_words(material.questions)
        if on_words is not None:
            progress.say(on_words)
        selected_by = Dev.of(material.questions.guarded())
    elif by_text:
        selected_by = dev.without_questions(f"{source}: {TOO_SMALL}")
        language = language_of_documents(documents)
        clause = "" if language in (None, "english") else f", which say nothing about {language.capitalize()} text"
        progress.say(
            f"selection  by 150 general English pairs{clause}, because the documents are too few for {FEWEST} "
            "questions; if you have queries with their relevant documents, select by them with --dev FOLDER"
        )
    added = ", written questions" * bool(written) + " and given pairs" * bool(pairs)
    text = GivenTexts(tuple(material.rows), f"{source}, {material.kind}{added}")
    if selected_by.kind != QUERIES:
        selector = selected_by.open(text)
        selected_by = Dev.of(replace(selector, strict=True) if isinstance(selector, GradedPairSelector) else selector)
    return Adaptation(
        text=text,
        preset=_presets(recipe, model, material, by_text=by_text, by_queries=dev.kind == QUERIES, taught=taught),
        dev=selected_by,
        known=known,
        folder=folder,
        advises=not continues and model not in BUILTINS,
        progress=progress,
    )


def written_about(
    written: Sequence[WrittenRow], documents: Sequence[Document], growth: Growth
) -> tuple[list[WrittenRow], list[WrittenRow]]:
    """Written questions about new documents, and those about the others."""
    new = {one.fingerprint for one in growth.new}
    flags = [documents[number].fingerprint in new for number in numbers_of_documents(written, documents).tolist()]
    of_new = [row for row, is_new in zip(written, flags, strict=True) if is_new]
    return of_new, [row for row, is_new in zip(written, flags, strict=True) if not is_new]


def _presets(
    recipe: str, model: str, material: TrainingMaterial, *, by_text: bool, by_queries: bool, taught: bool
) -> str | None:
    """The recipe's presets that suit documents, model and selection, without the ones that the user named."""
    name, *presets_of_user = str(recipe).split(":")
    if name != RECIPE:
        return None
    loose, about = material.kind == "sentences", describe(model)
    width = entry(about.transformer / "config.json", about.config, "hidden_size", int, MOST_OF_NARROW + 1)
    suits = {
        WIDE: about.modules and about.has_layers and width > MOST_OF_NARROW,
        LOOSE: loose and len(material.rows[0]) == 1,
        DOUBLED: loose and len(material.rows[0]) == 2,
        ASKED: (by_text and material.many_pairs) or by_queries,
        WHOLE: material.many_pairs and about.has_layers,
        TAUGHT: taught,
        NARROW: about.has_layers and width <= MOST_OF_NARROW,
    }
    presets = [preset for preset, does in suits.items() if does and preset not in presets_of_user]
    return ":".join(presets) or None
