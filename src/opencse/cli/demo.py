"""``opencse demo``: train, evaluate and search on the built-in sample, offline."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from opencse.cli.options import folder_option


def demo(
    out: Annotated[Path, folder_option("for the encoders and the report")] = Path("demo-out"),
    seed: Annotated[int, typer.Option(help="Seed of the runs.")] = 42,
) -> None:
    """Train, evaluate before and after, search and report on the built-in sample; offline, about a minute."""
    from opencse.cli.loading import terminal

    progress = terminal()
    from rich.console import Console

    from opencse.api.demo import EXAMPLES, demo
    from opencse.cli.console import echo
    from opencse.runs.next_steps import first_steps

    result = demo(out, seed=seed, progress=progress)
    console = Console(highlight=False)
    console.print(f"{'':<16}graded pairs   queries found")
    for name, scores in result.scores.items():
        console.print(f"{name:<16}[bold]{scores.spearman:>12.2f}{scores.found:>16.1f}[/bold]")
    console.print(
        f"150 graded pairs: Spearman x 100. {result.queries} queries: % whose sentence is in the first 3 of 3,421. "
        "None of them, and no article that answers a query, was trained or selected on. Search is what the pairs "
        "train for; graded pairs ask how similar two sentences are, and may lose a little.",
        style="dim",
    )
    console.rule("search: some examples", align="left")
    for query, hits in zip(EXAMPLES, result.scores["pairs"].hits, strict=True):
        console.print(f"[bold]{query}[/bold]")
        for cosine, text in hits:
            console.print(f"   {cosine:.2f}  {text}", markup=False)
    console.rule("done", align="left")
    echo(f"encoder {result.encoder}   index {result.index}   report {result.report}   {result.seconds:.0f} s")
    echo(f'search it          opencse index query {result.index} "What makes a good password?"')
    echo(f"search in a page   opencse serve {result.encoder} --index {result.index}     (needs opencse[serve])")
    console.rule("next: your own text", align="left")
    for _, commands in first_steps():
        for command in commands.splitlines():
            echo(command)
