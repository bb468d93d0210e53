"""Refuses options that are typed twice where only the last value would count."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand, TyperOption

from opencse.errors import UserError


class OnceCommand(TyperCommand):
    """A command whose options are typed once each, unless they may be repeated; flags may be, and the last one counts.

    By itself typer takes the last value and says nothing, so of ``--pairs a.csv --pairs b.csv`` only b.csv was read.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - a private class of typer's
        """Reads what was typed.

        Raises:
            UserError: naming the option that is there twice.
        """
        typed = [] if ctx.resilient_parsing else self.make_parser(ctx).parse_args(args=list(args))[2]
        for option in typed:
            once = isinstance(option, TyperOption) and not option.multiple and not option.is_flag
            if once and typed.count(option) > 1:
                name = max(option.opts, key=len)
                raise UserError(f"{name} is there twice, and takes one value; commas separate the parts of a list")
        return super().parse_args(ctx, args)
