"""Scores any model on any suite of tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Unpack, overload

from opencse.api.declaring import public
from opencse.api.evaluated_indexes import searched_indexes
from opencse.api.options.evaluation import EvaluateAllOptions, EvaluateOptions, SuiteOptions
from opencse.api.reranking import second_stage
from opencse.errors import UserError
from opencse.evaluation import EvaluationRecord, StsResult
from opencse.evaluation.embedding import EmbeddingModel
from opencse.evaluation.models.opening import open_model, require_model
from opencse.evaluation.once import first_dimensions, layer_models, remembering
from opencse.evaluation.probing.score import ProbingResult
from opencse.evaluation.regression.score import RegressorResult
from opencse.evaluation.retrieval.index_rows import SearchedIndex, rows_of_index
from opencse.evaluation.retrieval.keyword_rows import KeywordRows, compared_with_first, rows_with_keywords
from opencse.evaluation.retrieval.reranked_rows import SecondRows, rows_with_reranking
from opencse.evaluation.retrieval.score import Retrieval, RetrievalResult
from opencse.evaluation.suite import Options
from opencse.evaluation.suites import suite_folder, suite_named
from opencse.evaluation.transfer.score import TransferResult
from opencse.evaluation.transforms import NEEDS_CORPUS, TARGET, TransformKind, postprocessed, refitted_each_call
from opencse.progress import Counted, Silent, Stages
from opencse.text.stems import AUTO, language_named


@overload
def evaluate(
    model: object, data: str | Path, suite: Literal["sts"] = "sts", **options: Unpack[EvaluateOptions]
) -> StsResult: ...


@overload
def evaluate(
    model: object,
    data: str | Path,
    suite: Literal["sts-regressor"],
    **options: Unpack[EvaluateOptions],
) -> RegressorResult: ...


@overload
def evaluate(
    model: object,
    data: str | Path,
    suite: Literal["transfer"],
    **options: Unpack[EvaluateOptions],
) -> TransferResult: ...


@overload
def evaluate(
    model: object,
    data: str | Path,
    suite: Literal["probing"],
    **options: Unpack[EvaluateOptions],
) -> ProbingResult: ...


@overload
def evaluate(
    model: object,
    data: str | Path,
    suite: Literal["retrieval"],
    **options: Unpack[EvaluateOptions],
) -> RetrievalResult: ...


@overload
def evaluate(
    model: object,
    data: str | Path,
    suite: str,
    **options: Unpack[EvaluateOptions],
) -> EvaluationRecord: ...


@public
def evaluate(
    model: object, data: str | Path, suite: str = "sts", **options: Unpack[EvaluateOptions]
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
        **options: see `EvaluateOptions`.

    Returns:
        The suite's record: the scores, what they were computed on, and by what.

    Raises:
        TypeError: for data that is no path; write your own pairs to a file of each task.
        UserError: for bad input, in one line.
    """
    if not isinstance(suite, str):
        raise TypeError(f"suite is the name of one, not {type(suite).__name__}")
    progress = options["progress"] or Silent()
    suite_options = _suite_options([suite], options)
    searched = searched_indexes([model], [suite], options).get(0)
    opened_suite = suite_named(suite).open(_folder(data, suite), suite_options)
    retrieval = opened_suite.suite
    if searched is not None and isinstance(retrieval, Retrieval):
        return rows_of_index(searched, retrieval, opened_suite.data, None, progress.say)[searched.name]
    opened = open_model(model, layer=options["layer"], **_opening(options))
    dimensions = options["dimensions"]
    scored = opened if dimensions is None else first_dimensions(opened, [dimensions])[0]
    record: EvaluationRecord = opened_suite.evaluate(_transformed(scored, options), progress.say).record
    return record


