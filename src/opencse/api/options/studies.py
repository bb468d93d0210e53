"""Options of `opencse.compare` and `opencse.reproduce`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from opencse.api.declaring import Option
from opencse.api.options.evaluation import FastOptions, TaskOptions
from opencse.api.options.shared import DeviceOptions, EngineOptions, RowColumnOptions, SettingOptions


class StudyOptions(FastOptions, TaskOptions, SettingOptions, RowColumnOptions, DeviceOptions, total=False):
    """How recipes are trained and scored."""

    suites: Annotated[
        Sequence[str],
        Option(("sts",), "Suites to evaluate, comma-separated: sts, transfer, probing, retrieval, ...", rank=1),
    ]


class CompareOptions(StudyOptions, EngineOptions, total=False):
    """How recipes are compared."""

    starts: Annotated[
        Sequence[str | Path],
        Option(
            ("opencse-mini",),
            "Models to start from, comma-separated: folders, Hub ids, opencse-mini.",
            ("--starts", "-m"),
        ),
    ]
    seeds: Annotated[
        Sequence[int],
        Option(
            (42, 43, 44, 45, 46),
            "Seeds, comma-separated or a range: 42-46.",
            typed="42-46",
            in_python="seeds; one run for each.",
        ),
    ]
    data_seeds: Annotated[
        Sequence[int] | None,
        Option(
            None,
            "Seeds of the data order alone, like --seeds; each is crossed with --dropout-seeds, and the variance that "
            "either adds is shown.",
            in_python="seeds of the data order alone: each is crossed with ``dropout_seeds``, and the variance that "
            "either adds is computed. The first of ``seeds`` is that of everything else.",
        ),
    ]
    dropout_seeds: Annotated[
        Sequence[int] | None,
        Option(
            None,
            "Seeds of dropout alone, like --seeds; see --data-seeds.",
            in_python="seeds of dropout alone; see ``data_seeds``.",
        ),
    ]
    grid: Annotated[
        Sequence[str],
        Option(
            (),
            "Cross the recipes with values of a setting: training.batch_size=64,128; may be repeated.",
            repeated=True,
            rank=2,
            in_python="values of settings that every recipe is crossed with, ``key.path=value,value`` each.",
        ),
    ]
    tune: Annotated[
        Sequence[str],
        Option(
            (),
            "Give each recipe the best of these values of a setting, by --tune-metric at --tune-seeds: "
            "training.learning_rate=3e-5,1e-4; may be repeated.",
            repeated=True,
            rank=2,
            in_python="values of settings, ``key.path=value,value`` each, of which each recipe takes the best: by "
            "``tune_metric`` at ``tune_seeds``. The runs that choose are in ``out``/tuning.",
        ),
    ]
    tune_seeds: Annotated[
        Sequence[int],
        Option((1,), "Seeds of the runs that --tune chooses by; none of --seeds.", typed="1", rank=2),
    ]
    tune_metric: Annotated[
        str | None,
        Option(None, "Score that --tune chooses by; by default dev.stsb, if dev is among --suites.", rank=2),
    ]
    baseline: Annotated[
        str | None, Option(None, "Recipe that the others are compared with; by default the first.", rank=2)
    ]
    metric: Annotated[
        str | None,
        Option(
            None,
            "Score that is compared, for instance sts.average (the default where STS is evaluated).",
            rank=2,
        ),
    ]
    dev: Annotated[
        str | Path | None,
        Option(
            "sample",
            "Data to select on: a file of graded pairs, 'sample', 'transfer' (dev accuracy of the tasks in --data; or "
            "transfer:FOLDER), or 'none'.",
            rank=2,
        ),
    ]
    kept: Annotated[
        bool,
        Option(
            False,
            "Score the encoder that --dev selects, or the encoder of the last step.",
            ("--kept/--last",),
            rank=2,
            in_python="score the encoder that a run keeps, not the encoder of its last step.",
        ),
    ]
    resamples: Annotated[int, Option(1_000, "Bootstrap samples for the intervals; 0: no intervals.", least=0, rank=4)]
    workers: Annotated[
        int | None,
        Option(None, "Runs at a time; by default 1, with Ray one for each GPU or core.", least=1, rank=4),
    ]
    precision: Annotated[
        Literal["float32", "bf16"],
        Option(
            "float32",
            "Arithmetic of evaluation; bf16 is faster where the processor has it, and moves scores by some hundredths. "
            "That of training is a setting (training.precision).",
            rank=5,
        ),
    ]
    dry_run: Annotated[
        bool, Option(False, "Check everything, print the runs and their number, and stop before the first.", rank=6)
    ]
    command: Annotated[
        str,
        Option("opencse.compare", "how the comparison was started, for ``comparison.md``.", rank=9, hidden=True),
    ]


class ReproduceOptions(StudyOptions, total=False):
    """How a paper's system is reproduced."""

    model: Annotated[
        str | Path | None,
        Option(
            None,
            "Model to start from, for instance a local copy; by default the paper's.",
            ("--model", "-m"),
        ),
    ]
    seeds: Annotated[
        Sequence[int] | None,
        Option(
            None,
            "Seeds: 42-46, or 1,2,3; by default the recipe's, or the paper's single one.",
            in_python="seeds; by default the recipe's, or the paper's single one.",
        ),
    ]
    dev: Annotated[
        str | Path | None,
        Option(
            "sample",
            "Data that the best step is selected by: a file of graded pairs (papers take STS-B dev), 'sample', "
            "'transfer' (dev accuracy of the tasks in --data; or transfer:FOLDER), or 'none'.",
            rank=2,
        ),
    ]
    workers: Annotated[int, Option(1, "Runs at a time; the cores are divided among them.", least=1, rank=4)]
