"""Questions from somebody's own text, without labels: which ones suit it, and what answers are worth."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from opencse.adapting.holdout import Flags, HeldOut, hold_out
from opencse.adapting.question_sets import QuestionSet, halves, neighbours, overlapping_crops, pairs
from opencse.adapting.trained_texts import TrainedTexts
from opencse.arrays import Floats, Integers
from opencse.encoder.encoder import SentenceEncoder
from opencse.evaluation.embedding import EmbeddingModel, embed_for_search
from opencse.evaluation.models.opening import open_model
from opencse.io import hash_json
from opencse.kernels.precision import choose_precision
from opencse.ranking import Measure
from opencse.text.readers import Texts

FEWEST = 100
"""Questions below which noise would choose."""
Maker = Callable[[Texts, HeldOut], QuestionSet]


@dataclass(frozen=True)
class TextQuestions:
    """Questions from a held-out share of a text, which an encoder answers by nearness.

    Their mean is that of the kinds' means, however many questions each kind has.

    Attributes:
        probes: the questions, a kind each.
        held: what is held out.
        by: what a rank is worth.
        left_out: rows of what is trained on that training must not touch; None where nothing held out is in it.
        given: whether they are pairs that somebody gave, and not made from the order of a text.
    """

    probes: tuple[QuestionSet, ...]
    held: HeldOut
    by: Measure = field(default_factory=Measure)
    left_out: Flags | None = None
    given: bool = False

    @property
    def name(self) -> str:
        """What the user calls them."""
        return "questions from the text itself"

    @property
    def source(self) -> str:
        """Where they are from."""
        return "held-out pairs" if self.given else "held-out text"

    @property
    def measure(self) -> str:
        """What a rank is worth."""
        return str(self.by)

    @property
    def size(self) -> str:
        """What is asked."""
        asked = " and ".join(f"{len(p):,} asking {p.asks}, among {len(p.candidates):,}" for p in self.probes)
        return f"{asked}; {int(self.held.held.sum()):,} rows are held out for them"

    @property
    def units(self) -> Integers:
        """The document, passage or group of pairs of each question, kind after kind."""
        return np.concatenate([probes.units for probes in self.probes])

    @property
    def unknown(self) -> str:
        """What they cannot tell."""
        if self.given:
            return (
                "other questions like these should gain about as much; for other kinds, measure with your own queries "
                "(--dev FOLDER)"
            )
        return "your users may ask other questions than these: measure with your own queries (--dev FOLDER)"

    def held_out(self) -> list[str]:
        """Texts that are asked about, each once; none of them is trained on as it is asked."""
        asked = ([*p.queries, *(p.candidates[row] for row in p.answers)] for p in self.probes)
        return list(dict.fromkeys(text for texts in asked for text in texts))

    def asked(self) -> list[str]:
        """Nothing to look for: what is asked about is held out when the rows to train on are made."""
        return []

    def without(self, trained: TrainedTexts) -> tuple[TextQuestions, list[str]]:
        """The same; see `asked`."""
        del trained
        return self, []

    def fingerprint(self) -> str:
        """A hash of the questions, their candidates and answers, and the measure."""
        told = [[p.kind, list(p.queries), list(p.candidates), p.answers.tolist()] for p in self.probes]
        return hash_json([str(self.by), *told])

    def values(self, encoder: SentenceEncoder) -> Floats:
        """What each answer's rank is worth, kind after kind."""
        worth = answered(encoder, self.probes, self.by)
        return np.concatenate([values * scale for values, scale in zip(worth, self._scales(), strict=True)])

    def parts(self, values: Floats) -> dict[str, float]:
        """The mean of each kind."""
        ends = np.cumsum([len(probes) for probes in self.probes])[:-1]
        return {
            probes.kind.replace(",", "").replace(" ", "_"): float(part.mean() / scale)
            for probes, part, scale in zip(self.probes, np.split(values, ends), self._scales(), strict=True)
        }

    def _scales(self) -> list[float]:
        total = sum(len(probes) for probes in self.probes)
        return [total / (len(self.probes) * len(probes)) for probes in self.probes]


def quick(encoder: SentenceEncoder) -> EmbeddingModel:
    """How an encoder is asked many questions again and again: in bf16 where it has layers and the machine computes so.

    Its vectors have a cosine of about 0.9999 to those in float32, for every encoder of a run alike.
    """
    name = choose_precision("auto", encoder.device).name if encoder.depth else "float32"
    return open_model(encoder, precision="bf16" if name == "bf16" else "float32")


def answered(encoder: SentenceEncoder, kinds: Sequence[QuestionSet], by: Measure) -> list[Floats]:
    """(n,) of each kind of questions: what the rank of each answer is worth; all texts are encoded together."""
    embedded = embed_for_search(quick(encoder), ((probes.queries, probes.candidates) for probes in kinds))
    return [by.of_ranks(probes.ranks(embedded)) for probes in kinds]


def own_text(texts: Texts, by: Measure | None = None, documents: Iterable[str] = ()) -> TextQuestions | None:
    """Questions from ``texts`` and what is held out for them; None where the text is too small for any.

    Args:
        texts: what is asked about.
        by: what a rank is worth; nDCG@10 by default.
        documents: further texts among which the answers of pairs are sought.
    """
    held = hold_out(texts)
    probes = questions(texts, held, documents)
    return TextQuestions(probes, held, by or Measure(), held.left_out, given=texts.width > 1) if probes else None


def questions(texts: Texts, held: HeldOut, documents: Iterable[str] = ()) -> tuple[QuestionSet, ...]:
    """The kinds of questions that a text allows; kinds of fewer than ``FEWEST`` are left out, and none may be left.

    Pairs: the held-out pairs, asked among ``documents`` too. Running text: neighbouring sentences and halves of
    documents. Loose sentences: two overlapping parts.
    """
    makers: tuple[Maker, ...]
    if texts.width > 1:
        makers = (partial(pairs, documents=documents),)
    elif texts.documents is not None:
        makers = (neighbours, halves)
    else:
        makers = (overlapping_crops,)
    made = (make(texts, held) for make in makers)
    return tuple(probes for probes in made if len(probes) >= FEWEST)
