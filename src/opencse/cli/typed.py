"""Reads what is typed for a command: each option once, and paths with the home folder in place of ``~``."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand, TyperOption

from opencse.errors import UserError
from opencse.home import in_home


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
        """The parser of what is typed, with the home folder in place of ``~``.

        That is done before a value becomes a `Path`, which would drop the ``./`` of ``./~/model``.
        """
        parser: Any = super().make_parser(ctx)
        parameters: list[Any] = self.params
        quoted_names = {one.name for one in parameters if one.type_descriptor.parameter_info.parser is quoted}
        split = parser.parse_args

        def parse_args(args: list[str]) -> tuple[dict[str, object], list[str], list[object]]:
            values, rest, order = split(args)
            paths = {name: value if name in quoted_names else _with_home(value) for name, value in values.items()}
            return paths, rest, order

        parser.parse_args = parse_args
        return parser


def _with_home(value: object) -> object:
    if isinstance(value, list | tuple):
        return type(value)(map(_with_home, value))
    return in_home(value) if isinstance(value, str) else value
