"""Adapting an encoder to somebody's documents: the run that what they allow makes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from opencse.adapting.chosen import AUTO, TEXT, asking
from opencse.adapting.finding import Measure
from opencse.adapting.given_queries import require_split
from opencse.adapting.material import material_of
from opencse.adapting.own_text import FEWEST
from opencse.adapting.selection import Selector
from opencse.errors import UserError
from opencse.evaluation.retrieval.data import load_retrieval
from opencse.io import is_folder
from opencse.model_folder.locate import BUILTIN
from opencse.model_folder.reading import has_layers
from opencse.progress import Counted, Progress
from opencse.runs.job import TrainJob
from opencse.text.documents import GivenDocument, ReadingNotes, documents_at_hand, find_corpus, read_documents
from opencse.text.given import GivenTexts, Text, open_texts

RECIPE = "adapt"
LOOSE = "sentences"
"""The recipe's preset for texts without any order: nothing but the sentence itself is a positive."""
ASKED = "asked"
"""The recipe's preset where people's own questions select: the trained weights themselves may be kept, too."""
STRONGER = (
    "start      opencse-mini is small and fast; --model sentence-transformers/all-MiniLM-L6-v2 finds more (8 points of "
    "nDCG@10 when both are adapted), has 87 MB and encodes 10 to 30 times slower"
)
"""What the plan says of a start from the built-in encoder; measured in docs/guides/adapt.md."""
WHOLE = "whole"
"""The recipe's preset where pairs are given: an encoder with layers reads texts to their end."""


def adaptation_job(
    corpus: str | Path | Sequence[GivenDocument],
    *,
    fields: Sequence[str] | None = None,
    keep_code: bool = False,
    model: str = BUILTIN,
    recipe: str = RECIPE,
    settings: Iterable[str] = (),
    dev: str | Path | None = AUTO,
    metric: str | None = None,
    keep_identical_ids: bool = False,
    device: str | None = None,
    trust_remote_code: bool = False,
    pairs: Text | None = None,
    columns: Sequence[str] | None = None,
    progress: Progress,
) -> TrainJob:
    """The job of `opencse.adapt`, which has its arguments; ``progress`` hears what the documents allow."""
    if pairs is None and columns is not None:
        raise UserError("columns are those of the pairs; give pairs too, or leave them out")
    if is_folder(pairs) and is_folder(dev) and Path(str(dev)).resolve() == Path(str(pairs)).resolve():
        require_split(Path(str(dev)), "dev", "its train judgements are the pairs that are trained on")
    given = () if pairs is None else read_pairs(pairs, columns)
    by = None if metric is None else Measure.parse(metric)
    if isinstance(corpus, str | Path):
        place, notes = str(find_corpus(corpus)), ReadingNotes()
        documents = read_documents(place, fields, keep_code=keep_code, notes=notes)
        for line in notes.lines():
            progress.say(line)
    elif fields is not None or keep_code:
        raise UserError("fields and keep_code are of a file; leave them out with documents at hand")
    else:
        documents, place = documents_at_hand(corpus), f"{len(corpus):,} documents at hand"
    material = material_of(documents, by, given, Counted(progress, "shared words"))
    progress.say(f"documents  {place}: {material.facts}")
    if model == BUILTIN:
        progress.say(STRONGER)
    selector: str | Path | Selector | None = dev
    by_text = dev is not None and str(dev) in (AUTO, TEXT)
    if by_text and material.asked is not None:
        selector = asking(material.asked)
    elif by_text:
        _require_graded(place, str(dev), metric)
        progress.say(
            f"selection  by 150 general English pairs, for the documents are too few for {FEWEST} questions; where "
            "you know what people ask, give it with --dev FOLDER"
        )
        selector = "sample"
    own = str(recipe).split(":")
    by_pairs = by_text and material.asked is not None and material.asked.given
    fitting = {
        LOOSE: len(material.rows[0]) == 1,
        ASKED: by_pairs or is_folder(dev),
        WHOLE: bool(given) and has_layers(model),
    }
    presets = [name for name, fits in fitting.items() if fits and own[0] == RECIPE and name not in own]
    return TrainJob(
        GivenTexts(tuple(material.rows), f"{place}, {material.kind}{' and given pairs' if given else ''}"),
        recipe,
        model,
        ":".join(presets) or None,
        tuple(settings),
        selector,
        device,
        trust_remote_code,
        metric=metric if selector == dev else None,
        keep_identical_ids=keep_identical_ids,
    )


def _require_graded(place: str, dev: str, metric: str | None) -> None:
    """Refuses to choose by graded pairs, the only ones left, where something else is asked for.

    Raises:
        UserError: naming the mend.
    """
    if dev == TEXT:
        raise UserError(
            f"{place}: too small to hold documents out and ask {FEWEST} questions about them; choose by something "
            "else: --dev with graded pairs, or with a folder of queries and documents"
        )
    if metric is not None:
        raise UserError(
            f"{place}: too small to hold documents out, so graded pairs choose, and --metric does not apply to "
            "them; leave it out, or choose by a folder of queries and documents (--dev)"
        )


def read_pairs(pairs: Text, columns: Sequence[str] | None = None) -> list[tuple[str, str]]:
    """Questions with what answers them.

    Args:
        pairs: a file with two columns, or a list of pairs; or a folder in BEIR's layout, whose judgements called
            ``train`` make a pair of each query and each relevant document.
        columns: names of the two columns of a file; see `Source`.

    Raises:
        UserError: for bad input, or rows of one or three texts.
    """
    if is_folder(pairs):
        return [
            (query, task.documents[place])
            for task in load_retrieval(Path(str(pairs)), split="train").tasks.values()
            for query, levels in zip(task.queries, task.judged, strict=True)
            for place, level in levels.items()
            if level > 0 and task.documents[place]
        ]
    source = open_texts(pairs, columns=columns)
    texts = source.read()
    if texts.width != 2:
        raise UserError(
            f"{source.location}: {texts.width} {'text' if texts.width == 1 else 'texts'} in a row; pairs are two, a "
            "question and its answer: name their columns with --columns question,answer"
        )
    return [(first, second) for first, second in texts.rows]
