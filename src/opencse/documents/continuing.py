"""Adapts a model further when its collection has grown: which documents are new, and what is asked about the others."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from opencse.documents.given import about_others
from opencse.documents.material import TrainingMaterial
from opencse.documents.questions import TextQuestions
from opencse.errors import UserError
from opencse.folder_kinds import kind_of_folder
from opencse.numerals import number_of
from opencse.records import JsonRecord, read_record, save_json
from opencse.text.documents import Document
from opencse.training.questions import QuestionSet, fraction
from opencse.training.selection import rows_without

FILE = "documents.json"
"""Hashes of the documents that the model in a folder was adapted to; it holds no text."""


class KnownDocuments(JsonRecord):
    """The documents that a model was adapted to, by hashes of their content.

    Attributes:
        hashes: of the words of title and text, 16 hexadecimal digits each, sorted.
        asked: whether questions about a share of them, which was held out, could select; False with ``--dev`` of
            anything else, where all were trained on.

    Example:
        >>> kettles, snow = Document("Kettles", ("It boils.",)), Document("", ("Snow fell.",))
        >>> known = KnownDocuments.of([kettles])
        >>> [len(part) for part in known.split([snow, kettles, Document("kettles", ("It boils!",))])]
        [1, 2]
    """

    hashes: list[str]
    asked: bool = True

    @classmethod
    def of(cls, documents: Sequence[Document], *, with_questions: bool = True) -> KnownDocuments:
        """The hashes of ``documents``."""
        return cls(hashes=sorted({document.fingerprint for document in documents}), asked=with_questions)

    @classmethod
    def read(cls, folder: Path) -> KnownDocuments:
        """The documents that the model in ``folder`` was adapted to.

        Raises:
            UserError: for a folder that `opencse.adapt` did not write, with what to do instead.
        """
        if not (folder / FILE).is_file():
            raise UserError(f"{folder}: has no {FILE}, which opencse adapt writes; {_what_to_continue(folder)}")
        return read_record(cls, folder / FILE)

    def write(self, folder: Path) -> None:
        """Writes the hashes next to the model."""
        save_json(folder / FILE, self.to_dict())

    def joined(self, other: KnownDocuments) -> KnownDocuments:
        """The documents of both."""
        return KnownDocuments(hashes=sorted({*self.hashes, *other.hashes}), asked=self.asked and other.asked)

    def split(self, documents: Sequence[Document]) -> tuple[list[Document], list[Document]]:
        """``documents`` that are not among these, and those that are."""
        known = set(self.hashes)
        flags = [document.fingerprint in known for document in documents]
        new = [document for document, is_known in zip(documents, flags, strict=True) if not is_known]
        return new, [document for document, is_known in zip(documents, flags, strict=True) if is_known]


def _what_to_continue(folder: Path) -> str:
    """What to give instead of a folder without `FILE`: adapters and the last step are parts of the folder of a run."""
    run = next(
        (one for one in folder.parents if (one / FILE).is_file() and kind_of_folder(one) == "a run of training"), None
    )
    if run is not None:
        return f"it is a part of {run}: use --continue {shlex.quote(str(run))}"
    if kind_of_folder(folder) in ("a model", "a run of training"):
        return f"to begin with this model, use --model {shlex.quote(str(folder))}"
    return "give the folder of a model that it wrote"


@dataclass(frozen=True)
class Growth:
    """How a collection has grown.

    Attributes:
        new: documents that the model was not adapted to.
        old: documents that it was adapted to.
        missing: how many documents it was adapted to that are no longer in the collection.
        asked: see `KnownDocuments`.
    """

    new: list[Document]
    old: list[Document]
    missing: int
    asked: bool = True

    @classmethod
    def of(cls, documents: Sequence[Document], known: KnownDocuments, model: str) -> Growth:
        """Compares ``documents`` with those that ``model`` was adapted to.

        Raises:
            UserError: if none is new.
        """
        new, old = known.split(documents)
        if not new:
            raise UserError(f"all {len(old):,} documents were there when {model} was adapted; nothing is new")
        return cls(new, old, len(known.hashes) - len({document.fingerprint for document in old}), known.asked)

    def lines(self, model: str) -> list[str]:
        """What is new and what is known, for the user."""
        missing = f", {self.missing:,} of before are not there" if self.missing else ""
        new = number_of(len(self.new), "document is new", "documents are new")
        lines = [f"continue   {model}: {new}, {number_of(len(self.old), 'is known', 'are known')}{missing}"]
        if not self.old:
            lines.append(
                "continue   nothing shows how much is forgotten about the documents of before; give them too, next to "
                "the new ones"
            )
        elif not self.asked:
            lines.append(
                f"continue   {model} was trained on all known documents (nothing was held out), so it has seen the "
                "answers to the questions about them"
            )
        return lines

    def material(
        self,
        new: TrainingMaterial,
        make: Callable[[Sequence[Document]], TrainingMaterial],
        pairs: Sequence[tuple[str, str]] = (),
    ) -> TrainingMaterial:
        """Adds to the rows and questions of the new documents as many rows of the old ones, and their questions.

        Rows of old documents are those of the lowest hashes, so that they do not depend on the order. The old documents
        ask about themselves what they asked before, as long as they are the same. Questions about new and about old
        documents count equally. Questions about an old document that a pair answers with are dropped, because that
        document is trained on.

        Args:
            new: of the new documents, and the user's pairs.
            make: makes rows and questions of the old documents.
            pairs: the user's.

        Raises:
            UserError: where nothing is left to train on.
        """
        if not self.old:
            return new
        old = make(self.old)
        again = sorted(old.rows, key=lambda row: fraction("\n".join(row)))[: len(new.rows)]
        if len(old.rows[0]) != len(new.rows[0]):  # next to pairs, a single sentence and itself are one
            new = replace(new, kind="sentences", rows=[row if len(row) > 1 else row * 2 for row in new.rows])
            again = [row if len(row) > 1 else row * 2 for row in again]
        questions = old.questions
        facts = f"{new.facts}; of the known documents {number_of(len(again), 'row')} of {len(old.rows):,}"
        if new.questions is None and questions is not None:
            facts += ", which alone ask questions: the new ones are too few to show what is gained on them"
        elif new.questions is not None and questions is None:
            facts += ", which are too few to ask what is forgotten about them"
        if questions is not None and pairs:
            questions = about_others(questions, pairs)
            facts += "" if questions else ", and no questions, because the given pairs answer with these documents"
        held = [text for one in (new.questions, questions) if one is not None for text in one.held_out()]
        rows = rows_without([*new.rows, *again], held)
        if len(rows) < 2:
            raise UserError("the new documents repeat held-out texts of the known ones and add nothing to train on")
        return replace(new, rows=rows, questions=_both(new.questions, questions), facts=facts)


def _both(new: TextQuestions | None, old: TextQuestions | None) -> TextQuestions | None:
    """Questions about new and about old documents, half of the score each."""
    named = [
        replace(
            questions,
            sets=tuple(
                replace(one, kind=f"{age} {_kind(one, questions)}", label=f"{one.label} about {documents} documents")
                for one in questions.sets
            ),
        )
        for questions, age, documents in ((new, "new", "new"), (old, "old", "known"))
        if questions is not None
    ]
    if len(named) < 2:
        return named[0] if named else None
    shares = [share / 2 for one in named for share in (one.weights or (1 / len(one.sets),) * len(one.sets))]
    return named[0].joined(named[1], shares)


def _kind(one: QuestionSet, questions: TextQuestions) -> str:
    """The kind of a set; only the user's pairs are called pairs."""
    return "titles" if one.kind == "pairs" and not questions.from_pairs else one.kind
