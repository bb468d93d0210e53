"""Options of `opencse.train`, `opencse.pretrain` and `opencse.adapt`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from opencse.api.declaring import Option
from opencse.api.options.shared import (
    DeviceOptions,
    DocumentOptions,
    IdenticalIdOptions,
    LineOptions,
    ReportOptions,
    RowColumnOptions,
    SettingOptions,
    SplitOptions,
)

if TYPE_CHECKING:
    from opencse.adapting.dev_choice import DevChoice
    from opencse.encoder.encoder import SentenceEncoder
    from opencse.making.backbone import Shape
    from opencse.recipes.recipe import Recipe
    from opencse.text.given import Text
    from opencse.training.callbacks import Callback


class RunOptions(DocumentOptions, SettingOptions, ReportOptions, DeviceOptions, total=False):
    """How a run is started, continued and followed."""

    resume: Annotated[
        bool,
        Option(
            False,
            "Continue from the checkpoint in --out.",
            rank=6,
            in_python="continue from the checkpoint in ``out``; refused if the content of the start, the text or the "
            "dev data, or any setting, differs.",
        ),
    ]
    overwrite: Annotated[
        bool,
        Option(
            False,
            "Replace the run or encoder in --out, from the first step on; other files there stay.",
            rank=6,
        ),
    ]
    dry_run: Annotated[
        bool,
        Option(
            False, "Check everything, print the plan with an estimate of the time, and stop before training.", rank=6
        ),
    ]
    track: Annotated[
        str | None,
        Option(None, "Log to tensorboard or wandb too; metrics.jsonl is always written.", rank=6),
    ]
    callbacks: Annotated[
        Sequence[Callback],
        Option(
            (),
            "called at steps, evaluations, checkpoints and the end; see `opencse.training.callbacks.Callback`.",
            rank=6,
            hidden=True,
        ),
    ]


class QuestionOptions(IdenticalIdOptions, total=False):
    """How answers to questions are scored."""

    metric: Annotated[
        str | None,
        Option(
            None,
            "Measure of retrieval that --dev selects by: mrr@10, recall@100, ...; by default ndcg@10.",
        ),
    ]


class TrainOptions(QuestionOptions, RunOptions, RowColumnOptions, LineOptions, SplitOptions, total=False):
    """How a sentence encoder is trained."""

    recipe: Annotated[
        str | Recipe,
        Option(
            "simcse",
            "Recipe by name (opencse recipes) or TOML file; presets follow after colons.",
            ("--recipe", "-r"),
            rank=-1,
            in_python="a recipe's name or a TOML file, either with presets (``simcse:dropout-0.2``), or a `Recipe`.",
        ),
    ]
    model: Annotated[
        str | Path | SentenceEncoder,
        Option(
            "opencse-mini",
            "Model to start from: a folder, a Hub id, or a preset's name.",
            ("--model", "-m"),
            rank=-1,
            in_python="the built-in encoder, a folder, a Hub id, one of the recipe's presets, or a `SentenceEncoder`, "
            "which is written to ``out/start`` and not changed.",
        ),
    ]
    preset: Annotated[
        str | None,
        Option(
            None,
            "More presets of the recipe, joined by colons; the preset of --model is applied anyway.",
            rank=-1,
        ),
    ]
    dev: Annotated[
        DevChoice,
        Option(
            "auto",
            "Data that the best step is selected by: 'text' (questions from a held-out share of TEXT), 'auto' ('text', "
            "or 'sample' where TEXT is small), 'sample' (150 built-in graded pairs), a file of graded pairs, a folder "
            "of queries with relevant documents (BEIR's layout), 'transfer:FOLDER' (mean dev accuracy of the transfer "
            "tasks in FOLDER), or 'none' (keep the last step).",
            rank=-1,
            in_python="data that the best step is selected by: ``text`` (questions from a held-out share of the text), "
            "``auto`` (``text``, or ``sample`` where the text is small), ``sample`` (built-in graded pairs), a file or "
            "a list of graded pairs (score, sentence, sentence), a folder of queries with relevant documents in BEIR's "
            "layout, ``transfer:FOLDER`` (mean dev accuracy of the transfer tasks there), or None (keep the last "
            "step).",
        ),
    ]

    also: Annotated[
        Sequence[Text | tuple[Text, str]],
        Option(
            (),
            "A further text to train on, FILE or FILE=RECIPE; may be repeated. A batch is from one text at a time. It "
            "has the objective of RECIPE, else of the recipe's next [[datasets]] table, else of TEXT.",
            repeated=True,
            rank=4,
            in_python="further texts to train on, each a text or (text, recipe): a batch is from one text at a time. A "
            "text has the objective of its recipe, or of the next ``[[datasets]]`` table of ``recipe``, or that of "
            "``text``.",
        ),
    ]


class PretrainOptions(RunOptions, RowColumnOptions, LineOptions, SplitOptions, total=False):
    """How a backbone is pretrained."""

    model: Annotated[
        str | Path | None,
        Option(
            None,
            "Encoder to continue from (domain adaptation), with a new masked-LM head where it has none; by default a "
            "new BERT.",
            ("--model", "-m"),
        ),
    ]
    new_layers: Annotated[
        int, Option(0, "Layers of --model, from the last on, that get random weights first.", least=0)
    ]
    vocabulary: Annotated[int, Option(16_384, "Size of the new vocabulary, at most.")]
    shape: Annotated[Shape | None, Option(None, "size of the new backbone.", hidden=True)]
    recipe: Annotated[
        str | Recipe,
        Option(
            "pretrain",
            "Recipe by name or TOML file.",
            ("--recipe", "-r"),
            in_python="how to train: a recipe without contrast.",
        ),
    ]
    dev: Annotated[
        DevChoice,
        Option(
            None,
            "Graded pairs that the best step is selected by: a file, 'sample' (built in) or 'none'.",
            typed="none",
            in_python="graded pairs that the best step is selected by; by default none, and the last step is kept.",
        ),
    ]


class AdaptOptions(QuestionOptions, RunOptions, total=False):
    """How an encoder is adapted to documents."""

    pairs: Annotated[
        Text | None,
        Option(
            None,
            "Questions with texts that answer them, if you have any: a table of two columns, or a folder in BEIR's "
            "layout (its train judgements). They are trained on too, and some are held out to select by.",
            rank=-1,
            in_python="questions with texts that answer them, if there are any: a file, a `Source` or a list of pairs; "
            "or a folder in BEIR's layout, whose judgements called ``train`` are read.",
        ),
    ]
    columns: Annotated[
        Sequence[str] | None,
        Option(None, "The two columns of --pairs: question,answer. [default: anchor,positive]", rank=-1),
    ]
    questions: Annotated[
        Text | None,
        Option(
            None,
            "Questions about CORPUS that a language model wrote: the file of opencse questions. They are trained on "
            "too; those about held-out documents select.",
            rank=-1,
            in_python="questions that a language model wrote: the file of `opencse.questions`, or a list of question, "
            "answer and name of the document.",
        ),
    ]
    model: Annotated[
        str | Path,
        Option(
            "opencse-mini",
            "Encoder to adapt: a folder, a Hub id, or a preset's name.",
            ("--model", "-m"),
            rank=-1,
        ),
    ]
    continue_from: Annotated[
        str | Path | None,
        Option(
            None,
            "Adapt this adapted model further, because the collection has grown: CORPUS is all of it as it is now. It "
            "learns from the new documents, and from as many rows of the others, and is compared on both.",
            ("--continue",),
            rank=-1,
            in_python="a model that `adapt` wrote, to adapt further because the collection has grown: ``corpus`` is "
            "all of it as it is now.",
        ),
    ]
    recipe: Annotated[
        str,
        Option("adapt", "Recipe by name (opencse recipes) or TOML file.", ("--recipe", "-r"), rank=-1),
    ]
    dev: Annotated[
        str | Path | None,
        Option(
            "auto",
            "Data that the best step is selected by: 'auto' (questions about held-out documents), a folder of your "
            "queries with their relevant documents (BEIR's layout), a file of graded pairs, 'sample' (150 built-in "
            "graded pairs), or 'none' (keep the last step).",
            rank=-1,
        ),
    ]
