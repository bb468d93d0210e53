"""Makes a sentence encoder by counting words, without training: SIF-weighted, whitened word vectors in a BERT.

    u_t = row t of U,   PPMI ~ U S V^T              truncated SVD, singular values dropped (Levy et al. 2015, 3.3)
    w_t = a / (a + p_t)                             p_t share of the running pieces (Arora, Liang & Ma 2017, equation 3)
    s   = mean over a text's pieces of w_t u_t      m, C: mean and covariance of s over texts
    T   = Q diag(lambda^-1/2),  C = Q diag(lambda) Q^T                    whitening (Su et al. 2021, equations 4 to 7)
    e_t = g w_t (u_t - m / w) T,   w = sum_t p_t w_t                      the word vectors; zero for special pieces

The mean of e_t over a text is g (s - (w(text) / w) m) T with w(text) the text's mean of w_t: the whitened text vector,
its length weighing the mean that is taken off. g makes the root mean square of a coordinate, weighted by p_t, 0.06.

What the BERT makes of them is known exactly. Positions, token types, all biases and the matrices that write into the
residual stream (``attention.output.dense``, ``output.dense``) are zero, so a layer adds nothing and only its two
LayerNorms act. These have weight sqrt(eps), bias 0 and a large eps (0.5): x -> (x - mean(x)) / sqrt(1 + var(x) / eps),
so that 1 / var grows by 1 / eps each time. After embeddings and L layers, n = 2L + 1 of them,

    h_t = (e_t - mean(e_t)) / sqrt(1 + n var(e_t) / eps)                  mean and variance over the d coordinates

which is e_t without its part along (1, ..., 1), shortened a little: by n var / 2 eps, which on English with L = 1 is 1
in 100 over running text, 4 for rare pieces, more for a few. Mean pooling over N pieces, [CLS] and [SEP] among them with
h = 0, gives sum_t h_t / N. The other weights are BERT's initialisation, so training finds a whole BERT that starts as
the weighted average.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import nn

from opencse.arrays import Vectors
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.modules.parts import Parts
from opencse.modules.pooling import Pooling
from opencse.progress import SILENT, Count, Counted, Progress, uncounted
from opencse.settings import Settings
from opencse.text.corpus import Corpus
from opencse.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from scipy.sparse import csr_array


_CHUNK = 8_000_000
_ROWS = 256


def count_pieces(corpus: Corpus, real: NDArray[np.bool_], *, chunk: int = _CHUNK) -> NDArray[np.int64]:
    """Counts how often each piece occurs.

    Args:
        corpus: the texts.
        real: (V,) whether a piece counts; special ones ([CLS], [SEP], [UNK]) do not.
        chunk: number of ids that are counted at a time.

    Returns:
        (V,) counts; zero for pieces that are not real.
    """
    counts = np.zeros(len(real), dtype=np.int64)
    for start in range(0, len(corpus.ids), chunk):
        counts += np.bincount(corpus.ids[start : start + chunk], minlength=len(real))
    counts[~real] = 0
    return counts


def count_pairs(
    corpus: Corpus,
    real: NDArray[np.bool_],
    *,
    window: int,
    chunk: int = _CHUNK,
    progress: Count = uncounted,
) -> csr_array:
    """Counts how often two pieces occur near each other in one text; nearer pairs count more.

        C[a, b] = sum over k = 1 .. window of n_k(a, b) / k

    where n_k(a, b) is the number of times that one of a and b occurs k positions after the other; a piece k positions
    after itself counts twice, so that C is D + D^T for the ordered counts D. These are GloVe's counts (Pennington et
    al. 2014, section 4.2). Pieces that are not real are removed first, so that their neighbours become adjacent.

    Memory: the counts, and some 20 bytes for each of ``chunk`` ids.

    Args:
        corpus: the texts; every column of a row is a separate text.
        real: (V,) whether a piece counts; special ones ([CLS], [SEP], [UNK]) do not.
        window: largest distance.
        chunk: number of ids that are counted at a time; a longer text is a chunk by itself.
        progress: called with (ids done, ids in all).

    Returns:
        (V, V) float32, symmetric.
    """
    size = len(real)
    total = _matrix(np.zeros(0, np.float32), np.zeros(0, np.int32), np.zeros(size + 1, np.int32))
    for first, last in _chunks(corpus.offsets, chunk):
        total = total + _count_chunk(*_running(corpus, real, first, last), size, window)
        progress(int(corpus.offsets[last]), len(corpus.ids))
    both: csr_array = (total + total.T).tocsr()
    return both


def _chunks(offsets: NDArray[np.int64], chunk: int) -> Iterator[tuple[int, int]]:
    """Ranges of whole texts with about ``chunk`` ids each, so that no pair lies across a border."""
    borders = np.searchsorted(offsets, np.arange(0, offsets[-1], chunk))
    borders = np.unique([*borders, len(offsets) - 1])
    yield from zip(borders[:-1].tolist(), borders[1:].tolist(), strict=True)


def _running(
    corpus: Corpus, real: NDArray[np.bool_], first: int, last: int
) -> tuple[NDArray[np.integer], NDArray[np.int32]]:
    """The real ids of the texts from ``first`` to before ``last``, and the text that each is in."""
    offsets = corpus.offsets[first : last + 1]
    ids = np.asarray(corpus.ids[offsets[0] : offsets[-1]])
    text = np.repeat(np.arange(last - first, dtype=np.int32), np.diff(offsets))
    keep = real[ids]
    return ids[keep], text[keep]


def _count_chunk(ids: NDArray[np.integer], text: NDArray[np.int32], size: int, window: int) -> csr_array:
    """The upper triangle of the counts (the diagonal once): half the work, and half the memory, of both."""
    # A pair is one number; where it fits, 32 bits are sorted in half the time of 64.
    ids = ids.astype(np.uint32 if size * size <= 2**32 else np.int64)
    total = _matrix(np.zeros(0, np.float32), np.zeros(0, np.int32), np.zeros(size + 1, np.int32))
    for distance in range(1, min(window, len(ids) - 1) + 1):
        same = text[:-distance] == text[distance:]
        first, second = ids[:-distance][same], ids[distance:][same]
        pairs, times = np.unique(np.minimum(first, second) * size + np.maximum(first, second), return_counts=True)
        rows = pairs // size
        columns = (pairs - rows * size).astype(np.int32)
        starts = np.zeros(size + 1, dtype=np.int32)
        np.cumsum(np.bincount(rows, minlength=size), out=starts[1:])
        # A pair counts 1 / distance, as in GloVe.
        total = total + _matrix(times.astype(np.float32) / np.float32(distance), columns, starts)
    return total


def _matrix(data: NDArray[np.float32], columns: NDArray[np.int32], starts: NDArray[np.int32]) -> csr_array:
    from scipy.sparse import csr_array

    size = len(starts) - 1
    return csr_array((data, columns, starts), shape=(size, size))


def ppmi(counts: csr_array, smoothing: float) -> csr_array:
    """Computes positive pointwise mutual information with a smoothed context distribution.

        max(0, log(C[a, b] / (r_a q_b))),   r_a = sum_b C[a, b],   q_b = r_b^s / sum_c r_c^s

    (Levy, Goldberg & Dagan 2015, equations 1 and 2 and section 3.2; s = 0.75 there, no shift.)

    Args:
        counts: (V, V) symmetric; overwritten, because memory holds only one matrix of this size.
        smoothing: s; 1 is plain PPMI.

    Returns:
        (V, V) float32; not symmetric unless s = 1.
    """
    marginal = np.asarray(counts.sum(axis=1), dtype=np.float64)
    log_marginal = np.log(np.maximum(marginal, np.finfo(np.float64).tiny))
    # The power lowers the information of rare contexts (Levy, Goldberg and Dagan 2015, section 3.2).
    log_context = smoothing * log_marginal - np.log((marginal**smoothing).sum() or 1.0)
    data, starts = counts.data, counts.indptr
    # In place: this matrix is the largest thing in memory.
    np.log(data, out=data)
    for row in range(0, len(marginal), _ROWS):
        block = slice(starts[row], starts[min(row + _ROWS, len(marginal))])
        per_row = np.diff(starts[row : row + _ROWS + 1])
        data[block] -= np.repeat(log_marginal[row : row + _ROWS].astype(np.float32), per_row)
        data[block] -= log_context.astype(np.float32)[counts.indices[block]]
    np.maximum(data, 0, out=data)
    counts.eliminate_zeros()
    return counts


_EPS = 0.5
_RMS = 0.06
_SAMPLE = 40_000
_NULL = 1e-5


class StaticSettings(Settings):
    """Settings of an encoder made by counting words.

    Example:
        >>> settings = StaticSettings(dimension=96, layers=1)
        >>> settings.attention_heads, settings.window
        (1, 5)

    Attributes:
        dimension: length of a vector (d).
        window: largest distance of two pieces that count as a pair.
        smoothing: exponent of the context distribution of PPMI.
        sif: a of the SIF weights a / (a + p); inf weighs all pieces equally.
        whiten: whether text vectors are centred and whitened; without it they are plain averages of word vectors.
        layers: of the BERT (L); each does nothing until it is trained. 0: embeddings alone.
        heads: attention heads of a layer; unset takes one for every 64 dimensions.
        inner: width of a layer's feed-forward part.
        positions: longest text in ids, special tokens counted; longer ones are truncated, in counting too.
        dropout: rate of every dropout while the encoder is trained.
        seed: of the SVD, the sample of texts, and the layers' weights.
    """

    dimension: int = Field(default=256, ge=2, le=65_536)
    window: int = Field(default=5, ge=1, le=10_000)
    smoothing: float = Field(default=0.75, gt=0, le=1)
    sif: float = Field(default=1e-3, gt=0, allow_inf_nan=True)
    whiten: bool = True
    layers: int = Field(default=0, ge=0, le=1_000)
    heads: int | None = Field(default=None, ge=1, le=65_536)
    inner: int = Field(default=512, ge=1, le=1_048_576)
    positions: int = Field(default=128, ge=2, le=1_048_576)
    dropout: float = Field(default=0.1, ge=0, lt=1)
    seed: int = Field(default=42, ge=0)

    @property
    def attention_heads(self) -> int:
        """Heads of a layer: as set, else one for every 64 dimensions, or the next smaller divisor of the dimension."""
        return self.heads or _divisor(self.dimension, max(1, self.dimension // 64))


def _divisor(number: int, most: int) -> int:
    return next(n for n in range(most, 0, -1) if number % n == 0)


@dataclass(frozen=True)
class Static:
    """The encoder that was made, and how much it was counted from.

    Attributes:
        encoder: on the CPU, in evaluation mode.
        pieces: entries of the vocabulary that have a vector; the others never occurred near another piece.
        pairs: number of different pairs of pieces that occurred.
    """

    encoder: SentenceEncoder
    pieces: int
    pairs: int


def require_fitting(settings: StaticSettings, tokenizer: Tokenizer) -> None:
    """Refuses settings that do not fit together or to the tokenizer, before any work is done."""
    dimension, heads = settings.dimension, settings.attention_heads
    if dimension > tokenizer.vocabulary_size:
        raise UserError(f"dimension {dimension} is above the {tokenizer.vocabulary_size:,} pieces of the vocabulary")
    if dimension % heads:
        fitting = _divisor(dimension, min(heads, dimension))
        raise UserError(f"heads {heads} does not divide dimension {dimension}; take heads {fitting}")
    special = tokenizer.hf.num_special_tokens_to_add()
    if settings.positions < special + 2:
        raise UserError(f"positions {settings.positions} leaves no room for two pieces and {special} special tokens")


def build(corpus: Corpus, tokenizer: Tokenizer, settings: StaticSettings, progress: Progress = SILENT) -> Static:
    """Makes an encoder from the words of a corpus, by the method described at the top of this module.

    Args:
        corpus: tokenised with ``tokenizer``, at most ``settings.positions`` ids per text; of pairs and triples every
            text is counted by itself.
        tokenizer: of the new encoder.
        settings: sizes and constants.
        progress: is notified of each stage.

    Raises:
        UserError: for settings that do not fit together, or too little text.
    """
    require_fitting(settings, tokenizer)
    dimension, generator = settings.dimension, np.random.default_rng(settings.seed)
    real = np.ones(max(tokenizer.hf.get_vocab().values()) + 1, dtype=np.bool_)
    real[tokenizer.hf.all_special_ids] = False
    times = count_pieces(corpus, real)
    _require(corpus, dimension, "different pieces", int((times > 0).sum()))
    counts = count_pairs(corpus, real, window=settings.window, progress=Counted(progress, "counting pairs"))
    paired, pairs = np.diff(counts.indptr) > 0, (counts.nnz + int((counts.diagonal() > 0).sum())) // 2
    progress.start("factorising", 1)
    vectors, strengths = leading_vectors(ppmi(counts, settings.smoothing), dimension, generator)
    progress.advance(1)
    progress.finish()
    _require(corpus, dimension, "independent word vectors", int((strengths > _NULL * strengths[0]).sum()))
    shares = times / times.sum()
    # a / (a + p) of Arora, Liang and Ma 2017.
    weights = 1 / (1 + shares / settings.sif)
    words = weights[:, None] * vectors
    if settings.whiten:
        sample = np.sort(generator.permutation(len(corpus.offsets) - 1)[:_SAMPLE])
        means = text_means(corpus, sample, words, real)
        _require(corpus, dimension + 1, "texts with words", len(means))
        mean, whitener = whitening(means)
        words = weights[:, None] * (vectors - mean / (shares @ weights)) @ whitener
    # Pieces without a neighbour were not counted, and say nothing.
    words[~paired] = 0
    # Small next to LayerNorm's eps, so that it hardly turns a vector.
    words *= _RMS / np.sqrt(shares @ (words**2).mean(axis=1))
    return Static(_encoder(words, tokenizer, settings), int(paired.sum()), pairs)


def leading_vectors(
    matrix: csr_array, rank: int, generator: np.random.Generator
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Computes the first left singular vectors (V, rank) of a (V, V) matrix and their values (rank,), largest first.

    By random projection (Halko, Martinsson & Tropp 2011); power iterations, because the spectrum of words falls slowly.
    """
    from sklearn.utils.extmath import randomized_svd  # type: ignore[import-untyped]

    vectors, values, _ = randomized_svd(
        matrix,
        rank,
        n_oversamples=32,
        n_iter=3,
        power_iteration_normalizer="QR",
        flip_sign=False,
        random_state=int(generator.integers(2**32)),
    )
    return vectors, values


