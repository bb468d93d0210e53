"""``opencse questions``: have a language model write questions about your documents."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Unpack

import typer

from opencse.api.options.asking import AskingOptions
from opencse.cli.options import with_options
from opencse.numerals import number_of


def fields_of(text: str) -> Mapping[str, Any]:
    """The fields that ``--body`` names.

    >>> fields_of('{"top_p": 0.9}')
    {'top_p': 0.9}

    Raises:
        UserError: for anything but a JSON object.
    """
    import json

    from opencse.errors import UserError, shortened

    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise UserError(f"--body {shortened(text)}: is no JSON object; write one such as '{{\"top_p\": 0.9}}'")
    return value


@with_options(body=fields_of)
def questions(
    corpus: Annotated[
        str, typer.Argument(help="Documents, as adapt reads them: a file, a folder, or one in BEIR's layout.")
    ],
    endpoint: Annotated[
        str, typer.Option(help="Address of a server with OpenAI's chat API: http://localhost:8000/v1.")
    ],
    model: Annotated[str, typer.Option(help="Name of the language model on the server.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="File of pairs to write (.jsonl).")] = Path("pairs.jsonl"),
    **options: Unpack[AskingOptions],
) -> None:
    """Have a language model write questions about your documents, to adapt an encoder to them.

    The texts are sent to the server, which may be yours (vLLM, llama.cpp, Ollama) or a service. Requests, tokens and
    cost are printed first; --dry-run stops there. After Ctrl-C the same command continues.
    """
    import shlex

    from opencse.api.asking import questions
    from opencse.cli.console import echo
    from opencse.text.files.kinds import typed
    from opencse.text.files.pipes import name_in_command

    written = questions(corpus, out, endpoint, model, **options)
    if options["dry_run"]:
        for line in written.prompt.splitlines():
            echo(line)
    else:
        text = [name_in_command(corpus), *typed(options)]
        following = shlex.join(["opencse", "adapt", *text, "--questions", str(out), "--out", "my-model"])
        echo(f"{out}: {number_of(written.questions, 'question')}; {following}")
