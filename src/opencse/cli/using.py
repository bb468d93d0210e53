"""Prints what the commands give that use an encoder, or make one without training."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from opencse.cli.console import echo, show
from opencse.cli.parameters import Call, Json, typed_and_read, typed_settings
from opencse.commands.declared import Typed
from opencse.errors import UserError
from opencse.numerals import number_of


def similarity(
    call: Call,
    texts: Annotated[
        list[str],
        Typed(
            "A text and one or more others, each quoted; - reads standard input, one text per line.",
            quoted=True,
            repeated=True,
            metavar="TEXT",
        ),
    ],
) -> None:
    """Print the similarity of one text to others, the most similar first.

    It is computed by the model's own function, the cosine if its folder names none.

    With a calibration in the model's folder (`opencse calibrate`), each line also shows which share of random pairs of
    that text has a lower cosine, and whether the pair is similar by its threshold.
    """
    texts = typed_and_read(texts, None)
    if len(texts) < 2:
        raise UserError("give a model and at least two texts, each in quotes")
    for similar in call(text=texts[0], others=texts[1:]):
        meaning = "" if similar.above is None else f"  above {similar.above:5.1f} % of random pairs"
        function = "" if similar.function == "cosine" else f" {similar.function}"
        verdict = "" if similar.similar is None else "  similar" if similar.similar else "         "
        echo(f"{similar.score:.4f}{function}{meaning}{verdict}  {similar.text}")


def nearest(
    call: Call,
    *,
    corpus: Annotated[
        str | None, Typed("Sentences to search: a file (txt, csv, tsv, jsonl, parquet) or a Hub data set.")
    ] = None,
    query: Annotated[
        list[str] | None, Typed("Query, quoted; may be repeated.", ("--query", "-q"), quoted=True, repeated=True)
    ] = None,
    queries: Annotated[Path | None, Typed("File of more queries, one per line.")] = None,
    json_file: Json = None,
) -> None:
    """Show the sentences nearest to a query by one or more encoders, side by side.

    Each model encodes a file once: its vectors are saved in NAME.index next to it.
    Sentences that differ only in case or white space are shown once, and the query itself is left out. With a
    calibration in a model's folder (`opencse calibrate`), each line also shows which share of random pairs of that
    text has a lower cosine.
    """
    from opencse.evaluation.neighbours import neighbours_table

    all_queries = typed_and_read(query, queries)
    if not all_queries:
        raise UserError("no query; give one with --query, or a file of them with --queries")
    neighbours = call(corpus=corpus, queries=all_queries)
    if json_file is not None:
        neighbours.write_json(json_file)
    show(neighbours_table(neighbours))


def push(call: Call) -> None:
    """Put an encoder on the Hub, with its card.

    The token is read from `hf auth login` or HF_TOKEN. The model's files are uploaded; a run's records stay here.
    """
    echo(call())


def merge(call: Call, out: Path) -> None:
    """Merge adapters (LoRA) into the model they belong to, and write an encoder that opens anywhere."""
    call()
    echo(str(out))


def whiten(call: Call, out: Path) -> None:
    """Whiten an encoder: fit a linear map on the vectors of a text and save it as the encoder's last layer.

    A baseline that takes minutes (BERT-whitening), and a way to shorter vectors. --remove N removes the mean and the
    first N principal components instead (all-but-the-top).
    """
    call()
    echo(str(out))


def static(
    call: Call,
    out: Path,
    *,
    dimension: Annotated[int | None, Typed("Dimensions of a vector; by default 256.")] = None,
    layers: Annotated[
        int | None, Typed("Layers of the BERT, by default 0; they change nothing until they are trained.")
    ] = None,
    window: Annotated[int | None, Typed("Distance in tokens up to which two count as a pair; by default 5.")] = None,
    set_: Annotated[
        Sequence[str],
        Typed("Change a setting: smoothing=0.5, dropout=0; may be repeated.", ("--set", "-s"), repeated=True),
    ] = (),
) -> None:
    """Make a sentence encoder by counting words, in minutes; no training.

    It is good by itself, small and fast, and a start for train --model.
    """
    from opencse.making.static import StaticSettings

    call(settings=typed_settings(StaticSettings, {"dimension": dimension, "layers": layers, "window": window}, set_))
    echo(str(out))


def doctor(call: Call) -> None:
    """Find common problems, and print versions and hardware to paste into a bug report."""
    for line in call().lines():
        echo(line)


def encode(call: Call, out: str) -> None:
    """Turn texts into vectors in a file or folder; after an interruption the same command continues."""
    import sys

    if str(out) == "-":
        call(out=sys.stdout)
        return
    written = call()
    rate = (written.rows - written.before) / max(written.seconds, 1e-9)
    files = "" if written.files == 1 else f" in {number_of(written.files, 'file')}"
    echo(f"{out}: {number_of(written.rows, 'vector')} of {written.dimension} dimensions{files}, {rate:,.0f} texts/s")


def serve(call: Call) -> None:
    """Serve encoders over HTTP: OpenAI-style embeddings, search, and a web page to try them.

    It only listens on this machine unless --host says otherwise. Ctrl-C stops it when running requests are done.
    """
    call()


def export_onnx(call: Call, out: Path) -> None:
    """Export the whole encoder as one ONNX graph, from token ids to normalised vectors.

    It is checked against torch before it is written, and runs with onnxruntime, tokenizers and numpy alone.
    """
    call()
    echo(str(out))


def export_static(
    call: Call,
    out: Path,
    *,
    dimension: Annotated[
        int | None, Typed("Dimensions of a vector; by default 256, or the model's if it has fewer.", least=1)
    ] = None,
    set_: Annotated[
        Sequence[str],
        Typed("Change a setting: words=5000, fit=false; may be repeated.", ("--set", "-s"), repeated=True),
    ] = (),
) -> None:
    """Distil an encoder into a table of word vectors: no layers, much faster, less accurate.

    opencse, sentence-transformers (StaticEmbedding) and model2vec open the folder; train --model continues from it.
    """
    from opencse.export.distil import DistilSettings

    given = dimension is not None or set_
    call(settings=typed_settings(DistilSettings, {"dimension": dimension}, set_) if given else None)
    echo(str(out))


def demo(call: Call) -> None:
    """Train, evaluate before and after, search and report on the built-in sample; offline, about a minute."""
    from rich.console import Console

    result = call()
    from opencse.commands.demo import EXAMPLES
    from opencse.runs.report import first_steps

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