def _require(corpus: Corpus, needed: int, units: str, number: int) -> None:
    if number < needed:
        raise UserError(
            f"{corpus.facts.source}: too little text ({number:,} {units}, where at least {needed:,} are needed); "
            "give more text or a smaller dimension"
        )


def text_means(corpus: Corpus, rows: NDArray[np.int64], table: Vectors, real: NDArray[np.bool_]) -> Vectors:
    """Averages the rows of ``table`` over the real pieces of each text in ``rows``; texts without any are left out.

    Returns:
        (texts, d).
    """
    from scipy.sparse import csr_array

    ids = [np.asarray(corpus.ids[corpus.offsets[row] : corpus.offsets[row + 1]]) for row in rows]
    texts = [text for text in (text[real[text]] for text in ids) if len(text)]
    lengths = np.array([len(text) for text in texts])
    shares = np.repeat(1 / lengths, lengths)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    averaging = csr_array((shares, np.concatenate(texts), starts), shape=(len(texts), len(table)))
    return np.asarray(averaging @ table)


def whitening(vectors: Vectors) -> tuple[Vectors, Vectors]:
    """Computes the mean m and the (d, d) matrix T such that (vectors - m) T has the identity as its covariance.

    Directions with less than 1/10,000 of the largest variance are scaled as if they had that much.
    """
    values, directions = np.linalg.eigh(np.cov(vectors, rowvar=False, dtype=np.float64))
    return vectors.mean(axis=0), directions / np.sqrt(np.maximum(values, 1e-4 * values[-1]))


