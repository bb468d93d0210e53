"""From records to findings: means, paired differences, the family, pairs, grids, tables and the picture."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from opencse.environment import Environment
from opencse.errors import UserError
from opencse.evaluation import spearman
from opencse.evaluation.record import DataRecord
from opencse.runs.record import Outcome
from opencse.statistics import holm, paired_seeds
from opencse.studies.comparison import compare
from opencse.studies.study import StudyRecord, find_baseline, parse_grid, variants
from opencse.studies.tables import columns, comparison_table, expected_table, grid_figure, headlines, markdown

SCORES = {
    "simcse": {1: 60.0, 2: 61.0, 3: 59.5, 4: 60.5, 5: 60.2},
    "esimcse": {1: 61.1, 2: 62.2, 3: 60.4, 4: 61.4, 5: 61.5},
    "sscl": {1: 60.3, 2: 60.8, 3: 59.4, 4: 60.9, 5: 60.0},
}


def record(
    recipe: str | None,
    seed: int | None,
    results: Mapping[str, float],
    start: str = "a",
    reading: str = "untrained, cls",
    kept: str = "best",
) -> StudyRecord:
    return StudyRecord(
        recipe=recipe,
        start=start,
        reading=reading,
        outcome=None if recipe is None else Outcome(kept=kept, verdict="", scores={}, steps=1),
        seed=seed,
        asked={},
        judged="kept",
        environment=Environment.here("cpu"),
        train_seconds=None if recipe is None else 1800.0,
        judge_seconds=2.0,
        results=dict(results),
        data={"sts": DataRecord(source="data", text="prepared", sha256={})},
    )


@pytest.fixture
def records() -> list[StudyRecord]:
    start = record(None, None, {"sts.average": 55.0, "sts.stsb": 50.0})
    runs = [
        record(recipe, seed, {"sts.average": score, "sts.stsb": score + 10, "transfer.average": 80 + score / 10})
        for recipe, scores in SCORES.items()
        for seed, score in scores.items()
    ]
    return [start, *runs]


def test_rows_are_means_and_paired_differences(records: list[StudyRecord]) -> None:
    found = compare(records, "simcse")
    assert found.metric == "sts.average"
    assert [row.recipe for row in found.rows] == ["simcse", "esimcse", "sscl"]
    for row in found.rows:
        values = list(SCORES[row.recipe].values())
        assert row.metrics["sts.average"].mean == pytest.approx(np.mean(values))
        assert row.metrics["sts.average"].sd == pytest.approx(np.std(values, ddof=1))
        assert row.scores == SCORES[row.recipe]
    base, better, same = found.rows
    assert base.against_baseline is None
    assert base.verdict == ""
    raw = {name: paired_seeds(SCORES[name], SCORES["simcse"]).p for name in ("esimcse", "sscl")}
    adjusted = holm(raw)
    for row in (better, same):
        assert row.against_baseline is not None
        assert row.against_baseline.holm is not None
        assert row.against_baseline.holm.p == pytest.approx(adjusted[row.recipe])
        assert row.against_baseline.holm.comparisons == 2
    assert better.verdict.endswith("better")
    assert same.verdict.endswith("no difference shown")
    assert [(own.start, own.reading, own.results) for own in found.starts] == [
        ("a", "untrained, cls", {"sts.average": 55.0, "sts.stsb": 50.0})
    ]


def test_every_recipe_stands_beside_its_start(records: list[StudyRecord]) -> None:
    found = compare(records, "simcse")
    alone = {name: stats.ttest_1samp(list(scores.values()), 55.0) for name, scores in SCORES.items()}
    adjusted = holm({name: float(test.pvalue) for name, test in alone.items()})
    for row in found.rows:
        assert row.against_start is not None
        assert row.against_start.difference == pytest.approx(np.mean(list(SCORES[row.recipe].values())) - 55.0)
        assert row.against_start.interval == pytest.approx(
            [bound - 55.0 for bound in alone[row.recipe].confidence_interval(0.95)]
        )
        assert row.against_start.holm is not None
        assert row.against_start.holm.p == pytest.approx(adjusted[row.recipe])
    other = compare(records, "simcse", metric="transfer.average")
    assert [row.against_start for row in other.rows] == [None] * 3, "the start has no such score"
    assert [cells[5] for cells in headlines(other, "difference").rows[1:]] == ["-"] * 3


def test_metric_and_baseline_are_checked(records: list[StudyRecord]) -> None:
    assert compare(records, "simcse", metric="transfer.average").metric == "transfer.average"
    with pytest.raises(UserError, match=r"not every run has the score 'sts.stsbb' .did you mean 'sts.stsb'"):
        compare(records, "simcse", metric="sts.stsbb")
    with pytest.raises(UserError, match=r"the baseline 'simsce' is not among the recipes .did you mean 'simcse'"):
        compare(records, "simsce")
    without = [r.model_copy(update={"results": {"transfer.mr": 1.0, "transfer.average": 2.0}}) for r in records]
    assert compare(without, "simcse").metric == "transfer.average"


def test_over_pairs_agrees_with_the_pairs(records: list[StudyRecord]) -> None:
    rng = np.random.default_rng(0)
    gold = {"stsb": rng.integers(0, 26, 400) / 5.0, "sickr": rng.uniform(0, 5, 300)}

    def arrays(recipe: str, start: str, seed: int) -> dict[str, NDArray[np.float64]]:
        noise = {"simcse": 2.0, "esimcse": 0.5, "sscl": 2.0}[recipe]
        mixed = np.random.default_rng([seed, len(recipe)])
        found = {f"{task}.gold": values for task, values in gold.items()}
        return found | {f"{task}.cosine": v + noise * mixed.standard_normal(len(v)) for task, v in gold.items()}

    found = compare(records, "simcse", arrays=arrays, resamples=200)
    base, better, same = found.rows
    assert not base.over_pairs
    assert set(better.over_pairs) == {1, 2, 3, 4, 5}
    for seed, pairs in better.over_pairs.items():
        ours, theirs = arrays("esimcse", "a", seed), arrays("simcse", "a", seed)
        gap = [100 * (spearman(ours[f"{t}.cosine"], gold[t]) - spearman(theirs[f"{t}.cosine"], gold[t])) for t in gold]
        assert pairs.bootstrap.difference == pytest.approx(np.mean(gap))
        assert pairs.bootstrap.tasks["stsb"].difference == pytest.approx(gap[0])
        assert pairs.bootstrap.interval is not None
        assert pairs.bootstrap.interval[0] > 0
    text = markdown(found, records, "opencse compare")
    assert "| a | esimcse | 5 | 0 | 0 |" in text
    assert "200 bootstrap samples" in text
    assert len(same.over_pairs) == 5


def test_tables(records: list[StudyRecord]) -> None:
    found = compare(records, "simcse")
    assert columns(found) == ["sts.average", "transfer.average"]
    cells = headlines(found, "difference").rows
    assert cells[0] == ["a", "(untrained, cls)", "", "55.00", "-", "", ""]
    assert cells[1][5] == "+5.24 ± 0.69 (p < .001)"
    assert cells[1][:4] == ["a", "simcse", "5", "60.24 ± 0.56"]
    assert cells[1][-1] == "baseline"
    assert cells[2][-1].startswith("+1.08 (95% interval ")
    assert comparison_table(found).row_count == 4
    text = markdown(found, records, "opencse compare text.txt")
    assert "    opencse compare text.txt\n" in text
    assert "15 runs, 7.50 h of training" in text
    assert "| a | sscl | 70.28 ± 0.61 |" in text, "task by task"
    assert expected_table({"sts.average": 61.0, "sts.sts12": 1.0}, found.rows[0].metrics).row_count == 2


def test_a_recipe_stands_beside_the_start_as_its_training_begins(records: list[StudyRecord]) -> None:
    """A [CLS] run is no loss beside a mean-pooled start that it never was."""
    given = record(None, None, {"sts.average": 70.0, "sts.stsb": 70.0}, reading="as given, mean")
    found = compare([given, *records], "simcse")
    assert found.rows[0].against_start is not None
    assert found.rows[0].against_start.difference == pytest.approx(60.24 - 55.0)
    cells = headlines(found, "difference").rows
    assert [row[1] for row in cells[:3]] == ["(as given, mean)", "(untrained, cls)", "simcse"]


def test_starts_that_were_kept_are_counted_and_said() -> None:
    start = record(None, None, {"sts.average": 47.0})
    runs = [
        record(recipe, seed, {"sts.average": 47.0 + (recipe == "esimcse" and seed == 1)}, kept=kept)
        for recipe, kept in (("simcse", "start"), ("esimcse", "given"))
        for seed in (1, 2)
    ]
    found = compare([start, *runs], "simcse")
    assert [row.starts_kept for row in found.rows] == [2, 2]
    text = markdown(found, [start, *runs], "x")
    assert "| start kept in 2 of 2 | baseline |" in text
    assert "The start was kept in 4 of 4 runs. These scores say nothing about the recipes" in text
    last = [r.model_copy(update={"judged": "last"}) for r in [start, *runs]]
    assert [row.starts_kept for row in compare(last, "simcse").rows] == [0, 0], "the last encoder is none of them"


def test_data_order_and_dropout_are_separated() -> None:
    table = {(1, 8): 60.0, (1, 9): 61.0, (2, 8): 64.0, (2, 9): 65.5, (3, 8): 62.0, (3, 9): 63.0}
    better = {"simcse": 0.0, "dcl-post": 1.5}
    records = [
        record(recipe, number, {"sts.average": score + gain + (0.1 * number if gain else 0)}).model_copy(
            update={"data_seed": pair[0], "dropout_seed": pair[1]}
        )
        for recipe, gain in better.items()
        for number, (pair, score) in enumerate(table.items(), start=1)
    ]
    base, other = compare(records, "simcse").rows
    assert base.two_way is not None
    assert base.two_way.scores == [[60.0, 61.0], [64.0, 65.5], [62.0, 63.0]]
    assert base.scores == dict(enumerate(table.values(), start=1))
    assert other.against_baseline is not None
    assert other.against_baseline.seeds == (1, 2, 3), "means over dropout, paired by data order"
    assert other.against_baseline.difference == pytest.approx(1.5 + 0.35)
    text = markdown(compare(records, "simcse"), records, "c")
    assert "## Data order and dropout" in text
    assert "Seeds of the data order 1, 2, 3; of dropout 8, 9" in text
    assert f"| {base.two_way.variance_of_data:.3f} | {base.two_way.variance_of_dropout:.3f} |" in text


def test_values_are_split_outside_brackets_and_quotes() -> None:
    grid = parse_grid(["a.b=1, 2", 'c="x,y",z', "d={ kind = 'k', n = 1 },[1,[2,3]]"])
    assert grid == {"a.b": ["1", "2"], "c": ['"x,y"', "z"], "d": ["{ kind = 'k', n = 1 }", "[1,[2,3]]"]}


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        (["training.batch_size"], r"--grid training\.batch_size: key\.path=value,value is expected"),
        (["training.batch_siz=64,128"], r"--grid training\.batch_siz=64: .*did you mean '(training\.)?batch_size'"),
        (["training.seed=1,2"], "training.seed is set by the comparison; choose its seeds with --seeds"),
    ],
)
def test_mistakes_are_refused(grid: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        variants(["simcse"], grid, ["training.epochs=3"])


def test_the_rows_are_all_combinations_in_order() -> None:
    grid = ["training.batch_size=64,128", "training.learning_rate=1e-5,3e-5"]
    crossed = variants(["simcse", "dcl-post:bert-base"], grid)
    assert list(crossed)[:3] == [
        "simcse (batch_size=64, learning_rate=1e-5)",
        "simcse (batch_size=64, learning_rate=3e-5)",
        "simcse (batch_size=128, learning_rate=1e-5)",
    ]
    assert len(crossed) == 8
    last = crossed["dcl-post:bert-base (batch_size=128, learning_rate=3e-5)"]
    assert (last.recipe, last.settings) == (
        "dcl-post:bert-base",
        ("training.batch_size=128", "training.learning_rate=3e-5"),
    )


@pytest.mark.drawn
def test_a_grid_of_two_settings_is_a_field_for_each_pair() -> None:
    crossed = variants(["simcse"], ["training.batch_size=64,128", "training.learning_rate=1e-5,2e-5,3e-5"])
    runs = [record(name, 1, {"sts.average": 60.0 + number}) for number, name in enumerate(crossed)]
    picture = grid_figure(compare(runs, next(iter(crossed)), variants=crossed))
    assert re.findall(r">(6\d\.\d\d)<", str(picture)) == ["60.00", "63.00", "61.00", "64.00", "62.00", "65.00"]


def test_a_grid_varies_a_part_that_the_settings_bring() -> None:
    settings = ['objective.negatives=[{kind = "in_batch"}, {kind = "momentum_queue"}]']
    crossed = variants(["simcse"], ["objective.negatives.momentum_queue.size=64,128"], settings)
    assert list(crossed) == ["simcse (size=64)", "simcse (size=128)"]
    with pytest.raises(
        UserError, match=r"--grid objective\.negatives\.momentum_queue\.size=64: 'momentum_queue' is not"
    ):
        variants(["simcse"], ["objective.negatives.momentum_queue.size=64,128"])


def test_a_recipe_is_named_once_and_the_baseline_found() -> None:
    with pytest.raises(UserError, match="the recipe 'simcse' is named twice"):
        variants(["simcse", "simcse"], [])
    crossed = variants(["simcse", "dcl-post"], ["training.batch_size=64,128"])
    assert find_baseline(None, crossed) == "simcse (batch_size=64)"
    assert find_baseline("dcl-post", crossed) == "dcl-post (batch_size=64)"
    assert find_baseline("dcl-post (batch_size=128)", crossed) == "dcl-post (batch_size=128)"
    assert find_baseline("other", crossed) is None
