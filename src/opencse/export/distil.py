"""Distils an encoder into a table of word vectors: encodes its vocabulary, then PCA and weights by frequency.

    u_t = encoder(t)                    the sentence vector of token t (or word) by itself, before L2 normalisation
    v_t = (u_t - mean(u)) Q_d           the first d principal components over the vocabulary
    e_t = a / (a + p_t) v_t             p_t: share of the running tokens (Arora, Liang & Ma 2017, equation 3)

Without a text, p_t is Zipf's: proportional to 1 / (rank + 2), the vocabulary being ordered by frequency, as in
WordPiece and BPE (Tulkens & van Dongen 2024, model2vec). With texts, p_t is counted, and the table is fitted so that
the mean of a text's rows is the encoder's vector of the text: with A (n, V) the shares of the tokens in n texts and
T (n, d) the encoder's vectors, less their mean, in the same principal components, as unit vectors,

    E* = argmin_E |A E - T|^2 + ridge |E - s E_0|^2,        s = argmin_s |s A E_0 - T|^2

so rare tokens stay near their distilled vectors: a least-squares problem, solved by conjugate gradients.

Without a text this is the method of model2vec's ``distill``. For all-MiniLM-L6-v2 (256 dimensions, one thread) the
steps of model2vec (``create_embeddings``, ``apply_pca``, ``compute_weights``) take 20 s of processor time, these 21 s,
with the same scores: 79.20 on STS Benchmark's dev pairs, 67.59 on seven STS tasks, nDCG@10 of 29.01 on Cranfield and
39.75 on SciFact (``distill`` itself, with a tokenizer of its own: 67.58, 29.00, 39.56). ``distill`` is not called here
because it reads only the backbone of a model (no dense layers, no prompts), needs one more package (skeletoken), and
has no fit to a text.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field

from opencse.arrays import Vectors
from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.text_encoder import require_sound_vectors, token_batches
from opencse.errors import UserError
from opencse.model_folder.table import bare_tokenizer, new_table, without_unknown
from opencse.modules.parts import Parts
from opencse.modules.pooling import Pooling
from opencse.modules.similarity import unit_rows
from opencse.progress import Counted, Progress
from opencse.settings import Settings

_BUDGET = 8_192


class DistilSettings(Settings):
    """Settings of a distillation into a table of word vectors.

    Example:
        >>> DistilSettings(dimension=128).sif
        0.0001

    Attributes:
        dimension: length of a vector (d); unset keeps the encoder's.
        sif: a of the weights a / (a + p); inf weighs all tokens equally.
        words: number of frequent words of the text, which the tokenizer splits, that get a row of their own.
        fewest: how often such a word must occur.
        fit: whether the table is fitted to the encoder's vectors of the texts, where texts are given.
        ridge: how strongly the fit keeps the distilled vectors; see the top of the module.
        iterations: of conjugate gradients.
        sentences: texts to fit on at most, drawn at random.
    """

    dimension: int | None = Field(default=256, ge=1, le=65_536)
    sif: float = Field(default=1e-4, gt=0, allow_inf_nan=True)
    words: int = Field(default=0, ge=0, le=1_000_000)
    fewest: int = Field(default=5, ge=1)
    fit: bool = True
    ridge: float = Field(default=0.01, ge=0)
    iterations: int = Field(default=30, ge=1, le=10_000)
    sentences: int = Field(default=50_000, ge=2)


@dataclass(frozen=True)
class Distilled:
    """The table that was made, and how well it fits.

    Attributes:
        encoder: a table, on the CPU, in evaluation mode.
        rows: of the table.
        words: whole words added to the vocabulary.
        texts: number of texts that the table was fitted to; 0 without a fit.
        before: mean cosine of the texts' vectors to the encoder's before the fit (d dimensions); None without one.
        after: the same after the fit.
    """

    encoder: SentenceEncoder
    rows: int
    words: int
    texts: int = 0
    before: float | None = None
    after: float | None = None


def distil(encoder: SentenceEncoder, settings: DistilSettings, texts: Sequence[str], progress: Progress) -> Distilled:
    """Distils ``encoder`` into a table; the method is at the top of this module.

    Args:
        encoder: with a fast tokenizer; on any device.
        settings: sizes and constants.
        texts: of the domain; may be empty.
        progress: is notified of each stage.

    Raises:
        UserError: for an encoder of another kind, or settings that do not fit it.
    """
    hf = encoder.tokenizer.hf
    if not hf.is_fast:
        raise UserError(
            f"{hf.name_or_path or type(hf).__name__}: a table of words needs a tokenizer with tokenizer.json"
        )
    if settings.words and not texts:
        raise UserError("words are counted in a text; give --corpus too")
    added = _frequent_words(encoder, texts, settings)
    tokenizer = bare_tokenizer(_with_words(hf.backend_tokenizer, added), model2vec=True)
    names = _by_id(tokenizer.hf.get_vocab())
    special = {hf.convert_tokens_to_ids(token) for token in hf.all_special_tokens} | {tokenizer.pad_id}
    vectors = _encode_tokens(encoder, names, 1 + max(hf.get_vocab().values()), progress)
    real = np.array([i not in special and name is not None and not _unused(name) for i, name in enumerate(names)])
    mean, directions = _components(vectors[real], settings.dimension)
    rows = np.asarray((vectors - mean) @ directions, dtype=np.float32)
    prompt = encoder.prompts.of(encoder.prompts.single)
    ids = tokenizer.encode([prompt + text for text in texts], encoder.max_length)
    weights = settings.sif / (settings.sif + _shares(ids, len(names), real)) if np.isfinite(settings.sif) else 1.0
    rows = np.where(real[:, None], rows * np.reshape(weights, (-1, 1)), 0.0).astype(np.float32)
    rows = np.asarray(rows / np.sqrt((rows[real] ** 2).sum(axis=1).mean()), dtype=np.float32)
    used, before, after = 0, None, None
    if len(texts) and settings.fit:
        targets = _targets(encoder, texts, prompt, directions, progress)
        used = len(texts)
        rows, before, after = _fitted(rows, ids, targets, real, settings, progress)
    table = SentenceEncoder.from_parts(
        Parts(
            new_table(torch.from_numpy(rows)),
            tokenizer,
            pooling=Pooling.MEAN,
            max_length=512,
            normalize=True,
            prompts=encoder.prompts,
            similarity_fn_name=encoder.similarity_fn_name,
            token_weights=without_unknown(tokenizer, len(rows)),
        )
    )
    return Distilled(table.eval(), len(rows), len(added), used, before, after)


def _frequent_words(encoder: SentenceEncoder, texts: Sequence[str], settings: DistilSettings) -> list[str]:
    """The normalised words of ``texts`` that the tokenizer splits, the most frequent first."""
    if not settings.words:
        return []
    backend = encoder.tokenizer.hf.backend_tokenizer
    counts: Counter[str] = Counter()
    for text in texts:
        plain = backend.normalizer.normalize_str(text) if backend.normalizer is not None else text
        counts.update(word for word in plain.split() if word.isalpha())
    known = encoder.tokenizer.hf.get_vocab()
    often = [word for word, count in counts.most_common() if count >= settings.fewest and word not in known]
    ids = encoder.tokenizer.encode(often, None)
    extra = encoder.tokenizer.special_count
    return [word for word, row in zip(often, ids, strict=True) if len(row) > 1 + extra][: settings.words]


def _with_words(backend: Any, words: Sequence[str]) -> Any:  # noqa: ANN401 - the tokenizers library is untyped
    """``backend`` with whole ``words`` in its vocabulary: WordPiece's own, or added tokens of other kinds."""
    from tokenizers import AddedToken, Tokenizer

    stated = json.loads(backend.to_str())
    model = stated["model"]
    if model.get("type") == "WordPiece":
        start = 1 + max([*model["vocab"].values(), *(token["id"] for token in stated["added_tokens"])])
        model["vocab"] |= {word: start + number for number, word in enumerate(words)}
        return Tokenizer.from_str(json.dumps(stated))
    extended = Tokenizer.from_str(json.dumps(stated))
    extended.add_tokens([AddedToken(word, single_word=True, normalized=True) for word in words])
    return extended


