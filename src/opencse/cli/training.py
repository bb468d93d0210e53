"""Prints what the commands give that train an encoder, or look at a text or a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from opencse.cli.console import echo, show_run
from opencse.cli.parameters import Call, Json, settings_with
from opencse.commands.declared import Typed
from opencse.numerals import number_of

if TYPE_CHECKING:
    from opencse.text.check import CorpusCheck


SeedOption = Annotated["int | None", Typed("Seed of the run; by default the recipe's.")]


def adapt(call: Call, settings: Sequence[str], dry_run: bool, *, seed: SeedOption = None) -> None:
    """Adapt an encoder to your documents; no labels needed, questions with answers welcome.

    It learns from titles with their texts, neighbouring sentences and texts that share rare words. Some documents are
    held out; questions about them select the encoder that is kept: a step, its average with the start, or the start.
    """
    show_run(call(settings=settings_with(settings, seed=seed)), dry_run)


def train(call: Call, settings: Sequence[str], dry_run: bool, *, seed: SeedOption = None) -> None:
    """Train a sentence encoder from text; no labels needed.

    The best step by --dev is kept, or the start where no step is better. A model that comes with a pooling keeps it;
    --set encoder.pooling=mean (cls, ...) changes it.
    """
    show_run(call(settings=settings_with(settings, seed=seed)), dry_run)


def pretrain(
    call: Call,
    settings: Sequence[str],
    dry_run: bool,
    *,
    layers: Annotated[int, Typed("Layers of the new backbone.")] = 4,
    hidden: Annotated[int, Typed("Dimensions of its token embeddings and hidden states.")] = 256,
    heads: Annotated[int, Typed("Its attention heads.")] = 4,
    inner: Annotated[int, Typed("Width of its feed-forward layers.")] = 1_024,
    positions: Annotated[int, Typed("Longest text in tokens.")] = 128,
    dropout: Annotated[float, Typed("Dropout rate.")] = 0.1,
    minutes: Annotated[
        float | None,
        Typed(
            "Minutes of training steps, by a pace measured at the start; reading, a new vocabulary and the report "
            "take additional time, and a machine that gets busier takes longer."
        ),
    ] = None,
    tokens: Annotated[int | None, Typed("Tokens to train on; by default the recipe's budget.")] = None,
    seed: SeedOption = None,
) -> None:
    """Pretrain a small BERT on raw text by masked language modelling, or adapt one to your domain.

    The masked-LM head is saved with the weights, so that pretraining and the mlm term can continue from them.
    """
    from opencse.making.backbone import Shape
    from opencse.settings import validate

    size = {
        "layers": layers, "hidden": hidden, "heads": heads, "inner": inner, "positions": positions, "dropout": dropout
    }  # fmt: skip
    shape = validate(Shape, size, "shape")
    changes = settings_with(settings, seed=seed, minutes=minutes, tokens=tokens)
    show_run(call(shape=None if shape == Shape() else shape, settings=changes), dry_run)


def questions(call: Call, corpus: str, out: str, dry_run: bool) -> None:
    """Have a language model write questions about your documents, to adapt an encoder to them.

    The texts are sent to the server, which may be yours (vLLM, llama.cpp, Ollama) or a service. Requests, tokens and
    cost are printed first; --dry-run stops there. After Ctrl-C the same command continues.
    """
    import shlex

    from opencse.text.files.kinds import typed
    from opencse.text.files.lines import name_in_command

    written = call()
    if dry_run:
        for line in written.prompt.splitlines():
            echo(line)
    else:
        text = [name_in_command(corpus), *typed(call.keywords)]
        following = shlex.join(["opencse", "adapt", *text, "--questions", str(out), "--out", "my-model"])
        echo(f"{out}: {number_of(written.questions, 'question')}; {following}")


def finish(call: Call, folder: Path) -> None:
    """Make a usable model out of an interrupted run: the model of its best step so far.

    The run may have been stopped or killed. Its checkpoint stays, so the run can still be continued with --resume.
    """
    call()
    echo(str(folder))


def check(call: Call, text: str, model: str, *, json_file: Json = None) -> None:
    """Look at a text before training on it: duplicates, lengths, unknown tokens, scripts; with advice."""
    from opencse.records import save_json

    result = call()
    if json_file is not None:
        save_json(json_file, result.model_dump(mode="json"))
    for line in lines_of_check(result, model):
        echo(line)


def lines_of_check(result: CorpusCheck, model: str) -> list[str]:
    """What a check found, one line for each kind of finding."""
    from opencse.text.check import script_title

    (share, words), *others = ((f"{float(share):.0%}", f"{words:.0f}") for share, words in result.words.items())
    lengths = ", ".join([f"at most {words} in {share} of the texts", *(f"{most} in {part}" for part, most in others)])
    scripts = ", ".join(
        f"{script_title(name)} {share:.1%}" for name, share in list(result.scripts.items())[:4] if share >= 0.0005
    )
    by_line = any("one text per line" in line for line in result.read_as)
    separate = by_line and result.width == 1 and not result.documents
    near = [] if result.near_duplicates is None else [f"near        {result.near_duplicates:.1%} nearly repeat another"]
    lines = [
        *(f"file        {line}" for line in result.read_as),
        f"text        {result.source}: {number_of(result.rows, 'row')} of {number_of(result.width, 'text')}"
        + (f", {number_of(result.documents, 'document')}" if result.documents else "")
        + (", no blank lines, so adapt takes each line as a document" if separate else ""),
        f"words       {lengths}",
        f"near empty  {result.near_empty:.1%} under 3 words, {result.without_letters:.1%} without a letter",
        f"duplicates  {result.duplicates:.1%}",
        *(f"            {count:,} x {text}" for text, count in result.most_repeated),
        *near,
        *(f"            {row} ~ {earlier}" for row, earlier in result.nearly_repeated),
        f"scripts     {scripts or 'no letters'}",
    ]
    if result.tokens_per_word is not None:
        lines.append(
            f"tokens      {result.tokens_per_word:.2f} per word, {result.unknown:.2%} unknown to {model}, "
            f"{result.cut:.1%} of texts longer than {result.max_length} tokens "
            f"({number_of(result.sampled, 'text')} sampled)"
        )
    lines += [f"advice      {line}" for line in result.advice or ["nothing stands out"]]
    return lines + ([f"next        {result.command}"] if result.command else [])
