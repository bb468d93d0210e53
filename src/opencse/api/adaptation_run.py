"""What `opencse.adapt` adds to a run: files for `opencse.finish`, advice on the start, the weight of hybrid search."""

from __future__ import annotations

from pathlib import Path

from opencse.adapting.adaptation import Adaptation
from opencse.adapting.hybrid_curves import fit_to_questions
from opencse.adapting.saved_questions import SavedQuestions, remove_questions
from opencse.adapting.selection_by_questions import Questions, QuestionSelector
from opencse.adapting.start_advice import advice_for
from opencse.adapting.text_questions import TextQuestions
from opencse.adapting.trained_texts import TrainedTexts
from opencse.adapting.user_queries import UserQueries
from opencse.api.options.training import AdaptOptions
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.io import is_folder
from opencse.model_folder.hybrid_weight import write_hybrid_weight
from opencse.progress import Progress
from opencse.ranking import Measure
from opencse.training.callbacks import Callback, Record


class FilesOfAdaptation(Callback):
    """Writes what `opencse.finish` needs of a run of `opencse.adapt` when training begins: documents and questions.

    Args:
        folder: of the run.
        adaptation: its decisions.
        options: its arguments.

    Attributes:
        questions: that select; None before training begins.
    """

    def __init__(self, folder: Path, adaptation: Adaptation, options: AdaptOptions) -> None:
        self._folder, self._adaptation, self._options = folder, adaptation, options
        self.questions: Questions | None = None

    def on_begin(self, step: int) -> None:
        """Writes ``documents.json`` and ``questions.json``."""
        del step
        self._adaptation.known.write(self._folder)
        dev = self._adaptation.dev
        self.questions = questions_to_fit(self._adaptation, self._options)
        saved = None
        if self.questions is not None:
            saved = SavedQuestions.of(self.questions, Path(str(dev)) if is_folder(dev) else None)
        if saved is not None:
            saved.write(self._folder)


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


def questions_to_fit(adaptation: Adaptation, options: AdaptOptions) -> Questions | None:
    """The questions that select the encoder, without queries that are also in the training text.

    None where graded pairs or nothing selects.
    """
    dev = adaptation.dev
    if isinstance(dev, QuestionSelector):
        return dev.questions
    if not is_folder(dev):
        return None
    measure = None if adaptation.metric is None else Measure.parse(adaptation.metric)
    queries = UserQueries.read(Path(str(dev)), measure, options["keep_identical_ids"])
    return queries.without(TrainedTexts.among(adaptation.text.rows, queries.forbidden_texts()))[0]


def fit_with_model(
    folder: Path,
    questions: Questions | None = None,
    *,
    device: str | None = None,
    trust_remote_code: bool = False,
    progress: Progress,
) -> None:
    """Fits the weight to the questions that selected the model in ``folder``, which are then deleted there.

    Where there are none, or too few, no weight is saved: the default holds.

    Args:
        folder: of a run that has finished.
        questions: by default those that were saved when the run began.
        device: that encodes.
        trust_remote_code: run the code of the model's folder.
        progress: receives the weight and its scores.
    """
    if questions is None:
        saved = SavedQuestions.read(folder)
        if saved is None:
            return
        try:
            questions = saved.opened()
        except UserError as error:
            progress.say(f"hybrid     no weight is fitted: {error}")
            return
    encoder = SentenceEncoder.load(folder, device=device, trust_remote_code=trust_remote_code)
    fitted = fit_to_questions(encoder, questions)
    if fitted is not None:
        write_hybrid_weight(folder, fitted.weight)
        progress.say(fitted.line(questions.measure))
    remove_questions(folder)
