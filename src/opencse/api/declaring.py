"""Declares each option once, for Python, the command line and study files.

A group of options is a typed dictionary, and each of its keys is an option: its type, its default and a line of help.

    class DeviceOptions(TypedDict, total=False):
        device: Annotated[str | None, Option(None, "cpu, cuda or mps; by default a GPU if there is one.")]

A command names one group (which may extend others), and so does its function. Both unpack it:

    @public                                                      # api/encoding.py
    def encode(model: Model, text: Text, **options: Unpack[InMemoryOptions]) -> Vectors:
        ...                                                      # docstring with "**options: see `InMemoryOptions`."
        device = options["device"]                               # what the caller passed, or the default

    @with_options()                                              # cli/encode.py; see `opencse.cli.options`
    def encode(model: EncoderArgument, text: TextArgument, **options: Unpack[InMemoryOptions]) -> None:
        from opencse.api.encoding import encode
        encode(model, text, **options)

`public` fills in the defaults, and replaces ``**options`` in the signature and in the docstring by the options
themselves, so `help`, `inspect.signature` and notebooks show names, types, defaults and meanings. Type checkers and
editors read the typed dictionary. Arguments that are not options (a text, a model, a folder) are declared in both
functions, because what a person types for them differs from what a program passes.

Groups are in `opencse.api.options`, in a module for each module of `opencse.api`. They import nothing that takes
time, so that ``opencse COMMAND --help`` is fast: types of heavy modules are imported for type checkers only.
"""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, UnionType
from typing import Any, ForwardRef, ParamSpec, TypeVar, Union, cast, get_args, get_origin

from opencse.errors import UserError, plain_failures
from opencse.foreign import require_bool
from opencse.home import in_home
from opencse.progress import Progress, reporter_of

P = ParamSpec("P")
R = TypeVar("R")
_SAME: Any = object()


@dataclass(frozen=True)
class Option:
    """An option's default, its help and how it is typed.

    Attributes:
        default: the value where none is given.
        help: what it does, for ``--help`` and for the function's documentation.
        flags: how it is typed, where that is not ``--name``: ``("--set", "-s")``, ``("--report/--no-report",)``.
        typed: the default on the command line, where it differs.
        least: the smallest value.
        most: the largest value.
        repeated: a list is typed by repeating the option; by default it is typed with commas.
        keyed: each is ``key=value``, and no key is typed twice.
        file: it is typed as the path of a file.
        quoted: it is typed as a text, which is never a path.
        rank: options with a higher rank come later in ``--help``.
        in_python: what the function's documentation says instead of ``help``.
        hidden: it is an option of the function alone.
    """

    default: object
    help: str
    flags: tuple[str, ...] = ()
    typed: Any = _SAME
    least: float | None = None
    most: float | None = None
    repeated: bool = False
    keyed: bool = False
    file: bool = False
    quoted: bool = False
    rank: int = 0
    in_python: str = ""
    hidden: bool = False

    @property
    def typed_default(self) -> object:
        """The default on the command line."""
        return self.default if self.typed is _SAME else self.typed


@dataclass(frozen=True)
class Declared:
    """An option of a group.

    Attributes:
        name: its key.
        kind: its type; `typing.Any` in the place of classes that are imported for type checkers alone.
        written: the type as it is written.
        option: its default, help and the rest.
    """

    name: str
    kind: Any
    written: str
    option: Option


class _Namespace(dict[str, Any]):
    """The names of a module; `typing.Any` for those that it imports for type checkers alone."""

    def __missing__(self, name: str) -> object:
        if hasattr(builtins, name):
            raise KeyError(name)
        return Any


@functools.cache
def declared_in(group: type) -> dict[str, Declared]:
    """The options of a group by name, in the order of ``--help``.

    Example:
        >>> from opencse.api.options.shared import DeviceOptions
        >>> declared_in(DeviceOptions)["device"].option.default is None
        True

    Args:
        group: a typed dictionary whose annotations are ``Annotated[type, Option(...)]``.
    """
    options = []
    for name, annotation in group.__annotations__.items():
        reference: ForwardRef = annotation
        names = _Namespace(vars(sys.modules[str(reference.__forward_module__)]))
        kind = eval(reference.__forward_arg__, {}, names)
        tree = ast.parse(reference.__forward_arg__, mode="eval").body
        assert isinstance(tree, ast.Subscript)
        assert isinstance(tree.slice, ast.Tuple)
        (option,) = kind.__metadata__
        options.append(Declared(name, kind.__origin__, ast.unparse(tree.slice.elts[0]), option))
    return {one.name: one for one in sorted(options, key=lambda one: one.option.rank)}


def group_of(function: Callable[..., object]) -> type | None:
    """The group whose options ``function`` takes as ``**options: Unpack[group]``; None where it takes none."""
    written = str(function.__annotations__.get("options", ""))
    match = re.fullmatch(r"Unpack\[(\w+)\]", written)
    if match is None:
        return None
    group: type = cast(FunctionType, function).__globals__[match[1]]
    return group


