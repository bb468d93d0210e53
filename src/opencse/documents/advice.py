"""Names of the recipe and presets of `opencse adapt`, and advice on the model to start from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from opencse.model_folder.locate import BUILTIN, SMALL
from opencse.search.stems import language_of_texts
from opencse.text.documents import Document

if TYPE_CHECKING:
    from opencse.documents.questions import TextQuestions


RECIPE = "adapt"
LOOSE = "sentences"
"""Preset of the recipe for texts without any order: only the sentence itself can be a positive."""
DOUBLED = "doubled"
"""Preset of the recipe for sentences without order with pairs: a sentence and itself are a pair, under dropout."""
ASKED = "asked"
"""Preset of the recipe where people's own questions select: the trained weights without averaging may be kept too."""
WHOLE = "whole"
"""Preset of the recipe where pairs are held out: an encoder with layers reads texts to their end."""
TAUGHT = "taught"
"""Preset of the recipe where a teacher is named: a stronger encoder is imitated on the user's text."""
WIDE = "wide"
"""Preset of the recipe for a sentence encoder of more dimensions than a narrow one: it has more to lose."""
NARROW, MOST_OF_NARROW = "narrow", 256
"""Preset of the recipe for a network of at most so many dimensions, as opencse-small is."""
CHOSEN = (None, WIDE, LOOSE, DOUBLED, ASKED, WHOLE, NARROW)
"""The presets that may be chosen, and none."""

ENGLISH, MULTILINGUAL = "sentence-transformers/all-MiniLM-L6-v2", "intfloat/multilingual-e5-small"
"""The models that are advised; docs/guides/adapt.md has the table of starts, docs/guides/recipes.md the languages."""
NEARLY_ALL = 90.0
"""Score of BM25 above which the questions that a text asks about itself are of its words alone."""
_TEXTS = 2_000
"""Most texts that the language is detected from."""


def language_of_documents(documents: Sequence[Document]) -> str | None:
    """The language of a sample of the documents; see `language_of_rows`."""
    return language_of_rows([document.sentences for document in documents])


def language_of_rows(rows: Sequence[Sequence[str]]) -> str | None:
    """The language of the texts of a sample of the rows, evenly spread; None if it is not clear."""
    sample = rows[:: len(rows) // _TEXTS + 1]
    return language_of_texts([text for row in sample for text in row])


def advice_for_language(model: str, language: str | None) -> str | None:
    """Advises another model than a built-in encoder for text that is not English; None for English and unknown.

    >>> advice_for_language("opencse-mini", "german")
    'opencse-mini knows little German; --model intfloat/multilingual-e5-small finds more, and is slower'
    """
    if language in (None, "english"):
        return None
    return f"{model} knows little {str(language).capitalize()}; --model {MULTILINGUAL} finds more, and is slower"


def advice_for_start(model: str, language: str | None) -> str:
    """The line of the plan for a start from a built-in encoder.

    >>> print(advice_for_start("opencse-small", "english").partition(";")[0])
    advice     for queries in your documents' words opencse-small does well
    """
    better = advice_for_language(model, language) or (
        f"for queries in your documents' words {model} does well; for your users' own words take the largest start "
        f"that you can afford: before adapting {ENGLISH} (87 MB) has 44.8 of nDCG@10 there, {SMALL} 26.6 and "
        f"{BUILTIN} 12.4 (mean of six collections)"
    )
    return f"advice     {better}"


def advice_on_words(questions: TextQuestions) -> str | None:
    """The line of the plan where BM25 answers nearly all that a text asks about itself; None where it does not."""
    by_words = questions.by_words() if questions.own_words else 0.0
    if by_words < NEARLY_ALL:
        return None
    return (
        f"advice     BM25 alone has {by_words:.1f} on the questions from the text itself ({questions.measure}), "
        "so they say little about queries in other words; to select by your users' own: --dev FOLDER"
    )


def advice_for(questions: TextQuestions, score: float) -> str | None:
    """The line for another start, once its score is known; None where it is not weak.

    It is weak where it answers the questions from the text no better than the built-in encoder, which is much smaller
    than a pretrained model: this costs a few seconds.

    Args:
        questions: of the text.
        score: of the start on them.
    """
    from opencse.encoder.encoder import SentenceEncoder

    builtin = float(questions.values(SentenceEncoder.load(BUILTIN, device="cpu")).mean())
    if score > builtin:
        return None
    language = language_of_texts(questions.held_out()[:_TEXTS])
    better = ENGLISH if language in (None, "english") else MULTILINGUAL
    return (
        f"advice     weak start: the small built-in encoder ({BUILTIN}) has {builtin:.2f} on these questions, "
        f"this start {score:.2f}; --model {better} finds more"
    )
