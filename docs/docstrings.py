"""Lets the reference show docstrings in full: an extension of griffe, which mkdocs.yml names.

Griffe reads the source. It recognises examples under the heading "Examples:", where the docstrings have "Example:"; and
it does not see what parameters that several commands have mean, which the decorator `opencse.commands.declared.command`
puts into signature and docstring when the module is imported.
"""

from __future__ import annotations

import importlib
import inspect
import re
from typing import Any

import griffe


class Docstrings(griffe.Extension):
    """Writes the heading that griffe recognises, and fills in the parameters of commands."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:  # noqa: ANN401 - griffe's further arguments
        """Called for every object that was loaded."""
        if isinstance(obj, griffe.Function) and "command" in [str(one.value) for one in obj.decorators]:
            fill_in(obj)
        if obj.docstring is not None:
            obj.docstring.value = re.sub(r"(?m)^Example:$", "Examples:", obj.docstring.value)


def fill_in(function: griffe.Function) -> None:
    """Shows the parameters of a command as `inspect.signature` and ``help`` do."""
    imported = getattr(importlib.import_module(function.module.path), function.name, None)
    if imported is None or function.docstring is None:
        return
    function.docstring.value = inspect.cleandoc(imported.__doc__ or "")
    function.parameters = griffe.Parameters(
        *(
            griffe.Parameter(
                parameter.name,
                annotation=str(parameter.annotation),
                kind=griffe.ParameterKind(parameter.kind.description),
                default=None if parameter.default is parameter.empty else repr(parameter.default),
            )
            for parameter in inspect.signature(imported).parameters.values()
        )
    )
