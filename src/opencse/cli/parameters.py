"""Makes the command line of a command from the signature and the docstring of its function.

Each command also has a face, a function of `opencse.cli` that calls it and prints what it returns:

    def nearest(call: Call, models: list[str], *, queries: Annotated[str | None, Typed("A file.")] = None) -> None:

``call`` is the command with all that was typed for it, and takes what the face changes of that as keywords. Parameters
with `Typed` are of the command line alone, or take the place of the command's own of that name; all others get the
values that were typed for the command's. What is keyword-only is an option, in both. The face's docstring is the text
of ``--help``.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Optional, TypeVar, Union, get_args, get_origin

import typer
from typer.core import TyperCommand, TyperOption

from opencse.cli.console import terminal
from opencse.commands.declared import Parameter, Typed, parameters_of
from opencse.errors import UserError
from opencse.home import in_home

if TYPE_CHECKING:
    from opencse.settings import Settings

S = TypeVar("S", bound="Settings")


def quoted(text: str) -> str:
    """The parser of arguments that are texts (queries, sentences, ids) and never paths."""
    return text


class TypedCommand(TyperCommand):
    """A command whose options are typed once each, and whose paths may begin with ``~``.

    Options that may be repeated and flags are exceptions. By itself typer takes the last value and says nothing, so of
    ``--pairs a.csv --pairs b.csv`` only b.csv was read. What is `quoted` is taken as it is.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - a private class of typer's
        """Reads what was typed.

        Raises:
            UserError: naming the option that is there twice; or where the home folder is not known.
        """
        typed = [] if ctx.resilient_parsing else self.make_parser(ctx).parse_args(args=list(args))[2]
        for option in typed:
            once = isinstance(option, TyperOption) and not option.multiple and not option.is_flag
            if once and typed.count(option) > 1:
                name = max(option.opts, key=len)
                raise UserError(f"{name} is there twice, and takes one value; commas separate the parts of a list")
        return super().parse_args(ctx, args)

    def make_parser(self, ctx: Any) -> Any:  # noqa: ANN401 - private classes of typer's
        """The parser of what is typed, with the home folder in place of ``~``; an empty path names nothing.

        That is done before a value becomes a `Path`, which would drop the ``./`` of ``./~/model``.
        """
        parser: Any = super().make_parser(ctx)
        parameters: list[Any] = self.params
        typed_as = {
            one.name: one.metavar if one.param_type_name == "argument" else max(one.opts, key=len)
            for one in parameters
            if one.type_descriptor.parameter_info.parser is not quoted
        }
        split = parser.parse_args

        def parse_args(args: list[str]) -> tuple[dict[str, object], list[str], list[object]]:
            values, rest, order = split(args)
            paths = {
                name: _with_home(value, typed_as[name]) if name in typed_as else value for name, value in values.items()
            }
            return paths, rest, order

        parser.parse_args = parse_args
        return parser


def _with_home(value: object, name: str) -> object:
    if isinstance(value, list | tuple):
        return type(value)(_with_home(one, name) for one in value)
    if not isinstance(value, str):
        return value
    if not value.strip():
        raise UserError(f"{name} is empty (a shell variable that is not set?); give a value")
    return in_home(value)


Call = functools.partial[Any]
Json = Annotated["Path | None", Typed("Also write the results to this file, as JSON.", ("--json",), file=True)]
_OVERWRITE = Parameter(
    inspect.Parameter("overwrite", inspect.Parameter.KEYWORD_ONLY, default=False),
    bool,
    Typed(),
    "Replace the file --json if it exists.",
)


def typed_command(face: Callable[..., None], function: Callable[..., object]) -> Callable[..., None]:
    """The function that typer makes a command of: it parses what was typed, and passes it to the face."""
    own = {name: one for name, one in parameters_of(face).items() if name != "call"}
    extra = {name: one for name, one in own.items() if one.typed is not None}
    if "json_file" in own and "overwrite" not in parameters_of(function):
        extra["overwrite"] = _OVERWRITE
    declared = {name: one for name, one in parameters_of(function).items() if name not in extra}
    shown = [one for one in declared.values() if not one.how.hidden]
    first = [one for one in shown if one.inner.kind is not inspect.Parameter.KEYWORD_ONLY]
    order = [*first, *extra.values(), *(one for one in shown if one not in first)]

    @functools.wraps(face)
    def called(**typed: Any) -> None:  # noqa: ANN401 - checked by typer
        values = typed | {one.name: _value(one, typed[one.name]) for one in order}
        if "progress" in declared:
            values["progress"] = terminal()
        call = functools.partial(function, **{name: values[name] for name in declared if name in values})
        if values.get("json_file") is not None:
            others = {one.name: values[one.name] for one in order if one.name != "json_file" and not one.how.quoted}
            _refuse_json(values["json_file"], others, values["overwrite"])
        face(call, **{name: values[name] for name in own})

    parameters = [_parameter(one) for one in order]
    if "ctx" in own:
        parameters.append(inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context))
    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {one.name: one.annotation for one in parameters}
    return called


