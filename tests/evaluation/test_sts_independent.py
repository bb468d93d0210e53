"""STS scores against another library's vectors and another library's correlation, on real data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr
from sentence_transformers import SentenceTransformer

from opencse import SentenceEncoder, evaluate
from opencse.evaluation import TASKS

pytestmark = pytest.mark.slow

KEYS = ("sts13", "stsb")  # one of several files, one of a single file
PAIRS = 100  # of each file


def test_scores_equal_scipy_on_sentence_transformers_vectors(shared_data: Path, tmp_path: Path) -> None:
    """To 1e-4 (of x 100), from one saved folder opened by both libraries.

    With a pretrained BERT: random weights give many near ties, whose order is rounding alone.
    """
    start = shared_data.parent / "models" / "wikibert-mini"
    if not start.is_dir():
        pytest.skip("the shared model is not beside this checkout")
    SentenceEncoder.load(start, pooling="first_last_1", device="cpu").save(tmp_path / "model")
    other = SentenceTransformer(str(tmp_path / "model"), device="cpu")
    expected = {}
    for key in KEYS:
        gold: list[float] = []
        cosines: list[float] = []
        for subset in TASKS[key].subsets:
            text = (shared_data / "sts" / key / f"{subset}.tsv").read_text(encoding="utf-8")
            lines = text.splitlines()[:PAIRS]
            (tmp_path / "sts" / key).mkdir(parents=True, exist_ok=True)
            (tmp_path / "sts" / key / f"{subset}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
            scores, first, second = zip(*(line.split("\t") for line in lines), strict=True)
            u, v = (other.encode(list(side), batch_size=100).astype(np.float64) for side in (first, second))
            for score, one, two, a, b in zip(scores, first, second, u, v, strict=True):
                gold.append(float(score))
                cosines.append(1.0 if one == two else float(a @ b / np.linalg.norm(a) / np.linalg.norm(b)))
        expected[key] = 100 * float(spearmanr(gold, cosines).statistic)
    result = evaluate(tmp_path / "model", tmp_path / "sts", tasks=KEYS, device="cpu")
    found = {key: score.spearman.all for key, score in result.sts.tasks.items()}
    assert found == pytest.approx(expected, abs=1e-4)
    assert len(set(expected.values())) == len(KEYS)
