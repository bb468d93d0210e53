"""Makes a typed function a command, of Python and of the command line.

    @command
    def whiten(model: Encoder, *, dimension: Annotated[int | None, Typed(least=1)] = None, device: Device = None) -> ...

The line of a parameter in the docstring is its help on the command line (`opencse.cli.parameters`). Parameters that
several commands have are declared once, in `opencse.commands.shared`: `Device` is ``Annotated`` with the line that
`command` adds to the docstring of each. The modules of commands import nothing that takes time before a function is
called, so that ``opencse COMMAND --help`` is fast; a type that only type checkers import is `typing.Any` here.
"""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, ForwardRef, Literal, ParamSpec, TypeVar, Union, cast, get_args, get_origin

from opencse.errors import UserError, plain_failures, require_known
from opencse.foreign import require_bool
from opencse.home import in_home

P = ParamSpec("P")
R = TypeVar("R")
_SAME: Any = object()
REQUIRED: Any = inspect.Parameter.empty
_ARGS = re.compile(r"(?ms)^( *)Args:\n(.*?)(?=^\1\S|\Z|\n\n)")
_TYPES = {one.__name__: one for one in (Collection, Iterable, Mapping, Sequence, Path)} | {"Literal": Literal}


@dataclass(frozen=True)
class Typed:
    """How a parameter is typed on the command line, where its name, type and line in the docstring do not say it.

    Attributes:
        help: the line in ``--help``, where it is not the docstring's.
        flags: how it is typed, where that is not ``--name``: ``("--set", "-s")``, ``("--report/--no-report",)``.
        default: the default on the command line, where it differs.
        least: the smallest value.
        most: the largest value.
        repeated: a list is typed by repeating it; by default it is typed with commas.
        keyed: each is ``key=value``, and no key is typed twice.
        file: it is typed as the path of a file.
        quoted: it is typed as a text, which is never a path.
        parser: makes the value of what is typed.
        metavar: stands for the value in ``--help``.
        hidden: it is a parameter of the function alone.
        said: the line in the docstring, where it is not the same and the parameter is of several commands.
    """

    help: str = ""
    flags: tuple[str, ...] = ()
    default: Any = _SAME
    least: float | None = None
    most: float | None = None
    repeated: bool = False
    keyed: bool = False
    file: bool = False
    quoted: bool = False
    parser: Callable[[Any], object] | None = None
    metavar: str | None = None
    hidden: bool = False
    said: str = ""


@dataclass(frozen=True)
class Parameter:
    """A parameter of a command.

    Attributes:
        inner: as Python has it, with the type as it is written.
        kind: its type; `typing.Any` in the place of classes that are imported for type checkers alone.
        typed: how it is typed; None where only its name and type say that.
        help: its line in ``--help``.
    """

    inner: inspect.Parameter
    kind: Any
    typed: Typed | None
    help: str

    @property
    def name(self) -> str:
        """Its name in Python."""
        return self.inner.name

    @property
    def how(self) -> Typed:
        """How it is typed."""
        return self.typed or _PLAIN

    @property
    def flags(self) -> tuple[str, ...]:
        """How it is typed."""
        return self.how.flags or (f"--{self.name.replace('_', '-')}",)

    @property
    def default(self) -> Any:
        """The default on the command line; `inspect.Parameter.empty` where there is none."""
        return self.inner.default if self.how.default is _SAME else self.how.default


_PLAIN = Typed()


class _Names(dict[str, Any]):
    """The names of a module; `typing.Any` for those that it imports for type checkers alone."""

    def __missing__(self, name: str) -> object:
        if hasattr(builtins, name):
            raise KeyError(name)
        return Any


@functools.cache
def parameters_of(function: Callable[..., object]) -> dict[str, Parameter]:
    """The parameters of a command by name.

    Example:
        >>> from opencse.commands.making import whiten
        >>> parameters_of(whiten)["dimension"].help
        'Keep the first N dimensions; by default all that vary.'
    """
    function = inspect.unwrap(function)
    names, lines, found = _Names(_TYPES | function.__globals__), _lines_of(function.__doc__), {}
    for one in _written(function, names):
        kind, written, typed = eval(one.annotation, {}, names), one.annotation, None
        if get_origin(kind) is Annotated:
            typed, kind = kind.__metadata__[0], kind.__origin__
            if isinstance(kind, ForwardRef):  # of `opencse.commands.shared`
                written = kind.__forward_arg__
                kind = eval(written, {}, names)
                if one.default is _SAME:
                    one = one.replace(default=None if NoneType in get_args(kind) else False)
            else:
                written = ast.unparse(ast.parse(written, mode="eval").body.slice.elts[0])
        line = " ".join(lines.get(one.name, "").partition(":")[2].split())
        line = (line[:1].upper() + line[1:]).replace("``", "'")
        said = (typed.help if typed else "") or line
        found[one.name] = Parameter(one.replace(annotation=written), kind, typed, said)
    return found


