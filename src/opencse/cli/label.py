"""The command ``opencse label``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Unpack

import typer

from opencse.api.options.labelling import LabelOptions
from opencse.cli.options import JsonOption, folder_option, require_json, require_name, with_options


def _folder(name: str) -> str:
    return require_name(name, "INDEX")


_ARGUMENT = typer.Argument(
    help="Folder of the index; of several indexes of the same texts, the hits of all are judged.",
    metavar="INDEX",
    parser=_folder,
)


@with_options()
def label(
    folders: Annotated[list[str], _ARGUMENT],
    out: Annotated[Path, folder_option("of the labels, a data set in BEIR's layout")] = Path("queries"),
    score: Annotated[
        bool, typer.Option("--score", help="Print how vectors, BM25 and hybrid search score by the labels so far.")
    ] = False,
    json_file: JsonOption = None,
    **options: Unpack[LabelOptions],
) -> None:
    """Show a local page to type queries and mark which texts of INDEX are right; about twenty minutes for twenty.

    To compare models, give an index by each of them, so that no model scores too low because only hits of another one
    were judged.

    The folder of --out is saved after each mark. It is for `opencse adapt --dev FOLDER` and for `opencse evaluate
    --suite retrieval --data FOLDER`. The same command continues later. Ctrl-C stops it.
    """
    from opencse.api.labelling import label, label_scores
    from opencse.cli.console import echo
    from opencse.errors import UserError
    from opencse.labelling.scores import LabelScores
    from opencse.outputs import has_fields
    from opencse.records import save_json

    if not score:
        if json_file is not None:
            raise UserError("--json is for scores; add --score, or leave it out")
        label(folders, out, **options)
        return
    model = options["model"]
    require_json(json_file, lambda old: has_fields(old, LabelScores), read=[*folders, str(out)], models=[model])
    scores = label_scores(
        folders,
        out,
        model=model,
        device=options["device"],
        trust_remote_code=options["trust_remote_code"],
        progress=options["progress"],
    )
    if json_file is not None:
        save_json(json_file, asdict(scores))
    for line in scores.lines():
        echo(line)
