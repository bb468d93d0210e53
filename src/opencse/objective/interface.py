"""Compares a part's class with what its role asks for, before anything is trained."""

from __future__ import annotations

import inspect

from opencse.objective.part import Part


def interface_fault(part: type[Part], base: type[Part]) -> str | None:
    """Says what a part's class lacks of its role, in one clause; None where it has everything.

    A method may name its positional arguments as it likes, and have more of them with defaults. Static attributes are
    looked at alone; nothing is called.

    Example:
        >>> from opencse.objective.terms.base import Term
        >>> class Empty(Term): ...
        >>> interface_fault(Empty, Term)
        'has no method loss; a Term needs loss(self, reps)'
    """
    for name in sorted(name for name in dir(base) if not name.startswith("_")):
        asked = inspect.getattr_static(base, name)
        own = inspect.getattr_static(part, name)
        if own is asked:
            if name in getattr(part, "__abstractmethods__", ()):
                what = "property" if isinstance(asked, property) else "method"
                return f"has no {what} {name}; a {base.__name__} needs {_shown(name, asked)}"
            continue
        if isinstance(asked, property):
            if inspect.isfunction(own):
                return f"has {name} as a method; put @property above it"
        elif inspect.isfunction(asked) and not _takes(own, asked):
            found = (
                f"{_shown(name, own)} was found" if inspect.isfunction(own) else f"it is of type {type(own).__name__}"
            )
            return f"has another method {name} than a {base.__name__}: {_shown(name, asked)} is expected, {found}"
    return None


def _takes(own: object, asked: object) -> bool:
    """Whether ``own`` can be called with the arguments that ``asked`` is called with."""
    if not inspect.isfunction(own) or not inspect.isfunction(asked):
        return False
    parameters = inspect.signature(asked).parameters.values()
    positional = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    named = {one.name: None for one in parameters if one.kind is one.KEYWORD_ONLY}
    try:
        inspect.signature(own).bind(*positional, **named)
    except TypeError:
        return False
    return True


def _shown(name: str, method: object) -> str:
    """A method's name and arguments, without their types."""
    if not inspect.isfunction(method):
        return name
    signature = inspect.signature(method)
    bare = [one.replace(annotation=one.empty) for one in signature.parameters.values()]
    return f"{name}{signature.replace(parameters=bare, return_annotation=signature.empty)}"
