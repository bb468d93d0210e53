"""Whitening, flows and ranks applied to the vectors of any model, fitted on a corpus or the evaluated sentences."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from opencse.arrays import Vectors
from opencse.evaluation.embedding import EmbeddingModel, Encode, Searching, checked, embed
from opencse.numerals import number_of
from opencse.progress import SILENT, Say, uncounted
from opencse.text.given import TextSource
from opencse.text.readers import Source

TransformKind = Literal["whitening", "all-but-the-top", "flow", "ranks"]
Transform = Callable[[Vectors], NDArray[np.float32]]
Stage = Callable[[str, int, int], None]
"""Called with (name of the stage, steps done, steps in all)."""
TARGET = "target"
SENTENCES = 50_000
NEEDS_CORPUS = "ranks needs a corpus: --fit FILE, a text file such as the one trained on"
RANKED = 10_000
"""Texts of a corpus that ``ranks`` takes: the vectors have as many more dimensions."""
SEED = 42


def postprocessed(
    model: EmbeddingModel,
    kind: TransformKind,
    fit: str | Path | TextSource,
    *,
    remove: int | None = None,
    cosine_share: float | None = None,
    progress: Stage | None = None,
    say: Say = SILENT.say,
) -> EmbeddingModel:
    """Applies a whitening, a flow or ranks after a model (SimCSE, Tables 5, B.2 and C.1; RankEncoder).

    Fitted on a corpus, the map is the same for all texts. Fitted on the target, it is fitted on the first texts that
    are encoded, and stays: vectors of later calls are of the same space, and compare. `refitted_each_call` fits a new
    one for each task instead, as the published "target" rows do.

    Args:
        model: without the map.
        kind: ``whitening`` (see `Whitening`), ``all-but-the-top`` (see `AllButTheTop`), ``flow`` (see `Flow`, with
            its default settings) or ``ranks`` (see `CorpusRanks`, which needs a corpus).
        fit: ``target``, or a text file or source: of its different texts 50,000 are drawn at random, and 10,000 for
            ``ranks``; all if there are fewer.
        remove: components that ``all-but-the-top`` removes; None: a hundredth of the dimensions.
        cosine_share: of the cosine in the similarity of ``ranks``; None: .9.
        progress: called while a flow is trained.
        say: called with a line about each fit: the data and the time it took.

    Raises:
        UserError: for a fault in the file, or too few or too similar texts.
    """
    how: dict[str, Any] = {"remove": remove, "cosine_share": cosine_share, "progress": progress, "say": say}
    source = Source(str(fit)) if isinstance(fit, str | Path) else fit
    name = f"{model.name} + {kind} ({source.location})"
    fitted: list[Transform] = []
    if str(fit) != TARGET:
        texts = sample_texts(source, RANKED if kind == "ranks" else SENTENCES)
        data = f"{number_of(len(texts), 'text')} of {source.location}"
        fitted.append(fitted_to(embed(model.encode, texts).vectors, data, kind, **how))

    def mapped(encode: Encode, texts: Sequence[str]) -> Vectors:
        vectors = checked([*texts], encode(texts)).vectors
        if not fitted:
            fitted.append(fitted_to(vectors, f"the {number_of(len(texts), 'text')} evaluated", kind, **how))
        return fitted[0](vectors)

    return model.mapped(lambda encode: partial(mapped, encode), name=name)


def sample_texts(source: TextSource, most: int, seed: int = SEED) -> list[str]:
    """Draws up to ``most`` different texts of ``source`` at random, in the order of the file.

    Raises:
        UserError: for a fault in the text.
    """
    texts = list(dict.fromkeys(text for row in source.read().rows for text in row))
    rows = np.sort(np.random.default_rng(seed).permutation(len(texts))[:most])
    return [texts[i] for i in rows]


def refitted_each_call(
    model: EmbeddingModel,
    kind: TransformKind,
    *,
    remove: int | None = None,
    progress: Stage | None = None,
    say: Say = SILENT.say,
) -> EmbeddingModel:
    """Applies a whitening or flow that is fitted on the texts of each call, as in the published "target" rows.

    Evaluate it with ``Options(apart=True)``: then a call has the distinct texts of one task, all its parts together.
    The authors of both methods take every sentence as often as it occurs, and for STS-B and SICK-R the sentences of
    train and dev, too. Vectors of two calls are of different spaces.

    Args:
        model: without the map.
        kind: see `postprocessed`, as for all other arguments.
        remove: see `postprocessed`.
        progress: see `postprocessed`.
        say: see `postprocessed`.
    """
    fresh = partial(postprocessed, model, kind, TARGET, remove=remove, progress=progress, say=say)
    last = fresh().searching

    def documents(texts: Sequence[str]) -> Vectors:
        nonlocal last
        last = fresh().searching
        assert last is not None
        return last.documents(texts)

    def queries(texts: Sequence[str]) -> Vectors:
        assert last is not None
        return last.queries(texts)  # by the map of the documents, which are encoded first

    searching = None if last is None else Searching(queries, documents)
    return replace(fresh(), encode=lambda texts: fresh().encode(texts), searching=searching)


def fitted_to(
    vectors: Vectors,
    data: str,
    kind: TransformKind,
    *,
    remove: int | None,
    cosine_share: float | None,
    progress: Stage | None,
    say: Say,
) -> Transform:
    """The map that is fitted to ``vectors`` (n, d), which ``data`` names in messages; see `postprocessed`."""
    started = time.perf_counter()

    def report(what: str) -> None:
        say(f"{kind} fitted on {data} in {time.perf_counter() - started:.1f} s: {what}")

    match kind:
        case "whitening":
            from opencse.evaluation.models.whitening import Whitening

            whitening = Whitening.fit(vectors)
            left_out = f" ({whitening.dropped} without variance)" if whitening.dropped else ""
            report(f"{vectors.shape[1]} to {whitening.dimension} dimensions{left_out}")
            for line in whitening.doubts(len(vectors)):
                say(line)
            return whitening.apply
        case "all-but-the-top":
            from opencse.evaluation.models.whitening import AllButTheTop

            top = AllButTheTop.fit(vectors, remove)
            report(f"the mean and {top.removed} of {top.dimension} components removed")
            return top.apply
        case "flow":
            from opencse.evaluation.models.flow import Flow

            flow = Flow.fit(vectors, progress=partial(progress, "training the flow") if progress else uncounted)
            report(f"{flow.settings.levels} levels of {flow.settings.depth} steps")
            return flow.apply
        case "ranks":
            from opencse.evaluation.models.whitening import CorpusRanks

            ranks = CorpusRanks.fit(vectors, cosine_share)
            say(f"ranks against {data}: {ranks.cosine_share:.0%} of the similarity is the cosine")
            return ranks.apply