def _parameter(one: Parameter) -> inspect.Parameter:
    """A parameter as typer reads it."""
    how, kind = one.how, _typed(one)
    is_flag = kind is bool and not one.default
    default = one.default
    if isinstance(default, tuple | list):
        default = None if how.repeated else ",".join(map(str, default))
    if default is None:
        kind = Optional[kind]  # noqa: UP045 - a type that is computed
    more: dict[str, Any] = {"parser": quoted, "metavar": how.metavar or "<str>"} if how.quoted else {}
    if how.metavar is not None:
        more["metavar"] = how.metavar
    described: Any
    if one.inner.kind is inspect.Parameter.KEYWORD_ONLY or how.flags:
        flags = how.flags or (one.flags if is_flag else ())
        described = typer.Option(*flags, help=one.help, min=how.least, max=how.most, hidden=how.hidden, **more)
    else:
        described = typer.Argument(help=one.help, **more)
    return one.inner.replace(
        kind=inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, described]
    )


def _typed(one: Parameter) -> Any:  # noqa: ANN401 - a type
    """The type of what a person types for a parameter."""
    if one.how.file:
        return Path
    if one.how.repeated:
        return list[str]
    kind = _first_kind(one.kind)
    return str if kind is Any or one.how.parser is not None or _is_list(kind) else kind


def _first_kind(kind: Any) -> Any:  # noqa: ANN401 - a type
    """The first type of a union, which is the one that a person types."""
    if get_origin(kind) in (Union, UnionType):
        return next(one for one in get_args(kind) if one is not NoneType)
    return kind


def _is_list(kind: Any) -> bool:  # noqa: ANN401 - a type
    origin = get_origin(kind)
    return isinstance(origin, type) and issubclass(origin, Iterable)


def _value(one: Parameter, typed: Any) -> object:  # noqa: ANN401
    """The value of a parameter: what was typed for it, as the function takes it."""
    if typed is None or (typed == [] and one.how.repeated):
        return None if NoneType in get_args(one.kind) else one.inner.default
    if one.how.parser is not None:
        return [one.how.parser(part) for part in typed] if one.how.repeated else one.how.parser(typed)
    if one.how.keyed:
        from opencse.recipes.overrides import require_keys_once

        require_keys_once(typed)
    return listed(typed) if isinstance(typed, str) and _is_list(_first_kind(one.kind)) else typed


def listed(text: str) -> list[str]:
    """The parts of a comma-separated list, paths with the home folder in place of ``~``."""
    return [in_home(part.strip()) for part in text.split(",") if part.strip()]


def settings_with(settings: Iterable[str], **training: float | None) -> list[str]:
    """The settings of ``--set``, and the settings of ``training`` that have an option of their own.

    Raises:
        UserError: for a setting that is typed in both ways.
    """
    from opencse.recipes.overrides import require_set_once

    changes, typed = list(settings), {key: value for key, value in training.items() if value is not None}
    require_set_once(changes, {f"training.{key}": f"--{key} {value}" for key, value in typed.items()})
    return [*changes, *(f"training.{key}={value}" for key, value in typed.items())]


def typed_settings(kind: type[S], typed: Mapping[str, object], overrides: Sequence[str]) -> S:
    """The settings of options that are ``typed``, where they are not None, and then of each ``--set``.

    Raises:
        UserError: for a setting that is typed in both ways, or a wrong value.
    """
    from opencse.recipes.overrides import parse_override, require_set_once
    from opencse.settings import validate

    values = {name: value for name, value in typed.items() if value is not None}
    require_set_once(overrides, {name: f"--{name} {value}" for name, value in values.items()})
    values |= dict(map(parse_override, overrides))
    return validate(kind, values, "--set" if overrides else "options")


def _refuse_json(file: Path, values: Mapping[str, object], overwrite: bool) -> None:
    """Refuses a ``--json`` that is an input or another output, exists already, or cannot be written.

    Raises:
        UserError: saying what to do.
    """
    from opencse import outputs

    if str(file) == "-":
        raise UserError("--json -: results are written to a file, not to standard output; give the path of a file")
    read: list[Path] = []
    around: list[Path] = []  # a new file in them is no harm
    for name, value in values.items():
        typed = value if isinstance(value, list | tuple) else [value]
        named = [Path(one) for one in typed if isinstance(one, str | Path) and one]
        (around if name in ("data", "model", "models") else read).extend([*outputs.paths_of(*typed), *named])
    outputs.require_writable(file, remedy="choose another --json")
    outputs.require_apart(file, read=read, models=around, option="--json", replaces=False)
    outputs.require_absent(file, overwrite=overwrite, option="--json")


def typed_and_read(typed: list[str] | None, file: Path | None) -> list[str]:
    """The texts that were typed, then the texts of a file; ``-`` among those that were typed is standard input.

    Raises:
        UserError: if standard input is named twice, or a file cannot be read.
    """
    from opencse.text.given import read_list

    texts = [*(typed or [])]
    if texts.count("-") + (str(file) == "-") > 1:
        raise UserError("standard input (-) is named twice; it can be read once")

    typed_texts = [text for one in texts for text in (read_list(one) if one == "-" else [one])]
    return typed_texts if file is None else [*typed_texts, *read_list(str(file))]
