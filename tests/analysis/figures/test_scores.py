"""Charts of scores: models by task, and runs by recipe."""

from __future__ import annotations

from opencse.analysis.figures import before_after, scores_by_recipe


def test_a_task_that_one_model_lacks_is_drawn_for_the_other() -> None:
    svg = before_after({"old": {"STS12": 50.0, "STS13": 40.0}, "new": {"STS12": 60.0}})
    assert ">STS13<" in svg
    assert ">old<" in svg
    assert ">new<" in svg


def test_each_start_has_a_panel_with_all_recipes() -> None:
    panels = {"s": ({"x": [1.0, 2.0], "y": [3.0]}, {"mean": 0.5}), "t": ({"x": [2.0], "y": [1.0, 1.5]}, {})}
    svg = scores_by_recipe(panels, "sts", "x")
    assert "from s" in svg
    assert "from t" in svg
    assert ">start mean<" in svg
