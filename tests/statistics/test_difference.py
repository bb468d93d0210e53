import pytest
from hypothesis import given
from hypothesis import strategies as st

from opencse.statistics import (
    AfterHolm,
    Difference,
    PairedBootstrap,
    PairedBootstrapTasks,
    after_holm,
    brief,
    holm,
    paired_seeds,
    verdict,
    williams,
)


class Plain(Difference):
    def over(self) -> str:
        return "something"


def plain(p: float | None, difference: float = 1.0) -> Plain:
    return Plain(difference=difference, interval=None, p=p)


def naive_holm(p_values: list[float]) -> list[float]:
    """The least level at which the step-down procedure rejects each, by its definition."""
    m = len(p_values)
    order = sorted(range(m), key=lambda i: p_values[i])

    def rejected(level: float) -> set[int]:
        out: set[int] = set()
        for position, i in enumerate(order):
            if p_values[i] * (m - position) > level:
                break
            out.add(i)
        return out

    levels = sorted({1.0, *(p_values[i] * (m - position) for position, i in enumerate(order))})
    return [next((level for level in levels if i in rejected(level)), 1.0) for i in range(m)]


def test_holm_by_hand() -> None:
    assert holm({"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.005}) == pytest.approx(
        {"a": 0.03, "b": 0.06, "c": 0.06, "d": 0.02}
    )
    # The example of pingouin's documentation, and that of stdlib's padjust.
    assert list(holm(dict(zip("abcde", [0.5, 0.003, 0.32, 0.054, 0.0003], strict=True))).values()) == pytest.approx(
        [0.64, 0.012, 0.64, 0.162, 0.0015]
    )
    assert list(holm(dict(zip("abcde", [0.319, 0.201, 0.4, 0.374, 0.113], strict=True))).values()) == pytest.approx(
        [0.957, 0.804, 0.957, 0.957, 0.565]
    )


def test_holm_leaves_out_none_and_its_place_in_the_family() -> None:
    assert holm({"a": None, "b": 0.02, "c": None, "d": 0.04}) == pytest.approx({"b": 0.04, "d": 0.04})
    assert holm({"a": None}) == {}
    assert holm({"only": 0.03}) == {"only": 0.03}
    assert list(holm({"z": 0.2, "y": 0.9, "x": 0.1})) == ["z", "y", "x"]


@pytest.mark.slow
@given(st.lists(st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.01, 0.05, 1.0])), min_size=1, max_size=8))
def test_holm_is_the_least_level_of_rejection(p_values: list[float]) -> None:
    found = list(holm({str(i): p for i, p in enumerate(p_values)}).values())
    assert found == pytest.approx([min(1.0, p) for p in naive_holm(p_values)])
    for one, adjusted in zip(p_values, found, strict=True):
        assert one <= adjusted <= 1
        assert all((one < other) <= (adjusted <= b) for other, b in zip(p_values, found, strict=True))


@pytest.mark.parametrize("p", [-0.1, 1.1, float("nan")])
def test_holm_refuses_what_is_no_p(p: float) -> None:
    with pytest.raises(ValueError, match="b: p is"):
        holm({"a": 0.5, "b": p})


def test_after_holm_keeps_the_comparisons_and_adds_the_adjusted_p() -> None:
    family = {"one": plain(0.01), "none": plain(None), "two": plain(0.04)}
    found = after_holm(family)
    assert list(found) == ["one", "none", "two"]
    assert found["none"] == family["none"]
    assert found["one"].p == 0.01
    assert found["one"].holm == AfterHolm(p=0.02, comparisons=2)
    assert found["two"].holm == AfterHolm(p=0.04, comparisons=2)
    assert family["one"].holm is None
    assert after_holm({}) == {}


def test_verdict_of_a_system_that_is_better() -> None:
    scores = {1: 76.2, 2: 76.9, 3: 77.4, 4: 75.9, 5: 76.4}
    base = {1: 74.8, 2: 75.3, 3: 75.2, 4: 75.1, 5: 75.0}
    better, worse = paired_seeds(scores, base), paired_seeds(base, scores)
    assert verdict(better) == "+1.48 (95% interval +0.86 to +2.10) over 5 paired seeds; p = .003: better"
    assert verdict(worse) == "-1.48 (95% interval -2.10 to -0.86) over 5 paired seeds; p = .003: worse"
    family = after_holm({"x": better, **{str(i): plain(0.5) for i in range(5)}})
    assert verdict(family["x"]).endswith("p = .016 after Holm over 6 comparisons: better")
    family = after_holm({"x": better, **{str(i): plain(0.5) for i in range(30)}})
    assert verdict(family["x"]).endswith("p = .085 after Holm over 31 comparisons: no difference shown")


