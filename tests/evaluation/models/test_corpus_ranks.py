"""The similarity of texts and of their rankings of a corpus: against scipy's correlation, pair by pair."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

import opencse
from opencse.errors import UserError
from opencse.evaluation.embedding import EmbeddingModel
from opencse.evaluation.models import corpus_ranks
from opencse.evaluation.models.corpus_ranks import CorpusRanks
from opencse.evaluation.transforms import postprocessed

RANDOM = np.random.default_rng(0)
CORPUS, TEXTS = RANDOM.normal(size=(30, 6)), RANDOM.normal(size=(7, 6))


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_the_cosine_of_two_vectors_is_the_mixed_similarity(share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = np.concatenate([CORPUS, CORPUS[:4]])  # equal texts share a rank
    mapped = CorpusRanks.fit(corpus, share).apply(TEXTS)
    similarities = [[cosine(text, other) for other in corpus] for text in TEXTS]
    for i, j in itertools.combinations(range(len(TEXTS)), 2):
        rounded = np.round(similarities, 9)
        expected = share * cosine(TEXTS[i], TEXTS[j]) + (1 - share) * spearmanr(rounded[i], rounded[j]).statistic
        assert cosine(mapped[i], mapped[j]) == pytest.approx(expected, abs=2e-6)
    without_ties = CorpusRanks.fit(CORPUS, share)
    at_once = without_ties.apply(TEXTS)
    monkeypatch.setattr(corpus_ranks, "_BLOCK_BYTES", 1)
    assert without_ties.apply(TEXTS) == pytest.approx(at_once, abs=1e-6), "text by text"


def test_texts_without_a_direction_or_an_order() -> None:
    ranks = CorpusRanks.fit(np.repeat(CORPUS[:1], 5, axis=0), 0.5)
    mapped = ranks.apply(np.array([CORPUS[0], np.zeros(6)]))
    assert np.isfinite(mapped).all()
    assert mapped[0] @ mapped[0] == pytest.approx(0.5), "all texts of the corpus are equally near"
    assert not mapped[1].any()


def test_refusals() -> None:
    with pytest.raises(UserError, match=r"from 0 to 1, not 1\.5"):
        CorpusRanks.fit(CORPUS, 1.5)
    with pytest.raises(UserError, match="ranks need at least 2 finite vectors of a corpus, not 1"):
        CorpusRanks.fit(CORPUS[:1])


def test_any_model_is_evaluated_with_it(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("\n".join(f"{n} lamps and {n * n % 7} trains" for n in range(20)))

    def encode(texts: list[str]) -> np.ndarray:
        return np.array([[len(text), text.count("a"), text.count("e") + 1] for text in texts], dtype=np.float32)

    model = EmbeddingModel("letters", encode)  # type: ignore[arg-type]
    ranked = postprocessed(model, "ranks", corpus, cosine_share=0.25)
    texts = ["a lamp", "seven trains"]
    wanted = CorpusRanks.fit(encode(corpus.read_text().splitlines()), 0.25).apply(encode(texts))
    assert np.asarray(ranked.encode(texts)) == pytest.approx(wanted, abs=1e-6)
    with pytest.raises(UserError, match="ranks needs a corpus: --fit FILE"):
        postprocessed(model, "ranks", "target")
    with pytest.raises(UserError, match="the share of the cosine is for the transform ranks, not flow"):
        postprocessed(model, "flow", corpus, cosine_share=0.5)
    for transform in (None, "whitening"):  # fitted on the target too
        with pytest.raises(UserError, match=r"--cosine-share 0\.5 needs --transform ranks"):
            opencse.evaluate("bag-of-words", tmp_path, transform=transform, cosine_share=0.5)
    with pytest.raises(UserError, match="ranks needs a corpus: --fit FILE"):
        opencse.evaluate("bag-of-words", tmp_path, transform="ranks")
