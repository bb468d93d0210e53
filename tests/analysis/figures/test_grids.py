"""A grid of one setting is a curve, of two a heat map with its numbers."""

from __future__ import annotations

from opencse.analysis.figures import heat_maps, value_curves


def test_a_curve_has_its_values_and_every_series() -> None:
    scores = {"simcse": [[60.0, 61.0], [62.0, 63.0]], "dcl": [[59.0], [60.5]]}
    picture = value_curves(["64", "128"], scores, "training.batch_size", "sts.average")
    for text in ("sts.average by training.batch_size", "64", "128", "simcse", "dcl"):
        assert f">{text}</text>" in picture
    assert value_curves(["64", "128"], scores, "training.batch_size", "sts.average") == picture
    assert value_curves(["64", "128"], {**scores, "dcl": [[59.0], [70.5]]}, "training.batch_size", "x") != picture


def test_a_heat_map_writes_each_mean_in_its_field() -> None:
    means = {"simcse": [[60.0, 61.25], [62.5, 63.0], [64.0, 65.0]], "dcl": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.5]]}
    picture = heat_maps(("rate", ["1e-5", "3e-5"]), ("batch", ["64", "128", "256"]), means, "sts.average")
    for text in ("60.00", "61.25", "65.00", "6.50", "1e-5", "256", "rate", "batch", "sts.average, dcl"):
        assert f">{text}</text>" in picture
