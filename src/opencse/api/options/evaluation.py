"""Options of `opencse.evaluate` and `opencse.evaluate_all`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, TypedDict

from opencse.api.declaring import Option
from opencse.api.options.shared import IdenticalIdOptions, ModelOptions, RerankOptions


class FastOptions(TypedDict, total=False):
    """How exactly SentEval's classifiers are trained."""

    fast: Annotated[bool, Option(False, "Transfer, probing: SentEval's faster settings, for a first look.", rank=1)]


class TaskOptions(TypedDict, total=False):
    """Which tasks of a suite are scored."""

    tasks: Annotated[
        Sequence[str] | None,
        Option(
            None,
            "Only these tasks of the suite, comma-separated.",
            in_python="the tasks of the suite to score; all by default.",
        ),
    ]


class SuiteOptions(FastOptions, TaskOptions, IdenticalIdOptions, ModelOptions, total=False):
    """How models are scored on a suite of tasks."""

    logistic: Annotated[
        bool,
        Option(
            False,
            "Transfer: scikit-learn's logistic regression instead of SentEval's classifier.",
            rank=1,
        ),
    ]
    transform: Annotated[
        Literal["whitening", "all-but-the-top", "flow", "ranks"] | None,
        Option(
            None,
            "Baseline that is applied after the model: whitening, all-but-the-top (without the mean and the first "
            "principal components), BERT-flow, or ranks (RankEncoder: how similarly two texts rank those of --fit).",
            rank=2,
        ),
    ]
    remove: Annotated[
        int | None,
        Option(
            None,
            "Components that --transform all-but-the-top removes; by default a hundredth of the dimensions.",
            least=0,
            rank=2,
        ),
    ]
    cosine_share: Annotated[
        float | None,
        Option(
            None,
            "Share of the cosine in the similarity of --transform ranks, 0 to 1; by default 0.9.",
            least=0,
            most=1,
            rank=2,
        ),
    ]
    fit: Annotated[
        str | Path,
        Option(
            "target", "Texts that --transform is fitted on: 'target' (the texts of each task) or a text file.", rank=2
        ),
    ]


class EvaluateOptions(SuiteOptions, total=False):
    """How one model is scored on one suite."""

    layer: Annotated[
        int | None,
        Option(
            None,
            "score the vectors of this layer, from 0 (the embedding layer's output), instead of the encoder's.",
        ),
    ]
    dimensions: Annotated[int | None, Option(None, "score only the first N dimensions of each vector.")]


class EvaluateAllOptions(SuiteOptions, RerankOptions, total=False):
    """How several models are scored on several suites."""

    bm25: Annotated[bool, Option(False, "Retrieval: one more row for BM25 (keywords) alone.", rank=1)]
    hybrid: Annotated[
        bool,
        Option(
            False,
            "Retrieval: rows for BM25, and for each model or index with BM25 as `opencse index query --hybrid` merges "
            "them.",
            rank=1,
        ),
    ]
    hybrid_weight: Annotated[
        float | None,
        Option(
            None,
            "Weight of the vectors in --hybrid, 0 to 1; by default the one saved with the model or index.",
            least=0,
            most=1,
            rank=1,
        ),
    ]
    language: Annotated[
        str,
        Option(
            "auto",
            "Language whose word stems BM25 compares: auto (that of the documents), none, or en, de, ...",
            rank=1,
            in_python="whose word stems BM25 compares, as in `opencse.build_index`.",
        ),
    ]

    layers: Annotated[
        Sequence[int] | Literal["all"] | None,
        Option(
            None,
            "Score layers one by one: 'all', or numbers from 0 (token embeddings): 0,6,12.",
            in_python="score these layers, from 0 (the embedding layer's output), or ``all``, instead of the encoders.",
        ),
    ]
    dimensions: Annotated[
        Sequence[int] | None,
        Option(
            None,
            "Score only the first dimensions of each vector, one row for each number: 64,128,256.",
            in_python="score only the first N dimensions of each vector, separately for each N in the list.",
        ),
    ]
