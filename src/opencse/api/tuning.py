"""Fits the weight of hybrid search: `tune_index` for an index, and for a model that was adapted."""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

from opencse.adapting.adaptation import Adaptation
from opencse.adapting.hybrid_curves import fit_index_to_queries, fit_to_index, fit_to_questions
from opencse.adapting.hybrid_fit import FittedWeight
from opencse.adapting.selection_by_questions import Questions, QuestionSelector
from opencse.adapting.trained_texts import TrainedTexts
from opencse.adapting.user_queries import UserQueries
from opencse.api.declaring import public
from opencse.api.index import encoder_of
from opencse.api.options.index import TuneOptions
from opencse.api.options.training import AdaptOptions
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.io import is_folder
from opencse.model_folder.hybrid_weight import read_hybrid_weight, write_hybrid_weight
from opencse.progress import Silent
from opencse.ranking import Measure
from opencse.search.index import Index


@public
def tune_index(folder: str | Path, **options: Unpack[TuneOptions]) -> FittedWeight:
    """Fits the weight of the vectors in a hybrid search for an index, and saves it there.

    With ``dev``, people's queries decide: of n queries the best weight counts n / (n + 50), and the default the rest.
    Without, sentences of the texts ask for the rest of their text, which counts at most half.

    Example:
        >>> import opencse
        >>> texts = [f"The kettle number {n} is made of steel. It boils {n} cups of water at once." for n in range(30)]
        >>> _ = opencse.build_index("tuned", "opencse-mini", texts, device="cpu")
        >>> fitted = opencse.tune_index("tuned", device="cpu")
        >>> fitted.questions, opencse.index_info("tuned").hybrid == fitted.weight
        (60, True)

    Args:
        folder: of the index.
        **options: see `TuneOptions`.

    Raises:
        UserError: for bad input, too few texts or queries, or a model that is not the index's.
    """
    dev, progress = options["dev"], options["progress"] or Silent()
    measure = None if options["metric"] is None else Measure.parse(options["metric"])
    if dev is None and options["keep_identical_ids"]:
        raise UserError("--keep-identical-ids is for queries (--dev FOLDER); leave it out")
    queries = None if dev is None else UserQueries.read(Path(dev), measure, options["keep_identical_ids"])
    with Index.open(folder) as index:
        index.encoder = encoder_of(index.info(), options)
        with index.snapshot() as snapshot:
            progress.say("hybrid     answering questions with every weight of the vectors")
            if queries is None:
                fitted = fit_to_index(snapshot, index.encoder, measure)
            else:
                fitted = fit_index_to_queries(snapshot, index.encoder, queries)
        index.set_hybrid_weight(fitted.weight)
        return fitted


def fit_with_model(folder: Path, adaptation: Adaptation, options: AdaptOptions) -> None:
    """Fits the weight to the questions that selected the model in ``folder``; one that is there already stays.

    Queries that are also in the training text are ignored, as in the selection.

    Where graded pairs or nothing selected, or the questions are too few, no weight is saved: the default holds.
    """
    questions: Questions | None = None
    dev = adaptation.dev
    if isinstance(dev, QuestionSelector):
        questions = dev.questions
    elif is_folder(dev):
        measure = None if adaptation.metric is None else Measure.parse(adaptation.metric)
        queries = UserQueries.read(Path(str(dev)), measure, options["keep_identical_ids"])
        questions, _ = queries.without(TrainedTexts.among(adaptation.text.rows, queries.forbidden_texts()))
    if questions is None or read_hybrid_weight(folder) is not None:
        return
    trust = options["trust_remote_code"]
    encoder = SentenceEncoder.load(folder, device=options["device"], trust_remote_code=trust)
    fitted = fit_to_questions(encoder, questions)
    if fitted is not None:
        write_hybrid_weight(folder, fitted.weight)
        (options["progress"] or Silent()).say(fitted.line(questions.measure))
