"""The view of templates refuses a template without a slot; its positives are tested with rewritten texts."""

from __future__ import annotations

import numpy as np
import pytest

from opencse.objective.views.templates import Templates


def test_a_template_without_slot_is_refused() -> None:
    with pytest.raises(ValueError, match="slots"):
        Templates.Settings(positive="no slot")


def test_a_view_that_was_not_begun_says_so() -> None:
    with pytest.raises(RuntimeError, match="not begun"):
        Templates().positives([], np.random.default_rng(0))