def _by_id(vocabulary: dict[str, int]) -> list[str | None]:
    names: list[str | None] = [None] * (1 + max(vocabulary.values()))
    for name, number in vocabulary.items():
        names[number] = name
    return names


def _unused(name: str) -> bool:
    return name.startswith("[unused") and name.endswith("]")


def _encode_tokens(encoder: SentenceEncoder, names: Sequence[str | None], known: int, progress: Progress) -> Vectors:
    """Encodes every token by itself, between the special tokens: (V, D); added words by their own tokens."""
    before, after = _special_ids_around(encoder)
    words = encoder.tokenizer.encode([name or "" for name in names[known:]], encoder.max_length)
    ids = [np.array([*before, number, *after], dtype=np.int32) for number in range(min(known, len(names)))] + words
    ids = [row if len(row) else np.array([encoder.tokenizer.pad_id], dtype=np.int32) for row in ids]
    vectors = np.zeros((len(ids), encoder.dimension), dtype=np.float32)
    unit, encoder.normalize = encoder.normalize, False
    count, done = Counted(progress, "encoding the vocabulary"), 0
    try:
        with torch.inference_mode():
            for batch in token_batches([len(row) for row in ids], _BUDGET, 512):
                tokens = encoder.tokenizer.pad([ids[i] for i in batch]).to(encoder.device)
                vectors[batch] = encoder.embed(tokens).float().cpu().numpy()
                done += len(batch)
                count(done, len(ids))
    finally:
        encoder.normalize = unit
    require_sound_vectors(encoder, vectors)
    return vectors


