"""Makes a command's options from the group that it unpacks; declares arguments that several commands have."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Optional, Union, get_args, get_origin, get_type_hints

import typer

from opencse.api.declaring import Declared, declared_in, group_of
from opencse.cli.typed import quoted
from opencse.home import in_home

_FORMATS = (
    "File of text (one text per line, a table, JSON, Parquet, XML, Markdown, HTML, PDF, e-mail, subtitles; also .gz "
    ".xz .bz2 .zst), a quoted pattern ('*.txt'), a folder of files, or a Hub data set."
)


def require_name(name: str | Path, option: str) -> str:
    """Refuses an empty ``name``, which would mean the working folder."""
    from opencse.errors import UserError

    if not str(name).strip():
        raise UserError(
            f"{option} is empty (a shell variable that is not set?); name a folder, or . for the working one"
        )
    return str(name)


def path_of_out(name: str | Path) -> Path:
    """The path that ``--out`` names, or its default."""
    return Path(require_name(name, "--out"))


def folder_option(purpose: str) -> typer.models.OptionInfo:
    """``--out`` for a folder; ``purpose`` completes its help."""
    option: typer.models.OptionInfo = typer.Option(
        "--out", "-o", parser=path_of_out, metavar="FOLDER", help=f"Folder {purpose}."
    )
    return option


TextArgument = Annotated[str, typer.Argument(help=_FORMATS)]
EncoderArgument = Annotated[str, typer.Argument(help="Encoder: a folder, a Hub id, or opencse-mini.")]
JsonOption = Annotated[Path | None, typer.Option("--json", help="Also write the results to this file, as JSON.")]
DataOption = Annotated[
    str,
    typer.Option(
        help="Evaluation data: a folder with sts/, transfer/, ... (or one of these), or 'hub' to download them."
    ),
]
SeedOption = Annotated[int | None, typer.Option("--seed", help="Seed of the run; by default the recipe's.")]


def with_options(**parsers: Callable[[str], object]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Makes typer see each option of the group that a command unpacks; see `opencse.api.declaring`.

    Lists are typed with commas unless the option is repeated. What the command reports goes to the terminal.

    Args:
        parsers: by name of an option, the function that makes its value of what is typed.
    """

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        group = group_of(command)
        assert group is not None
        declared = declared_in(group)
        typed = {name: one for name, one in declared.items() if not one.option.hidden}
        hints = get_type_hints(command, include_extras=True)
        arguments = [
            one.replace(annotation=hints[one.name], kind=one.KEYWORD_ONLY)
            for one in inspect.signature(command).parameters.values()
            if one.kind is not one.VAR_KEYWORD
        ]
        parsed: dict[str, Callable[[Any], object]] = {"skip_lines": lines_of, **parsers}
        options = [_parameter(one, parsed.get(name)) for name, one in typed.items()]

        @functools.wraps(command)
        def called(**values: Any) -> None:  # noqa: ANN401 - checked by typer
            from opencse.cli.loading import terminal

            for name, one in typed.items():
                values[name] = _value(one, values[name], parsed.get(name))
            if "progress" in declared:
                values["progress"] = terminal()
            command(**values)

        called.__signature__ = inspect.Signature([*arguments, *options])  # type: ignore[attr-defined]
        called.__annotations__ = {one.name: one.annotation for one in (*arguments, *options)}
        return called

    return decorated


