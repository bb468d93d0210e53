"""Reads what `opencse adapt` learns from: documents, the user's pairs and written questions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from opencse.adapting.user_queries import require_split
from opencse.adapting.written_questions import WrittenRow, read_written
from opencse.asking.sources import references_of
from opencse.errors import UserError
from opencse.evaluation.retrieval.data import load_retrieval
from opencse.io import is_folder
from opencse.numerals import number_of
from opencse.progress import Say
from opencse.text.corpus_documents import documents_of
from opencse.text.documents import Document, GivenDocument
from opencse.text.files.kinds import Reading
from opencse.text.given import Text, open_texts
from opencse.text.left_out_rows import say_left_out_rows


@dataclass(frozen=True)
class AdaptationTexts:
    """The texts of an adaptation, read.

    Attributes:
        documents: the collection; each has a name where there are written questions.
        source: names the collection in messages.
        pairs: the user's, a question and a text that answers it.
        written: questions of a language model.
    """

    documents: list[Document]
    source: str
    pairs: Sequence[tuple[str, str]] = ()
    written: Sequence[WrittenRow] = ()

    @property
    def added(self) -> str:
        """What is trained on in addition to the documents, for messages."""
        return ", written questions" * bool(self.written) + " and given pairs" * bool(self.pairs)


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
        >>> texts = AdaptationSources(corpus=["A text.", "Another."], pairs=[("What?", "That.")]).read(print)
        >>> len(texts.documents), texts.pairs
        (2, [('What?', 'That.')])
    """

    corpus: str | Path | Sequence[GivenDocument]
    fields: Sequence[str] | None = None
    pairs: Text | None = None
    columns: Sequence[str] | None = None
    questions: Text | None = None

    def require_apart_from(self, dev: str | Path | None) -> None:
        """Refuses to select by the pairs that are trained on.

        Raises:
            UserError: where ``dev`` is the folder of ``pairs`` and has no judgements of its own to select by.
        """
        if is_folder(self.pairs) and is_folder(dev) and Path(str(dev)).resolve() == Path(str(self.pairs)).resolve():
            require_split(Path(str(dev)), "dev", "its train judgements are the pairs that are trained on")

    def read(self, say: Say) -> AdaptationTexts:
        """Reads all of it.

        Args:
            say: called with what was read and what was left out.

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
        return AdaptationTexts(documents, source, pairs, written)


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