def _special_ids_around(encoder: SentenceEncoder) -> tuple[list[int], list[int]]:
    """The special ids that the tokenizer puts before and after a text, without padding."""
    text = encoder.tokenizer.encode_words(["a"], None)[0]
    ids, words = text.ids.tolist(), np.zeros(0) if text.words is None else text.words
    inside = np.flatnonzero(words >= 0)
    return ids[: inside[0]], ids[inside[-1] + 1 :]


def _components(vectors: Vectors, dimension: int | None) -> tuple[Vectors, Vectors]:
    """Mean (D,) and the first principal directions (D, d) of ``vectors`` (n, D)."""
    mean = vectors.mean(axis=0)
    _, directions = np.linalg.eigh(np.cov(vectors, rowvar=False, dtype=np.float64))
    return mean, directions[:, ::-1][:, :dimension].astype(np.float32)


def _shares(ids: Sequence[NDArray[np.int32]], size: int, real: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Share of each token among the running tokens: counted, or without a text by Zipf's law."""
    if len(ids):
        counts = np.bincount(np.concatenate(ids), minlength=size)[:size] * real
        return np.asarray(counts / max(1, counts.sum()))
    ranks = np.cumsum(real) + 1.0
    shares = np.where(real, 1 / ranks, 0)
    return np.asarray(shares / shares.sum())


def _targets(
    encoder: SentenceEncoder, texts: Sequence[str], prompt: str, directions: Vectors, progress: Progress
) -> Vectors:
    """The encoder's vectors of ``texts``, less their mean, in the table's dimensions, as unit vectors."""
    unit, encoder.normalize = encoder.normalize, False
    try:
        vectors = encoder.encode(texts, prompt=prompt, progress=Counted(progress, "encoding the text"))
    finally:
        encoder.normalize = unit
    projected = (vectors - vectors.mean(axis=0)) @ directions
    return unit_rows(projected)


def _fitted(
    rows: Vectors,
    ids: Sequence[NDArray[np.int32]],
    targets: Vectors,
    real: NDArray[np.bool_],
    settings: DistilSettings,
    progress: Progress,
) -> tuple[Vectors, float, float]:
    """Fits ``rows`` to ``targets``: the ridge solution, and the mean cosine before and after."""
    from scipy.sparse import csr_array

    counted = [row[real[row]] for row in ids]
    lengths = np.array([len(row) for row in counted])
    starts = np.concatenate([[0], np.cumsum(lengths)])
    values = np.repeat(1 / np.maximum(lengths, 1), lengths).astype(np.float32)
    seen, columns = np.unique(np.concatenate(counted), return_inverse=True)  # the other rows stay unchanged
    shares = csr_array((values, columns, starts), shape=(len(counted), len(seen)))
    shares.sum_duplicates()
    all_rows, rows = rows, rows[seen]
    means = shares @ rows
    before = _cosine(means, targets)
    scale = float((means * targets).sum() / max(float((means * means).sum()), 1e-12))
    start = rows * scale
    transposed = shares.T.tocsr()
    held = settings.ridge
    change = np.zeros_like(start)
    residual = transposed @ (targets - shares @ start)
    inverse = 1 / (np.asarray(shares.multiply(shares).sum(axis=0)).reshape(-1, 1) + held + 1e-8)  # Jacobi's
    direction = inverse * residual
    energy = (residual * direction).sum(axis=0)
    count = Counted(progress, "fitting the table")
    for step in range(settings.iterations):
        image = transposed @ (shares @ direction) + held * direction
        length = energy / np.maximum((direction * image).sum(axis=0), 1e-20)
        change += (length * direction).astype(np.float32)
        residual = residual - length * image
        moved = inverse * residual
        again = (residual * moved).sum(axis=0)
        direction, energy = moved + again / np.maximum(energy, 1e-20) * direction, again
        count(step + 1, settings.iterations)
    solution = (start + change).astype(np.float32)
    after = _cosine(shares @ solution, targets)
    fitted = all_rows * np.float32(scale)
    fitted[seen] = solution
    return fitted, before, after


def _cosine(a: Vectors, b: Vectors) -> float:
    return float((unit_rows(a) * unit_rows(b)).sum(axis=1).mean())
