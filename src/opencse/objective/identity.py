"""Hashes what a recipe names from outside (code of parts, models): with another one a run counts as another run."""

from __future__ import annotations

import ast
import hashlib
import inspect
import sys
from collections.abc import Iterator

from pydantic import BaseModel

from opencse.encoder.fingerprint import hash_model
from opencse.objective.teachers.teacher import START
from opencse.settings import OF_A_MODEL, PartSettings, nested_settings

_SCRIPT = "__main__"


def code_of_parts(settings: BaseModel) -> dict[str, str]:
    """Hashes the code of all parts that ``settings`` name and that the package does not bring.

    The code is the module of each class, and of the classes of its package that it derives from. Comments and spacing
    do not count. Of a class that is defined in a script or a notebook it is the class alone; one without a source that
    can be read is left out.

    Args:
        settings: the settings of a recipe or an objective.

    Returns:
        SHA-256 by module; empty where all parts are the package's own.

    Example:
        >>> from opencse.objective.settings import ObjectiveSettings
        >>> code_of_parts(ObjectiveSettings())
        {}
    """
    hashes: dict[str, str] = {}
    for part in {one.part for one in nested_settings(settings) if isinstance(one, PartSettings) and one.part}:
        for cls in part.__mro__:
            if _package(cls) != _package(part) or _package(cls) == __name__.partition(".")[0]:
                continue
            name = f"{_SCRIPT}:{cls.__qualname__}" if cls.__module__ == _SCRIPT else cls.__module__
            try:
                hashes[name] = hashlib.sha256(_code(cls).encode()).hexdigest()
            except (OSError, TypeError):  # typed at a prompt
                continue
    return dict(sorted(hashes.items()))


def _package(cls: type) -> str:
    return cls.__module__.partition(".")[0]


def _code(cls: type) -> str:
    """The code of a class in a script, or of the module of any other."""
    if cls.__module__ == _SCRIPT:
        return inspect.getsource(cls)
    return ast.unparse(ast.parse(inspect.getsource(sys.modules[cls.__module__])))


def hash_named_models(settings: BaseModel) -> dict[str, str]:
    """SHA-256 of each file of the models that ``settings`` name as teachers, guides and generators.

    Args:
        settings: the settings of a recipe or an objective.

    Returns:
        By the model's name and the file's in its folder; empty where all are copies of the start.

    Raises:
        UserError: if there is no such model, or a file cannot be read.

    Example:
        >>> from opencse.objective.settings import ObjectiveSettings
        >>> hash_named_models(ObjectiveSettings())
        {}
    """
    names = sorted(set(_names(settings)) - {START})
    return {f"{name}/{file}": digest for name in names for file, digest in hash_model(name).items()}


def _names(settings: BaseModel) -> Iterator[str]:
    """What the fields for models hold, in nested settings too."""
    for one in nested_settings(settings):
        for name, field in type(one).model_fields.items():
            if OF_A_MODEL in field.metadata:
                yield getattr(one, name)
