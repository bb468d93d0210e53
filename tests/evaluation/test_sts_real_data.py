import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.spatial.distance import cosine
from scipy.stats import pearsonr, spearmanr

from opencse.evaluation import TASKS, EmbeddingModel, Sts, load_sts

DATA = Path(__file__).parents[2].parent / "shared" / "data" / "sts"
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not DATA.is_dir(), reason="the STS data is not here")]
WIDTH = 256
# A weight for each bucket, so that cosines tie only where the sentences do, and rounding decides no rank.
WEIGHTS = np.sqrt(np.arange(1, WIDTH + 1, dtype=np.float32))


def bag_of_words(texts: Sequence[str]) -> NDArray[np.float32]:
    vectors = np.zeros((len(texts), WIDTH), dtype=np.float32)
    for row, text in enumerate(texts):
        for word in text.split():
            vectors[row, int.from_bytes(hashlib.md5(word.encode()).digest()[:4], "big") % WIDTH] += 1
    return vectors * WEIGHTS


def independent(key: str, subset: str) -> list[tuple[float, float]]:
    """(cosine, gold) of each pair by scipy's distance; rounded, for equal pairs to tie there too."""
    pairs = []
    for line in (DATA / key / f"{subset}.tsv").read_text(encoding="utf-8").splitlines():
        gold, first, second = line.split("\t")
        u, v = bag_of_words([first, second]).astype(np.float64)
        pairs.append((round(1 - float(cosine(u, v)), 12), float(gold)))
    return pairs


def test_real_data_scores_equal_an_independent_computation() -> None:
    lines: list[str] = []
    result = Sts().evaluate(EmbeddingModel("words", bag_of_words), load_sts(DATA), lines.append).record
    assert result.data.text == "prepared"
    for key, task in TASKS.items():
        score = result.sts.tasks[key]
        assert score.complete
        assert score.n == task.pairs
        parts = [np.array(independent(key, subset)).T for subset in task.subsets]
        whole = np.concatenate(parts, axis=1)
        assert score.spearman.all == pytest.approx(100 * spearmanr(*whole).statistic, abs=1e-6)
        assert score.pearson.all == pytest.approx(100 * pearsonr(*whole).statistic, abs=1e-6)
        each = [100 * spearmanr(*part).statistic for part in parts]
        assert score.spearman.mean == pytest.approx(np.mean(each), abs=1e-6)
        assert score.spearman.wmean == pytest.approx(
            np.average(each, weights=[part.shape[1] for part in parts]), abs=1e-6
        )
        assert score.spearman.all > 20
    assert result.sts.average == pytest.approx(np.mean([score.spearman.all for score in result.sts.tasks.values()]))


def test_raw_folder_is_recognised() -> None:
    raw, prepared = load_sts(DATA / "raw"), load_sts(DATA)
    assert raw.text == "raw"
    assert all(pairs.complete for pairs in raw.tasks.values())
    assert [pairs.sha256() for pairs in raw.tasks.values()] != [pairs.sha256() for pairs in prepared.tasks.values()]
