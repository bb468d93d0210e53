"""What `opencse.adapt` adds to a run: files for `opencse.finish`, advice on the start, the weight of hybrid search."""

from __future__ import annotations

from pathlib import Path

from opencse.adapting.adaptation import Adaptation
from opencse.adapting.hybrid_curves import fit_to_queries
from opencse.adapting.saved_questions import SavedQuestions, remove_questions
from opencse.adapting.selection_by_questions import Questions
from opencse.adapting.start_advice import advice_for
from opencse.adapting.text_questions import TextQuestions
from opencse.adapting.trained_texts import TrainedTexts
from opencse.adapting.user_queries import UserQueries
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.io import is_folder
from opencse.model_folder.hybrid_weight import write_hybrid_weight
from opencse.progress import Progress
from opencse.ranking import Measure
from opencse.training.callbacks import Callback, Record


class FilesOfAdaptation(Callback):
    """Writes what `opencse.finish` needs of a run of `opencse.adapt` when training begins: documents and queries.

    Args:
        folder: of the run.
        adaptation: its decisions.
        keep_identical_ids: see `opencse.adapt`.

    Attributes:
        queries: of the user that select; None before training begins, and where there are none.
    """

    def __init__(self, folder: Path, adaptation: Adaptation, keep_identical_ids: bool) -> None:
        self._folder, self._adaptation, self._keep_identical_ids = folder, adaptation, keep_identical_ids
        self.queries: UserQueries | None = None

    def on_begin(self, step: int) -> None:
        """Writes ``documents.json`` and ``questions.json``."""
        del step
        self._adaptation.known.write(self._folder)
        self.queries = queries_to_fit(self._adaptation, self._keep_identical_ids)
        if self.queries is not None:
            SavedQuestions.of(self.queries, Path(str(self._adaptation.dev))).write(self._folder)


class StartAdvice(Callback):
    """Advises another start, as soon as the questions from the text show that the chosen one is weak.

    Args:
        questions: that select.
        progress: receives the line.
    """

    def __init__(self, questions: Questions, progress: Progress) -> None:
        self._questions, self._progress = questions, progress

    def on_evaluate(self, step: int, record: Record) -> None:
        """Compares the start with the built-in encoder."""
        if step == 0 and isinstance(self._questions, TextQuestions):
            line = advice_for(self._questions, float(record["dev"]))
            if line is not None:
                self._progress.say(line)


def queries_to_fit(adaptation: Adaptation, keep_identical_ids: bool) -> UserQueries | None:
    """The user's queries that select the encoder, without those that are also in the training text, or None.

    Questions that the text asks fit no weight: they share its words, and people use others.
    """
    dev = adaptation.dev
    if not is_folder(dev):
        return None
    measure = None if adaptation.metric is None else Measure.parse(adaptation.metric)
    queries = UserQueries.read(Path(str(dev)), measure, keep_identical_ids)
    return queries.without(TrainedTexts.among(adaptation.text.rows, queries.forbidden_texts()))[0]


def fit_with_model(
    folder: Path,
    queries: UserQueries | None = None,
    *,
    device: str | None = None,
    trust_remote_code: bool = False,
    progress: Progress,
) -> None:
    """Fits the weight to the queries that selected the model in ``folder``; their names are then deleted there.

    Where there are none, or too few, no weight is saved: the default holds.

    Args:
        folder: of a run that has finished.
        queries: by default those that were named when the run began.
        device: that encodes.
        trust_remote_code: run the code of the model's folder.
        progress: receives the weight and its scores.
    """
    if queries is None:
        saved = SavedQuestions.read(folder)
        if saved is None:
            return
        try:
            queries = saved.opened()
        except UserError as error:
            progress.say(f"hybrid     no weight is fitted: {error}")
            return
    encoder = SentenceEncoder.load(folder, device=device, trust_remote_code=trust_remote_code)
    fitted = fit_to_queries(encoder, queries)
    if fitted is not None:
        write_hybrid_weight(folder, fitted.weight)
        progress.say(fitted.line(queries.measure))
    remove_questions(folder)
