"""Scores any model on any suite of tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from opencse.commands.declared import Typed, command, needs
from opencse.commands.shared import (
    Data,
    Device,
    Fast,
    KeepIdenticalIds,
    Pooling,
    Reporter,
    Rerank,
    RerankDepth,
    RerankPrecision,
    Tasks,
    TrustRemoteCode,
)
from opencse.errors import UserError, shortened
from opencse.numerals import whole_number
from opencse.progress import SILENT

if TYPE_CHECKING:
    from opencse.evaluation import EvaluationRecord
    from opencse.evaluation.embedding import EmbeddingModel
    from opencse.evaluation.retrieval.rows import SearchedIndex


Logistic = Annotated["bool", Typed("Transfer: scikit-learn's logistic regression instead of SentEval's classifier.")]
Transform = Annotated[
    "Literal['whitening', 'all-but-the-top', 'flow', 'ranks'] | None",
    Typed(
        "Baseline that is applied after the model: whitening, all-but-the-top (without the mean and the first "
        "principal components), BERT-flow, or ranks (RankEncoder: how similarly two texts rank those of --fit)."
    ),
]
Remove = Annotated[
    "int | None",
    Typed("Components that --transform all-but-the-top removes; by default a hundredth of the dimensions.", least=0),
]
CosineShare = Annotated[
    "float | None",
    Typed("Share of the cosine in the similarity of --transform ranks, 0 to 1; by default 0.9.", least=0, most=1),
]
Fit = Annotated[
    "str | Path", Typed("Texts that --transform is fitted on: 'target' (the texts of each task) or a text file.")
]


def layers_of(typed: str) -> list[int] | Literal["all"]:
    """The layers that ``--layers`` names."""
    if typed.strip() == "all":
        return "all"
    return _whole_numbers(typed, "--layers is 'all' or numbers from 0, such as 0,2,4")


def dimensions_of(typed: str) -> list[int]:
    """The dimensions that ``--dimensions`` names."""
    return _whole_numbers(typed, "--dimensions is numbers from 1, such as 64,128,256")


def _whole_numbers(typed: str, expected: str) -> list[int]:
    parts = [whole_number(part.strip()) for part in typed.split(",")]
    numbers = [number for number in parts if number is not None]
    if len(numbers) < len(parts):
        raise UserError(f"{expected}, not {shortened(typed)!r}")
    return list(dict.fromkeys(numbers))


@command
@needs(fit="transform")
def evaluate(
    model: object,
    data: Data,
    suite: str = "sts",
    *,
    tasks: Tasks = None,
    keep_identical_ids: KeepIdenticalIds = False,
    layer: int | None = None,
    dimensions: int | None = None,
    fast: Fast = False,
    logistic: Logistic = False,
    transform: Transform = None,
    remove: Remove = None,
    cosine_share: CosineShare = None,
    fit: Fit = "target",
    pooling: Pooling = None,
    device: Device = None,
    trust_remote_code: TrustRemoteCode = False,
    progress: Reporter = SILENT,
) -> EvaluationRecord:
    r"""Scores any model on a suite of tasks.

    STS is scored as SimCSE does (section 6.1, appendix B): unchanged text, float32, cosine, Spearman x 100 over the
    concatenation of a year's subsets (``all``), and in addition ``mean`` and ``wmean``; texts are truncated only at
    the model's own maximum length. Transfer and probing follow SentEval, retrieval BEIR's form.

    Example:
        >>> import opencse
        >>> from pathlib import Path
        >>> Path("animals/qrels").mkdir(parents=True)  # a small task in BEIR's layout
        >>> documents = '{"_id": "1", "text": "A dog barks."}\n{"_id": "2", "text": "Rain falls."}\n'
        >>> _ = Path("animals/corpus.jsonl").write_text(documents)
        >>> _ = Path("animals/queries.jsonl").write_text('{"_id": "q", "text": "barking dogs"}\n')
        >>> _ = Path("animals/qrels/test.tsv").write_text("query-id\tcorpus-id\tscore\nq\t1\t1\n")
        >>> opencse.evaluate("opencse-mini", "animals", "retrieval").values()["retrieval.animals.ndcg_at_10"]
        100.0

    Args:
        model: a `SentenceEncoder`, a folder, a Hub id, ``opencse-mini``, ``words:FILE`` (word vectors),
            ``bag-of-words``, an object with ``encode(texts)`` (a sentence-transformers model), or a function of a list
            of texts. For retrieval also an `Index` or its folder, whose own passages and vectors are searched.
        data: a folder that holds one of the suite's name, the suite's own folder, or ``hub`` (STS).
        suite: ``sts``, ``dev`` (STS Benchmark's development pairs), ``sts-regressor``, ``transfer``, ``probing`` or
            ``retrieval``.
        layer: score the vectors of this layer, from 0 (the embedding layer's output), instead of the encoder's.
        dimensions: score only the first N dimensions of each vector.

    Returns:
        The suite's record: the scores, what they were computed on, and by what.

    Raises:
        TypeError: for data that is no path; write your own pairs to a file of each task.
        UserError: for bad input, in one line.
    """
    from opencse.commands.scoring import Scoring, folder_of
    from opencse.evaluation.embedding import first_dimensions
    from opencse.evaluation.retrieval.rows import Rows
    from opencse.evaluation.retrieval.score import Retrieval
    from opencse.evaluation.suites import suite_named

    how = Scoring(pooling, device, trust_remote_code, progress, transform, remove, cosine_share, fit)
    suite_options = how.suite_options([suite], tasks, fast, logistic, keep_identical_ids)
    of_models = {"pooling": pooling, "layer": layer, "dimensions": dimensions, "transform": transform}
    searched = how.indexes([model], [suite], of_models).get(0)
    opened_suite = suite_named(suite).open(folder_of(data, suite), suite_options)
    retrieval = opened_suite.suite
    if searched is not None and isinstance(retrieval, Retrieval):
        return Rows(retrieval, opened_suite.data, progress).of([searched])[searched.name]
    opened = how.opened(model, layer)
    scored = opened if dimensions is None else first_dimensions(opened, [dimensions])[0]
    return opened_suite.evaluate(how.transformed(scored), progress.say)


@command
@needs(hybrid_weight="hybrid", language="bm25 hybrid", fit="transform")
def evaluate_all(
    models: Annotated[
        Sequence[object],
        Typed(
            "Encoders: folders, Hub ids, opencse-small or -mini; baselines: bag-of-words, words:FILE (word vectors); "
            "for retrieval also indexes (INDEX), whose own passages are searched.",
            repeated=True,
            metavar="MODEL",
        ),
    ],
    data: Data,
    suites: Sequence[str] = ("sts",),
    *,
    tasks: Tasks = None,
    keep_identical_ids: KeepIdenticalIds = False,
    layers: Annotated[
        Sequence[int] | Literal["all"] | None,
        Typed("Score layers one by one: 'all', or numbers from 0 (token embeddings): 0,6,12.", parser=layers_of),
    ] = None,
    dimensions: Annotated[
        Sequence[int] | None,
        Typed(
            "Score only the first dimensions of each vector, one row for each number: 64,128,256.", parser=dimensions_of
        ),
    ] = None,
    fast: Fast = False,
    logistic: Logistic = False,
    rerank: Rerank = None,
    rerank_depth: RerankDepth = 50,
    rerank_precision: RerankPrecision = "float32",
    bm25: bool = False,
    hybrid: bool = False,
    hybrid_weight: Annotated[float | None, Typed(least=0, most=1)] = None,
    language: Annotated[
        str, Typed("Language whose word stems BM25 compares: auto (that of the documents), none, or en, de, ...")
    ] = "auto",
    transform: Transform = None,
    remove: Remove = None,
    cosine_share: CosineShare = None,
    fit: Fit = "target",
    pooling: Pooling = None,
    device: Device = None,
    trust_remote_code: TrustRemoteCode = False,
    progress: Reporter = SILENT,
) -> Iterator[tuple[str, dict[str, EvaluationRecord]]]:
    r"""Scores several models, or layers of them, on several suites: each text is read and encoded once.

    Each suite's data is read once, each model is loaded once, and a text that is in several suites is encoded once.
    Where layers are scored, one pass over the texts serves as many layers as fit into 2 GiB of vectors.

    Example:
        >>> import opencse
        >>> from pathlib import Path
        >>> Path("weather/qrels").mkdir(parents=True)  # a small task in BEIR's layout
        >>> documents = '{"_id": "1", "text": "A dog barks."}\n{"_id": "2", "text": "Rain falls."}\n'
        >>> _ = Path("weather/corpus.jsonl").write_text(documents)
        >>> _ = Path("weather/queries.jsonl").write_text('{"_id": "q", "text": "barking dogs"}\n')
        >>> _ = Path("weather/qrels/test.tsv").write_text("query-id\tcorpus-id\tscore\nq\t1\t1\n")
        >>> for suite, records in opencse.evaluate_all(["opencse-mini", "bag-of-words"], "weather", ["retrieval"]):
        ...     print(suite, list(records))
        retrieval ['opencse-mini', 'bag-of-words']

    Args:
        models: see `evaluate`; so are all arguments that are not listed here.
        data: a folder with one folder for each suite; for a single suite, that suite's own folder works too.
        suites: their names.
        layers: score these layers, from 0 (the embedding layer's output), or ``all``, instead of the encoders.
        dimensions: score only the first N dimensions of each vector, separately for each N in the list.
        bm25: Retrieval: one more row for BM25 (keywords) alone.
        hybrid: Retrieval: rows for BM25, and for each model or index with BM25 as `opencse index query --hybrid` merges
            them.
        hybrid_weight: Weight of the vectors in --hybrid, 0 to 1; by default the one saved with the model or index.
        language: whose word stems BM25 compares, as in `opencse.build_index`.

    Yields:
        Each suite's name as soon as it is done, and the records by model (or ``model, layer n``, ``model, n
        dimensions``, ``model + whitening (target)``; with ``hybrid`` also ``BM25`` and ``model + BM25``, of an
        index ``index, BM25``; with ``rerank`` each of them again, re-ranked).

    Raises:
        TypeError: for data that is no path.
        UserError: for bad input, in one line.
    """
    from opencse.commands.opening import second_stage
    from opencse.commands.scoring import Scoring, folder_of, keyword_rows, opened_rows
    from opencse.evaluation.embedding import EmbeddingModel, remembering
    from opencse.evaluation.models.opening import require_model
    from opencse.evaluation.retrieval.rows import Rows, SearchedIndex, compared_with_first
    from opencse.evaluation.retrieval.score import Retrieval
    from opencse.evaluation.suites import suite_named

    how = Scoring(pooling, device, trust_remote_code, progress, transform, remove, cosine_share, fit)
    of_models = {
        "pooling": pooling, "layers": layers, "dimensions": dimensions, "transform": transform, "rerank": rerank
    }  # fmt: skip
    indexes = how.indexes(models, suites, of_models, language)
    suite_options = how.suite_options(suites, tasks, fast, logistic, keep_identical_ids)
    extra = keyword_rows(suites, bm25, hybrid, hybrid_weight, language)
    if rerank is not None and Retrieval.name not in suites:
        raise UserError("--rerank is for retrieval; evaluate with --suite retrieval, or leave it out")
    stage = second_stage(rerank, rerank_depth, rerank_precision, progress, device, trust_remote_code)
    folders = {suite: folder_of(data, suite, suites) for suite in suites}
    several = len(folders) > 1
    one_row_each = layers is None and dimensions is None
    for number, model in enumerate(models) if len(models) > 1 else ():
        if number not in indexes:
            require_model(model)

    def opened_models() -> Iterator[EmbeddingModel | SearchedIndex]:
        for opened in opened_rows(models, indexes, how, layers, dimensions):
            if isinstance(opened, SearchedIndex):
                yield opened
            else:
                yield how.transformed(remembering(opened) if several else opened)

    remembered: list[EmbeddingModel | SearchedIndex] = []
    for suite, folder in folders.items():
        opened_suite = suite_named(suite).open(folder, suite_options)
        if several and not remembered:
            remembered = list(opened_models())
        opened = remembered or opened_models()
        retrieval, data_sets = opened_suite.suite, opened_suite.data
        if isinstance(retrieval, Retrieval):
            for searched in indexes.values():
                searched.check(data_sets)
            records = Rows(retrieval, data_sets, progress, extra, stage).of(opened)
        else:
            encoders = (model for model in opened if isinstance(model, EmbeddingModel))
            records = {model.name: opened_suite.evaluate(model, progress.say) for model in encoders}
        yield suite, compared_with_first(records) if one_row_each else records
