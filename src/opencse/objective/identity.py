"""Hashes what a recipe names from outside (code of parts, models): with another one a run counts as another run."""

from __future__ import annotations

import ast
import hashlib
import inspect
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from pydantic import BaseModel

from opencse.encoder.fingerprint import hash_model
from opencse.objective.teachers.teacher import START
from opencse.settings import OF_A_MODEL, PartSettings, nested_settings

_PACKAGE = __name__.partition(".")[0]
_SCRIPT = "__main__"
_INSTALLED = {Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "purelib", "platlib")}
"""Folders in which files next to each other do not belong together."""


def code_of_parts(settings: BaseModel) -> dict[str, str]:
    """Hashes the code of all parts that ``settings`` name and that the package does not bring.

    The code is the module of each class and of the classes it derives from, and the modules that these import from
    their package or from their folder. Comments and spacing do not count. Of a class that is defined in a script or a
    notebook it is the class alone; one without a source that can be read is left out.

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
    for part in dict.fromkeys(_parts(settings)):
        for cls in part.__mro__:
            if cls.__module__ == _SCRIPT:
                _add_class(cls, hashes)
            elif _is_foreign(cls.__module__, part):
                _add_module(sys.modules[cls.__module__], hashes)
    return dict(sorted(hashes.items()))


def _parts(settings: BaseModel) -> Iterator[type]:
    """The classes of all parts whose settings are in ``settings``, nested ones included."""
    for one in nested_settings(settings):
        if isinstance(one, PartSettings) and one.part is not None:
            yield one.part


def _is_foreign(module: str, part: type) -> bool:
    """Whether a base class of ``part`` is of the part's package or folder, not of a library that it uses."""
    modules = sys.modules.get(module), sys.modules.get(part.__module__)
    if module.partition(".")[0] == _PACKAGE or modules[0] is None or modules[1] is None:
        return False
    return _belongs_to(modules[0], modules[1])


def _belongs_to(module: ModuleType, user: ModuleType) -> bool:
    """Whether ``module`` is of the same package as ``user``, or a file in the same folder."""
    if module.__name__.partition(".")[0] == user.__name__.partition(".")[0]:
        return True
    files = getattr(module, "__file__", None), getattr(user, "__file__", None)
    folders = {Path(file).resolve().parent for file in files if file is not None}
    return None not in files and len(folders) == 1 and not folders & _INSTALLED


def _add_module(module: ModuleType, hashes: dict[str, str]) -> None:
    """Adds the hashes of a module, and of the modules of its package or folder that it imports."""
    if module.__name__ in hashes or (code := _code(module)) is None:
        return
    hashes[module.__name__] = hashlib.sha256(code).hexdigest()
    for value in list(vars(module).values()):
        name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
        imported = sys.modules.get(name) if isinstance(name, str) else None
        if imported is not None and _belongs_to(imported, module):
            _add_module(imported, hashes)


def _add_class(cls: type, hashes: dict[str, str]) -> None:
    """Adds the hash of a class of a script or a notebook."""
    try:
        source = inspect.getsource(cls)
    except (OSError, TypeError):  # typed at a prompt
        return
    hashes[f"{cls.__module__}:{cls.__qualname__}"] = hashlib.sha256(source.encode()).hexdigest()


def _code(module: ModuleType) -> bytes | None:
    """The code of a module without comments and spacing; None where it has no file."""
    file = getattr(module, "__file__", None)
    if file is None or not Path(file).is_file():
        return None
    content = Path(file).read_bytes()
    return ast.unparse(ast.parse(content)).encode() if file.endswith(".py") else content


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
