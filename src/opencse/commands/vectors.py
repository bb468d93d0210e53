"""Compares texts by their vectors: similarity, nearest neighbours, and what a cosine means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from opencse.commands.declared import Typed, command, needs
from opencse.commands.shared import (
    Columns,
    Device,
    Encoder,
    Encoders,
    Pooling,
    Reporter,
    Split,
    TrustRemoteCode,
)
from opencse.errors import UserError, require_once
from opencse.numerals import number_of
from opencse.progress import SILENT, Counted

if TYPE_CHECKING:
    from opencse.analysis.calibration import Calibration
    from opencse.arrays import Embeddings
    from opencse.commands.opening import Model
    from opencse.evaluation import ScoredPairs
    from opencse.evaluation.neighbours import Neighbours
    from opencse.modules.similarity import Similarity
    from opencse.text.given import Text


@dataclass(frozen=True)
class Similar:
    """The similarity of a text to another.

    Attributes:
        text: the other text.
        score: similarity of the two vectors, by the model's function.
        function: the function: cosine, dot, euclidean or manhattan (distances are negated).
        above: percent of random pairs of the model's calibration that have a lower cosine; None without one.
        similar: whether the cosine reaches the calibration's threshold; None without one.
    """

    text: str
    score: float
    function: str = "cosine"
    above: float | None = None
    similar: bool | None = None


@command
def similarity(
    model: Encoder,
    text: Annotated[str, Typed(hidden=True)],
    others: Annotated[Sequence[str], Typed(hidden=True)],
    *,
    pooling: Pooling = None,
    device: Device = None,
    trust_remote_code: TrustRemoteCode = False,
    progress: Reporter = SILENT,
) -> list[Similar]:
    """Computes the similarity of one text to others by the model's own function (by default cosine), highest first.

    With a calibration in the model's folder (see `calibrate`), used with its own pooling, the result also says what
    the cosines mean.

    Example:
        >>> import opencse
        >>> for similar in opencse.similarity("opencse-mini", "A dog barks.", ["It rains.", "A hound bays."]):
        ...     print(f"{similar.score:.1f} {similar.text}")
        0.4 A hound bays.
        0.1 It rains.

    Args:
        text: the text that the others are compared with.
        others: at least one text.

    Raises:
        UserError: without another text, or if the model cannot be loaded.
    """
    from opencse.analysis.calibration import Calibration
    from opencse.commands.opening import open_for_vectors
    from opencse.encoder.first_look import warn_of_unknown_tokens
    from opencse.modules.similarity import Similarity
    from opencse.text.values import some_of

    others = some_of(others, "others: give at least one text to compare with, in a list")
    if not all(one.strip() for one in (text, *others)):
        raise UserError("a text is blank; give each some words")
    encoder = open_for_vectors(model, progress, pooling, device, trust_remote_code, texts=1 + len(others))
    warn_of_unknown_tokens(encoder, [text, *others], progress.say)
    scores = encoder.similarity(text, others)[0].tolist()
    folder = _calibrated(model, pooling)
    function = encoder.similarity_fn_name
    calibrated = Calibration.load(folder, encoder) if folder is not None and function is Similarity.COSINE else None
    ordered = sorted(zip(scores, others, strict=True), reverse=True)
    if calibrated is None:
        return [Similar(other, score, function.value) for score, other in ordered]
    best = calibrated.best_f1
    return [
        Similar(
            other,
            cosine,
            function.value,
            calibrated.percentile_of(cosine),
            None if best is None else cosine >= best.cosine,
        )
        for cosine, other in ordered
    ]


@command
@needs(columns="corpus", split="corpus")
def nearest(
    models: Encoders,
    corpus: Text | None,
    queries: Sequence[str],
    *,
    k: Annotated[int, Typed(flags=("-k",), least=1)] = 3,
    index: Annotated[
        str | Path | Sequence[str | Path] | None,
        Typed("Index to search instead of --corpus; one for each model, in their order.", repeated=True),
    ] = None,
    cache: Annotated[
        bool, Typed("Keep the vectors of CORPUS in NAME.index next to it, for the next time.", ("--cache/--no-cache",))
    ] = True,
    columns: Columns = None,
    split: Split = None,
    pooling: Pooling = None,
    device: Device = None,
    trust_remote_code: TrustRemoteCode = False,
    progress: Reporter = SILENT,
) -> Neighbours:
    """Finds the sentences of a corpus that are nearest to each query, by one or more encoders.

    Sentences that differ only in case or white space count once, and the query itself is left out. Encoders are loaded
    one at a time. With a calibration in a model's folder (see `calibrate`), the share of random pairs with a lower
    cosine is reported too.

    A file is encoded once by each model: its vectors are kept in ``NAME.index`` next to it, and used again until
    the file or the model changes.

    Example:
        >>> import opencse
        >>> sentences = ["Snow fell.", "The kettle boils.", "The train is late."]
        >>> found = opencse.nearest("opencse-mini", sentences, ["hot water"], k=1)
        >>> found.queries[0].models["opencse-mini"][0].text
        'The kettle boils.'

    Args:
        corpus: sentences to search: a file, a Hub data set id, a `Source` or a list of texts; None: the texts of
            ``index``.
        queries: sentences, in the corpus or not.
        k: Sentences to show for each query.
        index: an index for each model, all of the same texts (`build_index`), instead of a corpus.
        cache: keep the vectors of a file in ``NAME.index`` next to it.

    Raises:
        UserError: for bad input, a model named twice, or no query.
    """
    from opencse.analysis.calibration import Calibration
    from opencse.commands.opening import Model, name_of, open_for_vectors
    from opencse.encoder.text_encoder import TextEncoder
    from opencse.evaluation.neighbours import compare_neighbours
    from opencse.model_folder.locate import locate
    from opencse.modules.prompts import Role
    from opencse.modules.similarity import Similarity
    from opencse.search.corpus_cache import cache_folder, cached_index, vectors_of
    from opencse.search.index import Index
    from opencse.text.given import open_texts, say_left_out_rows, texts_of
    from opencse.text.values import some_of

    several = [models] if isinstance(models, Model) else list(models)
    names = [name_of(model) for model in several]
    require_once(names, "model")
    queries = some_of(queries, "no query; give at least one, in a list")
    for model in several:
        if not isinstance(model, TextEncoder):
            locate(model, code=trust_remote_code)  # before any of them encodes the corpus
    indexes = [index] if isinstance(index, str | Path) else list(index or [])
    if (corpus is None) == (not indexes):
        raise UserError("give either a corpus to search (--corpus), or an index for each model (--index)")
    saved: Path | None = None
    if corpus is not None:
        read = open_texts(corpus, columns=columns, split=split)
        say_left_out_rows(read, progress.say)
        saved = cache_folder(read) if cache else None
        texts, source = texts_of(read), str(corpus) if isinstance(corpus, str | Path) else None
    elif len(indexes) != len(several):
        raise UserError(
            f"{number_of(len(indexes), 'index')} for {number_of(len(several), 'model')}; give each model its own, "
            "in the same order"
        )
    else:
        texts, source = _texts_of_indexes(indexes), ", ".join(map(str, indexes))
    by_name = dict(zip(names, several, strict=True))
    similarities = {
        name: model.similarity_fn_name if isinstance(model, TextEncoder) else _similarity_of(model)
        for name, model in by_name.items()
    }
    folders = {name: _calibrated(model, pooling) for name, model in by_name.items()}
    calibrations = {
        name: Calibration.load(folder, trust_remote_code=trust_remote_code)
        for name, folder in folders.items()
        if folder is not None and similarities[name] is Similarity.COSINE
    }

    def encode(number: int, queries: Sequence[str], documents: Sequence[str]) -> tuple[Embeddings, Embeddings]:
        """Encodes with a model that is loaded here, so that one at a time is in memory."""
        encoder = open_for_vectors(several[number], progress, pooling, device, trust_remote_code)
        if indexes:
            opened = Index.open(indexes[number], encoder=encoder)
        elif saved is not None:
            opened = cached_index(saved, list(dict.fromkeys(texts)), encoder, progress)
        else:
            count = Counted(progress, f"encoding with {names[number]}")
            return encoder.encode_query(queries), encoder.encode_document(documents, progress=count)
        with opened:
            return vectors_of(opened, queries, Role.QUERY), vectors_of(opened, documents, Role.DOCUMENT)

    return compare_neighbours(
        {name: partial(encode, number) for number, name in enumerate(names)},
        texts,
        queries,
        k=k,
        source=source,
        percentile_of={name: one.percentile_of for name, one in calibrations.items() if one is not None},
        similarity_of=similarities,
        progress=progress.say,
    )


@command
@needs(cut="pairs", precision="pairs")
def calibrate(
    model: str | Path,
    text: Annotated[Text, Typed("Your own sentences: a text file or a Hub data set.")],
    *,
    pairs: Annotated[str | Path | ScoredPairs | None, Typed(file=True)] = None,
    cut: float | None = None,
    precision: Annotated[float | None, Typed(least=0, most=1)] = None,
    columns: Columns = None,
    split: Split = None,
    device: Device = None,
    trust_remote_code: TrustRemoteCode = False,
    progress: Reporter = SILENT,
) -> Calibration:
    """Measures what a cosine of this model means on a text, and saves that in the model's folder.

    `similarity` and `nearest` report it from then on. See `opencse.analysis.calibration` for the rules.

    Example:
        >>> import opencse
        >>> opencse.SentenceEncoder("opencse-mini").save("my-model")
        >>> names, verbs = ["A cat", "The dog", "My friend", "One bird"], ["sees", "hears", "likes"]
        >>> texts = [f"{name} {verb} {thing}." for name in names for verb in verbs for thing in ("rain", "tea")]
        >>> calibration = opencse.calibrate("my-model", texts)
        >>> calibration.percentile_of(0.99)
        100.0

    Args:
        model: folder of an encoder; calibration.json is written into it.
        text: your own sentences: a file, a Hub data set id, a `Source` or a list of texts.
        pairs: Labelled pairs (0 or 1, sentence, sentence), to find a threshold.
        cut: For graded pairs: pairs with at least this score count as similar.
        precision: Also find the threshold that reaches this precision (0 to 1).

    Raises:
        UserError: for bad input, too little text, or a folder that does not exist or cannot be written.
    """
    from opencse.analysis import calibration
    from opencse.commands.opening import open_for_vectors
    from opencse.evaluation import ScoredPairs, read_scored_pairs
    from opencse.model_folder.layout import CALIBRATION, SENTENCE_CONFIG, SIMILARITY
    from opencse.modules.similarity import Similarity
    from opencse.outputs import paths_of, require_apart, require_writable
    from opencse.text.given import open_texts, say_left_out_rows, texts_of

    if not Path(model).is_dir():
        raise UserError(
            f"{model}: no such folder; a calibration is saved in the model's folder, so give one of yours "
            "(opencse adapt makes one)"
        )
    file = Path(model) / CALIBRATION
    require_writable(file, remedy="a calibration is saved with its model, so copy the model to a folder of your own")
    require_apart(file, read=paths_of(text, None if isinstance(pairs, ScoredPairs) else pairs), option="model")
    source = open_texts(text, columns=columns, split=split)
    say_left_out_rows(source, progress.say)
    texts = texts_of(source)
    labelled = read_scored_pairs(Path(pairs)) if isinstance(pairs, str | Path) else pairs
    encoder = open_for_vectors(model, progress, device=device, trust_remote_code=trust_remote_code)
    if encoder.similarity_fn_name is not Similarity.COSINE:
        raise UserError(
            f"{model}: compares by {encoder.similarity_fn_name}, and a calibration says what cosines mean; set "
            f"{SIMILARITY} to cosine in {SENTENCE_CONFIG} if the model was trained with it"
        )
    corpus = str(text) if isinstance(text, str | Path) else None
    result = calibration.calibrate(encoder, texts, labelled=labelled, cut=cut, precision=precision, corpus=corpus)
    result.save(model)
    return result


def _calibrated(model: Model, pooling: str | None) -> Path | None:
    """The folder that may hold a calibration for this use of the model."""
    from opencse.encoder.text_encoder import TextEncoder

    if pooling is not None or isinstance(model, TextEncoder) or not Path(model).is_dir():
        return None
    return Path(model)


def _similarity_of(model: str | Path) -> Similarity:
    """The function that the folder's vectors are compared by."""
    from opencse.model_folder.description import describe

    return describe(model).similarity


def _texts_of_indexes(folders: Sequence[str | Path]) -> list[str]:
    """The texts of indexes, which must be the same."""
    from opencse.search.index import Index

    first: list[str] = []
    for folder in folders:
        with Index.open(folder) as index:
            texts = [hit.text for hit in index.rows()]
        if not texts:
            raise UserError(f"{folder}: the index is empty; add texts to it")
        if first and texts != first:
            raise UserError(f"{folder}: holds other texts than {folders[0]}; build both from one text, with --no-cut")
        first = texts
    return first