def _encoder(words: Vectors, tokenizer: Tokenizer, settings: StaticSettings) -> SentenceEncoder:
    from transformers import BertConfig, BertModel
    from transformers.models.bert.modeling_bert import BertOutput, BertSelfOutput

    config = BertConfig(
        vocab_size=len(words),
        hidden_size=settings.dimension,
        num_hidden_layers=settings.layers,
        num_attention_heads=settings.attention_heads,
        intermediate_size=settings.inner,
        max_position_embeddings=settings.positions,
        layer_norm_eps=_EPS,
        hidden_dropout_prob=settings.dropout,
        attention_probs_dropout_prob=settings.dropout,
        pad_token_id=tokenizer.pad_id,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        bert = BertModel(config, add_pooling_layer=False)
    with torch.no_grad():
        bert.embeddings.word_embeddings.weight.copy_(torch.from_numpy(words))
        # A bag of words: neither place nor type counts.
        bert.embeddings.position_embeddings.weight.zero_()
        bert.embeddings.token_type_embeddings.weight.zero_()
        for module in bert.modules():
            if isinstance(module, nn.LayerNorm):
                # LayerNorm divides by nearly sqrt(eps); its scale undoes that.
                module.weight.fill_(_EPS**0.5)
            # Layers, if any, add nothing before they are trained.
            elif isinstance(module, BertSelfOutput | BertOutput):
                module.dense.weight.zero_()
    copied = copy.deepcopy(tokenizer.hf)
    copied.model_max_length = min(copied.model_max_length, settings.positions)
    return SentenceEncoder.from_parts(
        Parts(bert, Tokenizer(copied), pooling=Pooling.MEAN, max_length=settings.positions)
    ).eval()
