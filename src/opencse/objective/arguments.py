"""Checks what an objective is made of, and what its parts give in a step, so that a mistake is one clear line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import Tensor

from opencse.errors import UserError
from opencse.objective.columns import AnyColumns, LogitColumns
from opencse.objective.part import Part
from opencse.objective.registry import weight_fault
from opencse.objective.settings import ObjectiveSettings, unread_fault
from opencse.objective.terms.base import Term
from opencse.settings import PartSettings, validate

CONTRAST = "contrast"
"""The name of the contrastive loss among the losses of a step, which no term may have."""


def require_values(**values: Any) -> None:  # noqa: ANN401 - of several types
    """Refuses values of an objective that a recipe would not take either.

    Example:
        >>> require_values(temperature=0.05, directions="rows")

    Raises:
        UserError: naming the argument, and what it can be.
    """
    validate(ObjectiveSettings, values, "objective")


def require_read(**values: object) -> None:
    """Refuses values that only a contrast reads, for an objective that has none.

    Example:
        >>> require_read(temperature=0.05)

    Raises:
        UserError: for a value that is not its default.
    """
    if fault := unread_fault(values):
        raise UserError(f"objective: {fault}")


def require_parts(role: str, parts: Iterable[object], base: type[Part]) -> None:
    """Refuses anything but parts of one role.

    Args:
        role: the name of the argument.
        parts: what they are.
        base: the class of the role.

    Raises:
        UserError: naming the first that is none.
    """
    for part in parts:
        if isinstance(part, base):
            if isinstance(part, Term):
                _require_term(part)
            continue
        name = f"{part.__qualname__} itself" if isinstance(part, type) else f"a {type(part).__qualname__}"
        fix = ""
        if isinstance(part, PartSettings):
            fix = "; make the part of these settings, or use Objective.from_settings"
        elif isinstance(part, type) and issubclass(part, base):
            fix = f"; make one: {part.__name__}()"
        raise UserError(f"{role}: a {base.__name__} is expected, not {name}{fix}")


def _require_term(term: Term) -> None:
    if fault := weight_fault(type(term), Term):
        raise UserError(f"the term {term.kind} {fault}")
    if term.kind == CONTRAST:
        raise UserError(
            f"a term of the kind {CONTRAST!r} would take the place of the contrastive loss, which has this name in the "
            "log; give its Settings another kind"
        )


def checked_columns(columns: AnyColumns, anchors: int, name: str) -> AnyColumns:
    """Returns the columns of a negative source if they have one row for each anchor.

    Args:
        columns: of the source.
        anchors: of the step (N).
        name: of the source.

    Example:
        >>> import torch
        >>> checked_columns(LogitColumns(torch.zeros(4, 1)), 4, "negatives.mine").shape
        (4, 1)

    Raises:
        UserError: for columns of another shape.
    """
    if not isinstance(columns, LogitColumns):
        return columns
    if columns.logits.ndim != 2 or len(columns.logits) != anchors:
        raise UserError(
            f"{name}: gives logits of the shape {tuple(columns.logits.shape)}; ({anchors}, K) is expected, K columns "
            f"for each of {anchors} anchors" + (" (unsqueeze(1) makes one column)" if columns.logits.ndim == 1 else "")
        )
    return columns


def checked_loss(loss: object, kind: str) -> Tensor:
    """Returns the loss of a term if it is a scalar tensor.

    Args:
        loss: of the term.
        kind: of the term.

    Example:
        >>> import torch
        >>> checked_loss(torch.tensor(0.5), "mine")
        tensor(0.5000)

    Raises:
        UserError: for anything else.
    """
    if isinstance(loss, Tensor) and loss.ndim == 0:
        return loss
    description = (
        f"a tensor of the shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else f"a {type(loss).__name__}"
    )
    fix = " (mean() makes one)" if isinstance(loss, Tensor) else ""
    raise UserError(f"the term {kind}: its loss is {description}; a scalar tensor is expected{fix}")
