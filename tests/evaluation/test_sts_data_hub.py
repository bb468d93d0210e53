import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import datasets
import numpy as np
import pytest
from numpy.typing import NDArray

from opencse.errors import UserError
from opencse.evaluation import TASKS, EmbeddingModel, Sts, load_sts, load_sts_hub


def encode(texts: Sequence[str]) -> NDArray[np.float64]:
    return np.array([[len(text), text.count("a"), 1.0] for text in texts])


def rows(n: int) -> list[dict[str, object]]:
    return [
        {"split": "x", "sentence1": f"A {'a' * i}", "sentence2": "b" * (i + 1), "score": float(i % 5)} for i in range(n)
    ]


@pytest.fixture
def space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A local stand-in for the Hub's space: seven data sets, jsonl or parquet, a train split beside."""
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    root = tmp_path / "space"
    for number, task in enumerate(TASKS.values()):
        folder = root / task.hub
        folder.mkdir(parents=True)
        table = datasets.Dataset.from_list(rows(10 + number))
        if number % 2:
            table.to_parquet(folder / "test.parquet")
            table.select(range(3)).to_parquet(folder / "train.parquet")
        else:
            table.to_json(folder / "test.jsonl")
            table.select(range(3)).to_json(folder / "train.jsonl")
    return root


def test_hub_gives_raw_text_and_no_subsets(space: Path) -> None:
    data = load_sts_hub(root=space)
    assert data.text == "raw"
    assert str(space) in data.source
    assert [pairs.n for pairs in data.tasks.values()] == list(range(10, 17))
    result = Sts().evaluate(EmbeddingModel("m", encode), data).record
    for key, score in result.sts.tasks.items():
        assert not score.complete
        if key in ("stsb", "sickr"):
            assert score.spearman.all == score.spearman.mean == score.spearman.wmean
            assert list(score.subsets) == ["test"]
        else:
            assert (score.spearman.mean, score.spearman.wmean, score.pearson.mean, score.subsets) == (
                None,
                None,
                None,
                {},
            )
    assert result.sts.average is not None
    assert result.sts.mean_over_tasks("spearman", "mean") is None


def test_hub_and_folder_have_one_hash_for_one_content(space: Path, tmp_path: Path) -> None:
    hub = load_sts_hub(["stsb"], root=space).tasks["stsb"]
    (tmp_path / "stsb").mkdir()
    lines = [f"{row['score']:g}\t{row['sentence1']}\t{row['sentence2']}\n" for row in rows(hub.n)]
    (tmp_path / "stsb" / "test.tsv").write_text("".join(lines), encoding="utf-8")
    assert load_sts(tmp_path, ["stsb"]).tasks["stsb"].sha256() == hub.sha256()


def test_faulty_rows_and_columns_are_told(space: Path) -> None:
    path = space / "sts12-sts" / "test.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines()
    bad = json.loads(lines[3]) | {"sentence2": "  "}
    path.write_text("\n".join([*lines[:3], json.dumps(bad), *lines[4:]]) + "\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"sts12-sts, row 4: sentence2 is empty"):
        load_sts_hub(["sts12"], root=space)
    path = space / "sts14-sts" / "test.jsonl"
    path.write_text(path.read_text(encoding="utf-8").replace('"score"', '"label"'), encoding="utf-8")
    (space / "sts14-sts" / "train.jsonl").unlink()
    with pytest.raises(UserError, match=r"sts14-sts: no column 'score'; columns there: split, sentence1"):
        load_sts_hub(["sts14"], root=space)


def test_data_set_that_cannot_be_loaded_is_told_in_one_line(space: Path) -> None:
    (space / "stsbenchmark-sts" / "test.parquet").unlink()
    with pytest.raises(
        UserError, match="stsbenchmark-sts: neither a file nor a data set that could be loaded, split 'test'"
    ) as caught:
        load_sts_hub(["stsb"], root=space)
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_importing_the_room_imports_nothing_heavy() -> None:
    heavy = ("torch", "transformers", "datasets", "scipy", "rich", "pyarrow")
    code = f"import sys, opencse.evaluation; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
