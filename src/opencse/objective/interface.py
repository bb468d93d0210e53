"""Checks that a part's class has the methods of its role, before anything is trained."""

from __future__ import annotations

import inspect

from opencse.objective.part import Part


def interface_fault(part: type[Part], base: type[Part]) -> str | None:
    """Describes the first method or attribute of a role that a part's class lacks, in one clause; None if it has all.

    A method may give its positional arguments other names, and have more of them with defaults. Only static attributes
    are read; nothing is called.

    Example:
        >>> from opencse.objective.terms.base import Term
        >>> class Empty(Term): ...
        >>> interface_fault(Empty, Term)
        'has no method loss; a Term needs loss(self, reps)'
    """
    for name in sorted(name for name in dir(base) if not name.startswith("_")):
        expected = inspect.getattr_static(base, name)
        actual = inspect.getattr_static(part, name)
        if actual is expected:
            if name in getattr(part, "__abstractmethods__", ()):
                member = "property" if isinstance(expected, property) else "method"
                return f"has no {member} {name}; a {base.__name__} needs {_signature(name, expected)}"
            continue
        if isinstance(expected, property):
            if inspect.isfunction(actual):
                return f"has {name} as a method; put @property above it"
        elif inspect.isfunction(expected) and not _takes(actual, expected):
            difference = (
                f"{_signature(name, actual)} was found"
                if inspect.isfunction(actual)
                else f"it is of type {type(actual).__name__}"
            )
            signature = _signature(name, expected)
            return f"has another method {name} than a {base.__name__}: {signature} is expected, {difference}"
    return None


def weight_fault(part: type[Part], base: type[Part]) -> str | None:
    """Describes in one clause that the settings of a term lack its weight; None if they have it.

    Example:
        >>> from opencse.objective.terms.base import Term
        >>> from opencse.objective.terms.dcl import DCL
        >>> weight_fault(DCL, Term) is None
        True

    Args:
        part: the class of the term.
        base: the class of all terms.
    """
    computed = inspect.getattr_static(part, "weight", None) is not inspect.getattr_static(base, "weight", None)
    if computed or "weight" in part.Settings.model_fields:
        return None
    return "has no weight in its Settings, which multiplies its loss; add one: weight: float = 1.0"


def _takes(actual: object, expected: object) -> bool:
    """Whether ``actual`` can be called with the arguments of ``expected``."""
    if not inspect.isfunction(actual) or not inspect.isfunction(expected):
        return False
    parameters = inspect.signature(expected).parameters.values()
    positional = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    keywords = {one.name: None for one in parameters if one.kind is one.KEYWORD_ONLY}
    try:
        inspect.signature(actual).bind(*positional, **keywords)
    except TypeError:
        return False
    return True


def _signature(name: str, method: object) -> str:
    """A method's name and arguments, without their types."""
    if not inspect.isfunction(method):
        return name
    signature = inspect.signature(method)
    bare = [one.replace(annotation=one.empty) for one in signature.parameters.values()]
    return f"{name}{signature.replace(parameters=bare, return_annotation=signature.empty)}"