def defaults_of(group: type) -> dict[str, object]:
    """The default of each option of a group.

    Example:
        >>> from opencse.api.options.shared import DeviceOptions
        >>> defaults_of(DeviceOptions)
        {'device': None, 'trust_remote_code': False, 'progress': None}
    """
    return {name: one.option.default for name, one in declared_in(group).items()}


def public(function: Callable[P, R]) -> Callable[P, R]:
    """Makes ``function`` one that users call.

    A ``trust_remote_code`` that is no bool is refused before anything is done, because words such as ``"false"`` count
    as true in Python, and a stranger's code would be run; so is a ``progress`` that is no reporter. The options of its
    group get their defaults. What the operating system refuses (a full disk, ...) is raised as a `opencse.UserError`;
    see `opencse.errors.plain_failures`. Paths may begin with ``~``; see `opencse.home`. Settings may be a dictionary,
    with tables or dotted keys.

    Raises:
        TypeError: when the function is called with an unknown option.
    """
    group = group_of(function)
    declared = {} if group is None else declared_in(group)
    defaults = {name: one.option.default for name, one in declared.items()}
    arguments = [one for one in inspect.signature(function).parameters.values() if one.kind is not one.VAR_KEYWORD]
    names = _Namespace(cast(FunctionType, function).__globals__)
    kinds = {one.name: eval(one.annotation, {}, names) for one in arguments}
    kinds |= {name: one.kind for name, one in declared.items()}

    @plain_failures
    @functools.wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        require_bool(kwargs.get("trust_remote_code", False))
        reporter_of(cast("Progress | None", kwargs.get("progress")))
        for name, value in kwargs.items():
            if name not in kinds:
                raise TypeError(f"{function.__name__}() got an unexpected keyword argument {name!r}")
            require_number(name, value, declared[name].option if name in declared else None)
        values = {name: _with_home(value, kinds[name]) for name, value in {**defaults, **kwargs}.items()}
        for name, value in kwargs.items():
            if name in declared and declared[name].option.keyed and isinstance(value, Mapping):
                from opencse.recipes.overrides import as_overrides

                values[name] = as_overrides(value)
        positional = [_with_home(value, kind) for value, kind in zip(args, kinds.values(), strict=False)]
        return cast(Callable[..., R], function)(*positional, *args[len(positional) :], **values)

    options = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=one.option.default, annotation=one.written)
        for name, one in declared.items()
    ]
    called.__signature__ = inspect.signature(function).replace(parameters=[*arguments, *options])  # type: ignore[attr-defined]
    if declared:  # `typing.get_type_hints` reads these; types that only type checkers import are `typing.Any`
        hints = {name: kind for name, kind in function.__annotations__.items() if name != "options"}
        called.__annotations__ = hints | {name: one.kind for name, one in declared.items()}
    called.__doc__ = _with_options(function.__doc__, declared)
    return called


def require_number(name: str, value: object, option: Option | None = None) -> None:
    """Refuses a number that is not finite, does not fit 64 bits, is a negative seed, or is out of an option's range.

    Raises:
        UserError: naming the range.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return
    least, most = (None, None) if option is None else (option.least, option.most)
    least = 0 if name == "seed" else least
    shown = "a number of that size" if abs(value) >= 2**63 else str(value)
    if not (math.isfinite(value) if isinstance(value, float) else -(2**63) <= value < 2**63):
        raise UserError(f"{name} is a finite number of at most 64 bits, not {shown}; give another")
    if (least is not None and value < least) or (most is not None and value > most):
        bounds = [f"{word} {bound:,}" for word, bound in (("at least", least), ("at most", most)) if bound is not None]
        raise UserError(f"{name} is {' and '.join(bounds)}, not {shown}; give another")


def _with_home(value: Any, kind: Any) -> object:  # noqa: ANN401 - any argument and its type
    """A value of type ``kind`` with the home folder in place of ``~`` where the type says that it is a path."""
    kinds = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    if isinstance(value, str):
        return (
            in_home(value) if Path in kinds or Any in kinds else value
        )  # Any: `Text`, where only type checkers see it
    if isinstance(value, list | tuple):
        inner = [get_args(one)[0] for one in kinds if get_origin(one) is Sequence]
        paths = next((one for one in inner if Path in get_args(one)), None)
        return value if paths is None else [_with_home(one, paths) for one in value]
    return value


def _with_options(documentation: str | None, declared: dict[str, Declared]) -> str | None:
    """A docstring whose line ``**options`` is replaced by a line for each option."""
    if documentation is None:
        return None
    marked = re.search(r"(?m)^( *)\*\*options: .*\n", documentation)
    if marked is None:
        return documentation
    lines = [f"{marked[1]}{name}: {one.option.in_python or one.option.help}\n" for name, one in declared.items()]
    return documentation[: marked.start()] + "".join(lines) + documentation[marked.end() :]
