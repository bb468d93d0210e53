"""Evaluation: any model on any suite of tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack, overload

from opencse.errors import UserError, plain_failures
from opencse.evaluation import EvaluationRecord, StsResult
from opencse.evaluation.embedding import EmbeddingModel
from opencse.evaluation.models.opening import open_model, require_there
from opencse.evaluation.once import cut_short, one_by_one, remembering
from opencse.evaluation.probing.score import ProbingResult
from opencse.evaluation.regression.score import RegressorResult
from opencse.evaluation.retrieval.score import Retrieval, RetrievalResult
from opencse.evaluation.suite import Options
from opencse.evaluation.suites import suite_folder, suite_named
from opencse.evaluation.transfer.score import TransferResult
from opencse.evaluation.transforms import TARGET, Kind, anew_each_call, postprocessed
from opencse.foreign import checks_trust
from opencse.progress import Counted, Progress, Silent, Stages


class Asked(TypedDict, total=False):
    """What `evaluate` can be asked for besides; see there."""

    pooling: str | None
    layer: int | None
    dimensions: int | None
    tasks: Sequence[str] | None
    fast: bool
    logistic: bool
    transform: Kind | None
    fit: str | Path
    keep_identical_ids: bool
    device: str | None
    trust_remote_code: bool
    progress: Progress | None


@overload
def evaluate(
    model: object,
    data: str | Path,
    suite: Literal["sts"] = "sts",
    **how: Unpack[Asked],
) -> StsResult: ...


@overload
def evaluate(
    model: object,
    data: str | Path,
    suite: Literal["sts-regressor"],
    **how: Unpack[Asked],
) -> RegressorResult: ...


@overload
def evaluate(
    model: object,
    data: str | Path,
    suite: Literal["transfer"],
    **how: Unpack[Asked],
) -> TransferResult: ...


@overload
def evaluate(
    model: object,
    data: str | Path,
    suite: Literal["probing"],
    **how: Unpack[Asked],
) -> ProbingResult: ...


@overload
def evaluate(
    model: object,
    data: str | Path,
    suite: Literal["retrieval"],
    **how: Unpack[Asked],
) -> RetrievalResult: ...


@overload
def evaluate(
    model: object,
    data: str | Path,
    suite: str,
    **how: Unpack[Asked],
) -> EvaluationRecord: ...


@plain_failures
@checks_trust
def evaluate(
    model: object,
    data: str | Path,
    suite: str = "sts",
    *,
    pooling: str | None = None,
    layer: int | None = None,
    dimensions: int | None = None,
    tasks: Sequence[str] | None = None,
    fast: bool = False,
    logistic: bool = False,
    transform: Kind | None = None,
    fit: str | Path = TARGET,
    keep_identical_ids: bool = False,
    device: str | None = None,
    trust_remote_code: bool = False,
    progress: Progress | None = None,
) -> EvaluationRecord:
    """Scores any model on a suite of tasks.

    STS is scored as SimCSE does (section 6.1, appendix B): text as it stands in ``data``, float32, cosine, Spearman x
    100 over the concatenation of a year's subsets (``all``) beside ``mean`` and ``wmean``; texts are cut only at the
    model's own maximum length. Transfer and probing follow SentEval, retrieval BEIR's form.

    Args:
        model: a `SentenceEncoder`, a folder, a Hub id, ``opencse-mini``, ``words:FILE`` (word vectors),
            ``bag-of-words``, an object with ``encode(texts)`` (a sentence-transformers model), or a function of a list
            of texts.
        data: a folder that holds one of the suite's name, the suite's own folder, or ``hub`` (STS).
        suite: ``sts``, ``dev`` (STS Benchmark's development pairs), ``sts-regressor``, ``transfer``, ``probing`` or
            ``retrieval``.
        pooling: replaces the model's own.
        layer: scores this layer's vectors, from 0 (the embedding layer's output) on, instead of the whole encoder's.
        dimensions: scores the first so many dimensions of the vectors.
        tasks: some of the suite's tasks; all for None.
        fast: transfer, probing: SentEval's fast classifier.
        logistic: transfer: scikit-learn's logistic regression.
        transform: ``whitening`` or ``flow`` after the model.
        fit: what a transform is fitted on: ``target``, the texts of each task by themselves, or a text file.
        keep_identical_ids: retrieval: rank a document with the query's own id also where it is not judged relevant; by
            default it is left out, as the query itself.
        device: where to run.
        trust_remote_code: run the Python code that the folder of ``model`` brings; see `SentenceEncoder.load`.
        progress: hears of it.

    Returns:
        The suite's record: the scores, what they were computed on, and by what.

    Raises:
        TypeError: for data that is no path; pairs of your own stand in a file of each task.
        UserError: for bad input, in one line.
    """
    if not isinstance(suite, str):
        raise TypeError(f"suite is the name of one, not {type(suite).__name__}")
    tell = progress or Silent()
    options = _options([suite], tasks, fast, logistic, transform, fit, device, keep_identical_ids)
    opened_suite = suite_named(suite).open(_folder(data, suite, alone=True), options)
    opened = open_model(
        model,
        pooling=pooling,
        layer=layer,
        device=device,
        progress=Counted(tell, "encoding"),
        say=tell.say,
        trust_remote_code=trust_remote_code,
    )
    cut = opened if dimensions is None else cut_short(opened, [dimensions])[0]
    found: EvaluationRecord = opened_suite.evaluate(_transformed(cut, transform, fit, tell), tell.say).record
    return found


@plain_failures
@checks_trust
def evaluate_all(
    models: Sequence[object],
    data: str | Path,
    suites: Sequence[str] = ("sts",),
    *,
    layers: Sequence[int] | Literal["all"] | None = None,
    dimensions: Sequence[int] | None = None,
    pooling: str | None = None,
    tasks: Sequence[str] | None = None,
    fast: bool = False,
    logistic: bool = False,
    transform: Kind | None = None,
    fit: str | Path = TARGET,
    keep_identical_ids: bool = False,
    device: str | None = None,
    trust_remote_code: bool = False,
    progress: Progress | None = None,
) -> Iterator[tuple[str, dict[str, EvaluationRecord]]]:
    """Scores several models, or layers of them, on several suites: each text is read and encoded once.

    Each suite's data is read once, each model is loaded once, a text that stands in several suites is encoded once,
    and where layers are scored, one pass over the texts serves as many layers as fit into 2 GiB of vectors.

    Args:
        models: see `evaluate`; so are all arguments that are not listed here.
        data: a folder that holds one folder a suite; where one suite is asked for, that suite's own folder too.
        suites: their names.
        layers: score these layers, from 0 (the embedding layer's output) on, or ``all``, not the whole encoders.
        dimensions: score the first so many dimensions of the vectors, each number by itself, not whole vectors.
        pooling: see `evaluate`.
        tasks: of the suite, where it is one.
        fast: see `evaluate`.
        logistic: see `evaluate`.
        transform: see `evaluate`.
        fit: see `evaluate`.
        keep_identical_ids: see `evaluate`.
        device: see `evaluate`.
        trust_remote_code: see `evaluate`.
        progress: see `evaluate`.

    Yields:
        Each suite's name as soon as it is done, and the records by model (or ``model, layer n``, ``model, n
        dimensions``).

    Raises:
        TypeError: for data that is no path.
        UserError: for bad input, in one line.
    """
    tell = progress or Silent()
    options = _options(suites, tasks, fast, logistic, transform, fit, device, keep_identical_ids)
    folders = {suite: _folder(data, suite, alone=len(suites) == 1) for suite in suites}
    told: Any = {
        "pooling": pooling,
        "device": device,
        "progress": Counted(tell, "encoding"),
        "say": tell.say,
        "trust_remote_code": trust_remote_code,
    }
    several = len(folders) > 1
    for model in models if len(models) > 1 else ():
        require_there(model)

    def ready() -> Iterator[tuple[str, EmbeddingModel]]:
        for one in _opened(models, layers, dimensions, told):
            again = remembering(one) if several else one
            yield one.name, _transformed(again, transform, fit, tell)

    kept: list[tuple[str, EmbeddingModel]] = []
    for suite, folder in folders.items():
        opened = suite_named(suite).open(folder, options)
        if several and not kept:
            kept = list(ready())
        results = {name: opened.evaluate(judged, tell.say).record for name, judged in kept or ready()}
        yield suite, results


def _folder(data: str | Path, suite: str, *, alone: bool) -> Path:
    if not isinstance(data, str | Path):
        raise TypeError(f"data is a path, not {type(data).__name__}")
    return suite_folder(data, suite_named(suite).name, alone=alone)


def _opened(
    models: Sequence[object],
    layers: Sequence[int] | Literal["all"] | None,
    dimensions: Sequence[int] | None,
    told: Any,  # noqa: ANN401 - keywords of `open_model`
) -> Iterator[EmbeddingModel]:
    """What is scored, one after the other, each by a name of its own."""
    seen: Counter[str] = Counter()
    for model in models:
        opened = open_model(model, **told)
        seen[opened.name] += 1
        if seen[opened.name] > 1:  # loaded models are called by their class
            opened = replace(opened, name=f"{opened.name} ({seen[opened.name]})")
        for one in [opened] if layers is None else one_by_one(opened, layers):
            yield from [one] if dimensions is None else cut_short(one, dimensions)


def _options(
    suites: Sequence[str],
    tasks: Sequence[str] | None,
    fast: bool,
    logistic: bool,
    transform: Kind | None,
    fit: str | Path,
    device: str | None,
    keep_identical_ids: bool,
) -> Options:
    """What was chosen about a suite; a ``fit`` of no transform is refused, and so is what no suite of them reads."""
    if keep_identical_ids and Retrieval.name not in suites:
        raise UserError("--keep-identical-ids is for retrieval; evaluate with --suite retrieval, or leave it out")
    if transform is None and str(fit) != TARGET:
        raise UserError(f"fit ({fit}) says what a transform is fitted on; name one too (--transform), or leave it out")
    return Options(
        tasks=tasks,
        fast=fast,
        logistic=logistic,
        apart=_on_target(transform, fit),
        device=device,
        keep_identical_ids=keep_identical_ids,
    )


def _on_target(transform: Kind | None, fit: str | Path) -> bool:
    return transform is not None and str(fit) == TARGET


def _transformed(model: EmbeddingModel, transform: Kind | None, fit: str | Path, tell: Progress) -> EmbeddingModel:
    if transform is None:
        return model
    if _on_target(transform, fit):
        return anew_each_call(model, transform, progress=Stages(tell), say=tell.say)
    return postprocessed(model, transform, fit, progress=Stages(tell), say=tell.say)