def _written(function: Callable[..., object], names: _Names) -> Iterator[inspect.Parameter]:
    """The parameters of a function; the options of ``**how`` come after the fields of a text."""
    written = inspect.signature(function).parameters
    for one in written.values():
        if one.kind is not inspect.Parameter.VAR_KEYWORD:
            yield one
        if one.name == "fields" and "how" in written:
            options = eval(written["how"].annotation, {}, names).__args__[0]
            names |= vars(sys.modules[options.__module__])
            for name, kind in options.__annotations__.items():
                yield inspect.Parameter(
                    name, inspect.Parameter.KEYWORD_ONLY, default=_SAME, annotation=kind.__forward_arg__
                )


def command(function: Callable[P, R]) -> Callable[P, R]:
    """Makes ``function`` one that users call.

    A ``trust_remote_code`` that is no bool is refused before anything is done, because words such as ``"false"`` count
    as true in Python, and a stranger's code would be run; so is a number out of its range, or an unknown choice. What
    the operating system refuses (a full disk, ...) is raised as a `opencse.UserError`; see
    `opencse.errors.plain_failures`. Paths may begin with ``~``; see `opencse.home`. Settings may be a dictionary, with
    tables or dotted keys.
    """
    parameters = parameters_of(function)

    @plain_failures
    @functools.wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        require_bool(kwargs.get("trust_remote_code", False))
        values: dict[str, Any] = {name: value for name, value in kwargs.items() if (name, value) != ("progress", None)}
        for one in parameters.values():
            if one.name not in values:
                continue
            _require_number(one.name, values[one.name], one.how)
            if get_origin(one.kind) is Literal and isinstance(values[one.name], str):
                require_known(values[one.name], get_args(one.kind), one.name)
            if one.how.keyed and isinstance(values[one.name], Mapping):
                from opencse.recipes.overrides import as_overrides

                values[one.name] = as_overrides(values[one.name])
            values[one.name] = _with_home(values[one.name], one.kind)
        kinds = [one.kind for one in parameters.values()]
        positional = [_with_home(value, kind) for value, kind in zip(args, kinds, strict=False)]
        return cast(Callable[..., R], function)(*positional, *args[len(positional) :], **values)

    signature = inspect.signature(function)
    called.__signature__ = signature.replace(parameters=[one.inner for one in parameters.values()])  # type: ignore[attr-defined]
    # `typing.get_type_hints` reads these
    called.__annotations__ = {one.name: one.kind for one in parameters.values()} | {
        name: kind for name, kind in function.__annotations__.items() if name == "return"
    }
    called.__doc__ = _explained(function.__doc__, parameters)
    return called


def needs(**others: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Refuses options that change nothing without another: ``@needs(language="bm25 hybrid")`` without both of these."""

    def decorated(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def called(*args: P.args, **kwargs: P.kwargs) -> R:
            given = {
                name
                for name, value in signature.bind(*args, **kwargs).arguments.items()
                if not (isinstance(value, str | int | float | None) and value == signature.parameters[name].default)
            }
            for name, other in others.items():
                if name in given and not given.intersection(other.split()):
                    flags = {one: max(parameters_of(function)[one].flags, key=len) for one in (name, *other.split())}
                    or_else = " or ".join(flags[one] for one in other.split())
                    raise UserError(f"{flags[name]} needs {or_else}; add it, or leave {flags[name]} out")
            return function(*args, **kwargs)

        return called

    return decorated


def _require_number(name: str, value: object, how: Typed) -> None:
    least, most = 0 if name == "seed" else how.least, how.most
    if isinstance(value, bool) or not isinstance(value, int | float):
        return
    if (least is not None and not value >= least) or (most is not None and not value <= most):
        bounds = [f"{word} {bound:,}" for word, bound in (("at least", least), ("at most", most)) if bound is not None]
        raise UserError(f"{name} is {' and '.join(bounds)}, not {value}; give another")


def _with_home(value: Any, kind: Any) -> object:
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


def _lines_of(documentation: str | None) -> dict[str, str]:
    """The lines of each parameter in a docstring, as they are there."""
    section = _ARGS.search(documentation or "")
    if section is None:
        return {}
    parts = re.split(rf"(?m)^(?={section[1]}    \w+:)", section[2])
    return {part.strip().partition(":")[0]: part for part in parts if part.strip()}


def _explained(documentation: str | None, parameters: Mapping[str, Parameter]) -> str | None:
    """A docstring with a line for each parameter, in their order."""
    section = _ARGS.search(documentation or "")
    if documentation is None or section is None:
        return documentation
    lines = _lines_of(documentation)
    every = [
        lines.get(name, f"{section[1]}    {name}: {one.how.said or one.how.help}\n").rstrip("\n")
        for name, one in parameters.items()
    ]
    return documentation[: section.start(2)] + "\n".join(every) + documentation[section.end() :]