def test_two_seeds_give_no_verdict_however_small_their_p() -> None:
    two = paired_seeds({1: 76.0, 2: 75.1}, {1: 75.0, 2: 74.0})
    assert two.p is not None
    assert two.p < 0.05
    assert two.direction() is None
    told = "+1.05 (95% interval +0.41 to +1.69) over 2 paired seeds: too few seeds to tell, at least 3 are needed"
    assert verdict(two) == told
    assert brief(two) == "+1.05 ± 0.64"
    three = paired_seeds({1: 76.0, 2: 75.1, 3: 70.9}, {1: 75.0, 2: 74.0, 3: 69.9})
    family = after_holm({"two": two, "three": three})
    assert verdict(family["two"]) == told
    assert family["two"].holm is None
    assert family["three"].holm == AfterHolm(p=three.p or 0.0, comparisons=1), (
        "what decides nothing is not adjusted for"
    )
    assert family["three"].direction() == "better"


def test_in_brief() -> None:
    better = paired_seeds({1: 76.2, 2: 76.9, 3: 77.4, 4: 75.9, 5: 76.4}, {1: 74.8, 2: 75.3, 3: 75.2, 4: 75.1, 5: 75.0})
    assert brief(better) == "+1.48 ± 0.62 (p = .003)"
    assert brief(after_holm({"x": better, "y": plain(0.5)})["x"]) == "+1.48 ± 0.62 (p = .005)"
    assert brief(paired_seeds({1: 50.0}, {1: 51.0})) == "-1.00"


def test_verdict_where_nothing_can_be_told() -> None:
    three = paired_seeds({1: 76.0, 2: 75.0, 3: 74.0}, {1: 74.0, 2: 75.5, 3: 74.9})
    assert verdict(three) == (
        "+0.20 (95% interval -3.70 to +4.10) over 3 paired seeds; p = .846: too few to tell at this spread"
    )
    few = "too few seeds to tell, at least 3 are needed"
    assert verdict(paired_seeds({1: 76.0}, {1: 75.0})) == f"+1.00 over 1 paired seed: {few}"
    same = paired_seeds({1: 76.0, 2: 75.0, 3: 77.0}, {1: 75.0, 2: 74.0, 3: 76.0})
    assert verdict(same) == ("+1.00 over 3 paired seeds: the same at every seed, so there is no spread to test against")
    zero = paired_seeds({1: 76.0, 2: 75.0, 3: 74.0}, {1: 76.0, 2: 75.0, 3: 74.0})
    assert verdict(zero) == "+0.00 over 3 paired seeds: no difference shown"
    assert verdict(williams(0.5, -0.5, -1.0, 50)) == (
        "+100.00 over 50 pairs (Williams test): the test is not defined for these correlations"
    )


@pytest.mark.parametrize(("n", "conclusion"), [(4, "too few to tell at this spread"), (5, "no difference shown")])
def test_five_seeds_are_not_too_few(n: int, conclusion: str) -> None:
    scores = {seed: 75.0 + seed % 3 for seed in range(n)}
    base = {seed: 75.0 + (seed + 1) % 3 for seed in range(n)}
    assert verdict(paired_seeds(scores, base)).endswith(conclusion)


def test_verdict_over_pairs() -> None:
    pairs = PairedBootstrap(difference=-0.004, interval=(-0.5, 0.4), p=0.97, n=1379, resamples=9, seed=0)
    assert verdict(pairs) == "+0.00 (95% interval -0.50 to +0.40) over 1,379 pairs; p = .970: no difference shown"
    tasks = PairedBootstrapTasks(
        difference=1, interval=(0.4, 1.5), p=0.0001, n=18850, resamples=9999, seed=0, tasks={"a": pairs, "b": pairs}
    )
    assert verdict(tasks) == "+1.00 (95% interval +0.40 to +1.50) over 18,850 pairs of 2 tasks; p < .001: better"
    assert verdict(williams(0.5, 0.4, 0.9, 1379)).startswith("+10.00 over 1,379 pairs (Williams test); p < .001: b")


@pytest.mark.parametrize(
    ("p", "text"),
    [
        (0.0009999, "< .001"),
        (0.001, "= .001"),
        (0.0496, "= .0496"),
        (0.0503, "= .0503"),
        (0.0506, "= .051"),
        (0.5, "= .500"),
        (0.9999, "= 1.000"),
    ],
)
def test_p_is_shown_so_that_the_level_is_visible(p: float, text: str) -> None:
    assert verdict(plain(p)) == f"+1.00 over something; p {text}: {'better' if p < 0.05 else 'no difference shown'}"


def test_the_level_itself_shows_no_difference() -> None:
    assert verdict(plain(0.05)).endswith("no difference shown")
