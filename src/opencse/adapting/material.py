"""Makes training rows and held-out questions from documents and the user's pairs of question and answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from opencse.adapting.hold_out_split import DocumentSentences, HoldOutSplit, MaterialKind, TrainingRows
from opencse.adapting.passage_pairs import rare_words_with_passages, sentences_with_passages
from opencse.adapting.text_questions import TextQuestions
from opencse.adapting.user_pairs import UserPairs
from opencse.adapting.written_questions import WrittenRow, add_written
from opencse.errors import UserError
from opencse.numerals import number_of
from opencse.progress import Count
from opencse.ranking import Measure
from opencse.text.documents import Document

_IN_WORDS = {
    "titles": "titles with their texts, and neighbouring sentences",
    "neighbours": "neighbouring sentences",
    "sentences": "sentences without order (few documents have several; a .txt file needs blank lines between them)",
}


@dataclass(frozen=True)
class TrainingMaterial:
    """The training rows and the questions that a collection of documents gives, with pairs or without.

    Attributes:
        kind: ``titles`` (a title and its text, and neighbouring sentences), ``neighbours`` (neighbouring sentences) or
            ``sentences`` (sentences alone).
        rows: to train on: pairs, or sentences alone; none of the questions is in them.
        questions: from the held-out documents or pairs; None where both are too few, or nothing was to be held out.
        many_pairs: whether the user's pairs are enough to hold some out, also where none is.
        facts: a summary in one line, for the user.
    """

    kind: MaterialKind
    rows: TrainingRows
    questions: TextQuestions | None
    facts: str
    many_pairs: bool = False


def material_of(
    documents: Sequence[Document],
    metric: Measure | None = None,
    pairs: Sequence[tuple[str, str]] = (),
    count: Count | None = None,
    written: Sequence[WrittenRow] = (),
    *,
    asks: bool = True,
) -> TrainingMaterial:
    """Makes training rows of ``documents`` and ``pairs``, and questions from a share of them that is held out.

    Where at least half of the documents with a text have titles, a title and its text are a pair. A title without a
    text is a sentence of its own, which is paired by shared words and with its rare words. Where
    documents have several sentences, a sentence and the next are one. Where there is neither, sentences are trained on
    by themselves. Pairs of a passage with a sentence of it, or with its rare words (`opencse.adapting.passage_pairs`),
    pairs by shared words (`pairs_by_shared_words`), and ``pairs`` (`opencse.adapting.user_pairs`) are added.

    Args:
        documents: the collection that is searched in the end.
        metric: scores the rank of an answer; nDCG@10 by default.
        pairs: of a question and a text that answers it.
        count: called with how many texts have been looked up by their words, and of how many.
        written: questions of a language model; see `opencse.adapting.written_questions`.
        asks: hold documents and pairs out and ask about them; else all are trained on.

    Raises:
        UserError: where nothing is left to train on.

    Example:
        >>> documents = [Document("", (f"First sentence {n} is here.", f"Then comes {n}.")) for n in range(9)]
        >>> material = material_of(documents)
        >>> material.kind, material.rows[0], material.questions
        ('neighbours', ('First sentence 0 is here.', 'Then comes 0.'), None)
    """
    collection = DocumentSentences(documents)
    material = _of_documents(collection, metric, count, asks=asks)
    if written:
        material = _with_written(material, written, collection, metric, asks=asks)
    if pairs:
        bodies = (f"{document.title} {document.body}".strip() for document in documents)
        material = _with_pairs(material, UserPairs.split(pairs, bodies, metric, asks=asks))
    if len(material.rows) < 2:
        raise UserError("the documents give fewer than two pairs or sentences to train on; give more text")
    return material


def _of_documents(
    collection: DocumentSentences, metric: Measure | None, count: Count | None, *, asks: bool
) -> TrainingMaterial:
    split = HoldOutSplit.of(collection, holds_out=asks)
    sets = split.questions()
    if not sets:  # too few for questions: then nothing is held out
        split = HoldOutSplit.of(collection, holds_out=False)
    rows, kind = split.rows(), collection.kind
    note = f" ({collection.only_titles:,} with only a title)" if collection.only_titles else ""
    facts = (
        f"{number_of(len(collection.documents), 'document')}{note}, "
        f"{number_of(len(collection.sentences), 'sentence')}; training on {len(rows):,} {_IN_WORDS[kind]}"
    )
    if kind != "sentences":
        most = len(rows) + collection.only_titles  # these are in no pair yet
        by_words = split.pairs_by_shared_words(most, count)
        passages = split.passages()
        by_sentences = sentences_with_passages(passages, most)
        by_rare_words = rare_words_with_passages(passages, most // 2)
        rows += [*by_words, *by_sentences, *by_rare_words]
        facts += (
            f", {number_of(len(by_sentences), 'sentence')} and {number_of(len(by_rare_words), 'short query')} with "
            f"their passages, and {number_of(len(by_words), 'pair')} by shared words"
        )
    questions = TextQuestions(sets, split.held, metric or Measure()) if sets else None
    return TrainingMaterial(kind, rows, questions, facts)


def _with_written(
    material: TrainingMaterial,
    written: Sequence[WrittenRow],
    collection: DocumentSentences,
    metric: Measure | None,
    *,
    asks: bool,
) -> TrainingMaterial:
    """Adds written questions to ``material``; those about its held-out documents are held out too."""
    held: list[int] = []
    if material.questions is not None:
        held = sorted(HoldOutSplit(collection, material.questions.held).documents_held_out)
    rows, questions, words = add_written(
        material.rows, material.questions, written, collection.documents, held, metric, asks=asks
    )
    return replace(material, rows=rows, questions=questions, facts=f"{material.facts}, and {words}")


def _with_pairs(material: TrainingMaterial, pairs: UserPairs) -> TrainingMaterial:
    """Adds the user's pairs to ``material``."""
    rows, questions, words = pairs.added_to(material.rows, material.questions)
    return replace(
        material, rows=rows, questions=questions, facts=f"{material.facts}, and {words}", many_pairs=pairs.many
    )
