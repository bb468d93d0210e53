"""Options of `opencse.push`."""

from __future__ import annotations

from typing import Annotated

from opencse.api.declaring import Option
from opencse.api.options.shared import ProgressOptions


class PushOptions(ProgressOptions, total=False):
    """How an encoder is put on the Hub."""

    token: Annotated[
        str | None,
        Option(
            None,
            "token with write access; by default the token of ``hf auth login`` or ``HF_TOKEN``.",
            hidden=True,
        ),
    ]
    private: Annotated[
        bool | None,
        Option(
            None,
            "Who may see a new repository; by default your account's setting.",
            ("--private/--public",),
            in_python="make the repository private; by default your account's setting.",
        ),
    ]
    exist_ok: Annotated[bool, Option(False, "Add a version if the repository exists.")]
    revision: Annotated[str | None, Option(None, "Branch to write to, created if needed; by default main.")]
    create_pr: Annotated[bool, Option(False, "Open a pull request instead of writing to the branch.")]
    commit_message: Annotated[str | None, Option(None, "Message of the commit.", ("--message",), quoted=True)]