@public
def evaluate_all(
    models: Sequence[object],
    data: str | Path,
    suites: Sequence[str] = ("sts",),
    **options: Unpack[EvaluateAllOptions],
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
        **options: see `EvaluateAllOptions`.

    Yields:
        Each suite's name as soon as it is done, and the records by model (or ``model, layer n``, ``model, n
        dimensions``, ``model + whitening (target)``; with ``hybrid`` also ``BM25`` and ``model + BM25``, of an
        index ``index, BM25``; with ``rerank`` each of them again, re-ranked).

    Raises:
        TypeError: for data that is no path.
        UserError: for bad input, in one line.
    """
    progress = options["progress"] or Silent()
    indexes = searched_indexes(models, suites, options)
    suite_options = _suite_options(suites, options)
    extra, second = _keyword_rows(suites, options), _second_rows(suites, options)
    folders = {suite: _folder(data, suite, suites) for suite in suites}
    several = len(folders) > 1
    one_row_each = options["layers"] is None and options["dimensions"] is None
    for number, model in enumerate(models) if len(models) > 1 else ():
        if number not in indexes:
            require_model(model)

    def opened_models() -> Iterator[EmbeddingModel | SearchedIndex]:
        for opened in _opened(models, indexes, options):
            if isinstance(opened, SearchedIndex):
                yield opened
            else:
                yield _transformed(remembering(opened) if several else opened, options)

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
        if isinstance(retrieval, Retrieval) and (extra is not None or second is not None):
            encoders = (model for model in opened if isinstance(model, EmbeddingModel))
            rows: dict[str, RetrievalResult] = {}
            if extra is not None and len(indexes) < len(models):
                rows = rows_with_keywords(encoders, retrieval, data_sets, extra, progress.say, second)
            elif second is not None:
                rows = rows_with_reranking(encoders, retrieval, data_sets, second)
            for searched in indexes.values():
                rows |= rows_of_index(searched, retrieval, data_sets, extra, progress.say)
            yield suite, compared_with_first(rows) if one_row_each else {**rows}
            continue
        records: dict[str, EvaluationRecord] = {}
        for model in opened:
            if not isinstance(model, SearchedIndex):
                records[model.name] = opened_suite.evaluate(model, progress.say).record
            elif isinstance(retrieval, Retrieval):
                records |= rows_of_index(model, retrieval, data_sets, None, progress.say)
        yield suite, compared_with_first(records) if one_row_each else records


def _second_rows(suites: Sequence[str], options: EvaluateAllOptions) -> SecondRows | None:
    """The rows with a second stage that are requested; None for none.

    Raises:
        UserError: for a model that is no cross-encoder, or suites without rankings.
    """
    if options["rerank"] is not None and Retrieval.name not in suites:
        raise UserError("--rerank is for retrieval; evaluate with --suite retrieval, or leave it out")
    stage = second_stage(options)
    return None if stage is None else SecondRows(stage, options["progress"] or Silent())


def _keyword_rows(suites: Sequence[str], options: EvaluateAllOptions) -> KeywordRows | None:
    """The rows of BM25 that are requested; None for none.

    Raises:
        UserError: for options that would change nothing.
    """
    requested = options["bm25"] or options["hybrid"]
    if requested and Retrieval.name not in suites:
        raise UserError("--bm25 and --hybrid are for retrieval; evaluate with --suite retrieval, or leave them out")
    if options["hybrid_weight"] is not None and not options["hybrid"]:
        raise UserError("--hybrid-weight needs --hybrid; add it, or leave the weight out")
    if options["language"] != AUTO:
        language_named(options["language"])
        if not requested:
            raise UserError("--language needs --bm25 or --hybrid, whose word stems it chooses; leave it out")
    if not requested:
        return None
    return KeywordRows(options["hybrid"], options["hybrid_weight"], options["language"])


def _folder(data: str | Path, suite: str, among: Iterable[str] = ()) -> Path:
    if not isinstance(data, str | Path):
        raise TypeError(f"data is a path, not {type(data).__name__}")
    return suite_folder(data, suite_named(suite).name, among)


def _opening(options: SuiteOptions) -> dict[str, Any]:
    """How models are opened, as keywords of `open_model`."""
    progress = options["progress"] or Silent()
    return {
        "pooling": options["pooling"],
        "device": options["device"],
        "progress": Counted(progress, "encoding"),
        "say": progress.say,
        "trust_remote_code": options["trust_remote_code"],
    }


def _opened(
    models: Sequence[object], indexes: Mapping[int, SearchedIndex], options: EvaluateAllOptions
) -> Iterator[EmbeddingModel | SearchedIndex]:
    """Opens each model, or each layer and dimension of it, one after the other, with a name that is used once."""
    layers, dimensions, opening = options["layers"], options["dimensions"], _opening(options)
    seen: Counter[str] = Counter()
    for number, model in enumerate(models):
        if number in indexes:
            yield indexes[number]
            continue
        opened = open_model(model, **opening)
        seen[opened.name] += 1
        if seen[opened.name] > 1:  # loaded models are called by their class
            opened = replace(opened, name=f"{opened.name} ({seen[opened.name]})")
        for one in [opened] if layers is None else layer_models(opened, layers):
            yield from [one] if dimensions is None else first_dimensions(one, dimensions)


def _suite_options(suites: Sequence[str], options: SuiteOptions) -> Options:
    """The options of the suites; refuses a ``fit`` without a transform, and options that none of the suites reads."""
    if options["keep_identical_ids"] and Retrieval.name not in suites:
        raise UserError("--keep-identical-ids is for retrieval; evaluate with --suite retrieval, or leave it out")
    if options["transform"] is None and str(options["fit"]) != TARGET:
        raise UserError(f"--fit {options['fit']} needs --transform; name one, or leave --fit out")
    if options["remove"] is not None and options["transform"] != "all-but-the-top":
        raise UserError(f"--remove {options['remove']} needs --transform all-but-the-top")
    if options["cosine_share"] is not None and options["transform"] != "ranks":
        raise UserError(f"--cosine-share {options['cosine_share']:g} needs --transform ranks")
    if options["transform"] == "ranks" and str(options["fit"]) == TARGET:
        raise UserError(NEEDS_CORPUS)
    return Options(
        tasks=options["tasks"],
        fast=options["fast"],
        logistic=options["logistic"],
        apart=_on_target(options["transform"], options["fit"]),
        device=options["device"],
        keep_identical_ids=options["keep_identical_ids"],
    )


def _on_target(transform: TransformKind | None, fit: str | Path) -> bool:
    return transform is not None and str(fit) == TARGET


def _transformed(model: EmbeddingModel, options: SuiteOptions) -> EmbeddingModel:
    transform, progress, remove = options["transform"], options["progress"] or Silent(), options["remove"]
    if transform is None:
        return model
    if _on_target(transform, options["fit"]):
        return refitted_each_call(model, transform, remove=remove, progress=Stages(progress), say=progress.say)
    return postprocessed(
        model,
        transform,
        options["fit"],
        remove=remove,
        cosine_share=options["cosine_share"],
        progress=Stages(progress),
        say=progress.say,
    )