def _parameter(declared: Declared, parser: Callable[[Any], object] | None) -> inspect.Parameter:
    """An option as typer reads it."""
    option = declared.option
    kind: Any = str if parser is not None and not option.file else _typed(declared)
    name = f"--{declared.name.replace('_', '-')}"
    flags = option.flags or ((name,) if kind is bool and not option.typed_default else ())
    default = option.typed_default
    if isinstance(default, tuple | list):
        default = None if option.repeated else ",".join(map(str, default))
    if default is None:
        kind = Optional[kind]  # noqa: UP045 - a type that is computed
    text: dict[str, Any] = {"parser": quoted, "metavar": "<str>"} if option.quoted else {}
    described = typer.Option(*flags, help=option.help, min=option.least, max=option.most, **text)
    annotation = Annotated[kind, described]
    return inspect.Parameter(declared.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _typed(declared: Declared) -> Any:  # noqa: ANN401 - a type
    """The type of what a person types for an option."""
    if declared.option.file:
        return Path
    if declared.option.repeated:
        return list[str]
    kind = _first_kind(declared.kind)
    return str if kind is Any or _is_list(kind) else kind


def _first_kind(kind: Any) -> Any:  # noqa: ANN401 - a type
    """The first type of a union, which is the one that a person types."""
    if get_origin(kind) in (Union, UnionType):
        return next(one for one in get_args(kind) if one is not NoneType)
    return kind


def _is_list(kind: Any) -> bool:  # noqa: ANN401 - a type
    origin = get_origin(kind)
    return isinstance(origin, type) and issubclass(origin, Iterable)


def _value(declared: Declared, typed: Any, parser: Callable[[Any], object] | None) -> object:  # noqa: ANN401
    """The value of an option: what was typed for it, as the function takes it."""
    if typed is None or (typed == [] and declared.option.repeated):
        return None if NoneType in get_args(declared.kind) else declared.option.default
    if parser is not None:
        return parser(typed)
    if declared.option.keyed:
        from opencse.recipes.overrides import require_keys_once

        require_keys_once(typed)
    return listed(typed) if isinstance(typed, str) and _is_list(_first_kind(declared.kind)) else typed


def listed(text: str | None) -> list[str] | None:
    """The parts of a comma-separated list, paths with the home folder in place of ``~``; None stays None."""
    return None if text is None else [in_home(part.strip()) for part in text.split(",") if part.strip()]


def lines_of(file: Path | None) -> Collection[int]:
    """The line numbers in a file."""
    if file is None:
        return ()
    from opencse.text.readers import read_line_numbers

    return read_line_numbers(file)


def settings_with(settings: Iterable[str], **training: float | None) -> list[str]:
    """The settings of ``--set``, and those of ``training`` that have an option of their own.

    Raises:
        UserError: for a setting that is typed in both ways.
    """
    from opencse.recipes.overrides import require_set_once

    changes, typed = list(settings), {key: value for key, value in training.items() if value is not None}
    require_set_once(changes, {f"training.{key}": f"--{key} {value}" for key, value in typed.items()})
    return [*changes, *(f"training.{key}={value}" for key, value in typed.items())]


def require_json(
    file: Path | None, is_own: Callable[[Any], bool], *, read: Sequence[object] = (), models: Sequence[object] = ()
) -> None:
    """Refuses a ``--json`` that is an input, another file, or not writable, before the long work.

    Args:
        file: the file of ``--json``.
        is_own: whether a value read from a file is a result of the same command, which may be replaced.
        read: the inputs and the other outputs of the command, as they were typed.
        models: names or folders of the models.

    Raises:
        UserError: saying what to do.
    """
    from opencse import outputs
    from opencse.errors import UserError, reason, shortened

    if file is None:
        return
    if str(file) == "-":
        raise UserError("--json -: results are written to a file, not to standard output; give the path of a file")
    try:
        file.exists()  # raises for a name that the system does not take
        new = [Path(one) for one in read if isinstance(one, str | Path) and not os.path.lexists(one)]
        outputs.require_apart(
            file,
            read=[*outputs.paths_of(*read), *new],
            models=outputs.paths_of(*models),
            option="--json",
            replaces=False,
        )
        outputs.require_json(file, is_own)
    except OSError as error:
        raise UserError(f"{shortened(str(file), 200)}: cannot be written ({reason(error)})") from None


def typed_and_read(typed: list[str] | None, file: Path | None) -> list[str]:
    """The texts that were typed, then the texts of a file; ``-`` among those that were typed is standard input.

    Raises:
        UserError: if standard input is named twice, or a file cannot be read.
    """
    from opencse.errors import UserError
    from opencse.text.lists import read_list

    texts = [*(typed or [])]
    if texts.count("-") + (str(file) == "-") > 1:
        raise UserError("standard input (-) is named twice; it can be read once")

    typed_texts = [text for one in texts for text in (read_list(one) if one == "-" else [one])]
    return typed_texts if file is None else [*typed_texts, *read_list(str(file))]
