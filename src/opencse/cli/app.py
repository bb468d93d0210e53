"""Finds the commands of ``opencse``: each is a function of `opencse.commands`, which is imported when it is called."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

import opencse
from opencse.errors import UserError, require_known
from opencse.processes import started

EXAMPLES: dict[str, list[str]] = {
    "adapt": [
        "opencse adapt docs.jsonl --out my-model",
        "opencse adapt handbook/ --pairs asked.csv --columns question,answer --out my-model",
        "opencse adapt docs.jsonl --model sentence-transformers/all-MiniLM-L6-v2 --out my-model",
        "opencse adapt docs.jsonl --dev queries/ --metric recall@100 --out my-model",
    ],
    "train": [
        "opencse train corpus.txt --out my-model",
        "opencse train pairs.csv --recipe simcse-supervised --columns question,answer --out my-model",
        "opencse train corpus.txt --out my-model --resume",
    ],
    "questions": [
        "opencse questions docs.jsonl --endpoint http://localhost:8000/v1 --model NAME --dry-run",
        "opencse questions docs.jsonl --endpoint http://localhost:8000/v1 --model NAME --examples queries.txt",
        "opencse adapt docs.jsonl --questions pairs.jsonl --out my-model",
    ],
    "check": ["opencse check corpus.txt", "opencse check corpus.txt --near-duplicates 0.8"],
    "recipes": ["opencse recipes", "opencse recipes show simcse", "opencse recipes diff simcse esimcse"],
    "recipes presets": ["opencse recipes presets simcse"],
    "recipes show": ["opencse recipes show simcse:bert-large", "opencse recipes show esimcse --source"],
    "recipes diff": ["opencse recipes diff simcse esimcse"],
    "evaluate": [
        "opencse evaluate opencse-mini my-model --data sts-data",
        "opencse evaluate my-model --suite retrieval --data my-queries --json scores.json",
        "opencse evaluate my-model --suite retrieval --data my-queries --hybrid --rerank my-cross-encoder",
        "opencse evaluate my-model --data sts-data --dimensions 64,128,256",
    ],
    "analyze": [
        "opencse analyze my-model --text corpus.txt --open",
        "opencse analyze opencse-mini my-model --query 'A dog barks.' --out page",
    ],
    "compare": [
        "opencse compare corpus.txt --recipes simcse,esimcse --seeds 42-46 --data sts-data --out study",
        "opencse compare study.toml",
    ],
    "reproduce": ["opencse reproduce simcse:bert-base wiki1m.txt --data sts-data --out simcse-again"],
    "calibrate": [
        "opencse calibrate my-model corpus.txt",
        "opencse calibrate my-model corpus.txt --pairs labelled.tsv",
    ],
    "encode": [
        "opencse encode my-model texts.txt --out vectors.npy",
        "opencse encode my-model texts.csv --column body --numbers float16 --out vectors",
        "cat texts.txt | opencse encode my-model - --out -",
    ],
    "index": [
        "opencse index build my-index my-model docs.csv --fields title,text --metadata lang",
        "opencse index query my-index 'how do I reset it?' --where lang=en",
    ],
    "index build": [
        "opencse index build my-index my-model docs.txt",
        "opencse index build my-index my-model docs.csv --fields title,text --id number --metadata lang,year",
    ],
    "index add": ["opencse index add my-index more.csv --fields title,text --id number --replace"],
    "index delete": ["opencse index delete my-index 17 18", "opencse index delete my-index --where 'year<2010'"],
    "index query": [
        "opencse index query my-index 'how do I reset it?' -k 5",
        "opencse index query my-index 'error E42' --hybrid --where lang=en,de",
        "opencse index query my-index 'how do I reset it?' --rerank cross-encoder/ms-marco-MiniLM-L6-v2",
    ],
    "index info": ["opencse index info my-index"],
    "index tune": ["opencse index tune my-index", "opencse index tune my-index --dev queries"],
    "index pairs": ["opencse index pairs my-index -n 50"],
    "index duplicates": ["opencse index duplicates my-index --threshold 0.95"],
    "index negatives": [
        "opencse index negatives my-index pairs.csv --columns question,answer --out triples.jsonl",
        "opencse index negatives my-index pairs.csv --teacher my-cross-encoder --least-margin 0 --out margins.jsonl",
    ],
    "index export": ["opencse index export my-index lancedb lance-folder --name docs"],
    "label": [
        "opencse label my-index --out queries",
        "opencse label first-index my-index --out queries    # judge the hits of two models, to compare them",
        "opencse label my-index --queries asked.txt --split 0.5",
    ],
    "finish": ["opencse finish my-model"],
    "nearest": ["opencse nearest opencse-mini my-model --corpus corpus.txt --query 'A dog barks.'"],
    "serve": [
        "opencse serve my-model --index my-index",
        "opencse serve my-model --index my-index --rerank my-cross-encoder",
        "opencse serve my-model --host 0.0.0.0 --port 8080 --api-key-file keys.txt",
    ],
    "similarity": ["opencse similarity my-model 'A dog barks.' 'A hound bays.' 'It rains.'"],
    "export": [
        "opencse export onnx my-model --out my-onnx",
        "opencse export static my-model --corpus corpus.txt --out my-table",
    ],
    "export onnx": ["opencse export onnx my-model --int8 --pairs graded.tsv --out my-onnx"],
    "export static": ["opencse export static my-model --corpus corpus.txt --out my-table"],
    "push": ["opencse push my-model my-account/my-model --private"],
    "merge": ["opencse merge my-model/adapter --out merged"],
    "whiten": ["opencse whiten my-model corpus.txt --dimension 128 --out white"],
    "static": ["opencse static corpus.txt --out words", "opencse train corpus.txt --model words --out my-model"],
    "pretrain": [
        "opencse pretrain corpus.txt --minutes 90 --out my-bert",
        "opencse pretrain corpus.txt --model bert-base-uncased --tokens 5000000 --out my-bert",
    ],
    "demo": ["opencse demo", "opencse demo --out demo-out --seed 7"],
    "doctor": ["opencse doctor"],
}


def epilog_of(words: str) -> str:
    """The examples of the command ``words``, formatted for the end of its ``--help``."""
    lines = EXAMPLES.get(words, [])
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)]) if lines else ""


PURPOSES = {
    "Train": {
        "adapt": "Adapt an encoder to your documents; no labels needed.",
        "questions": "Have a language model write questions about your documents, to adapt to.",
        "train": "Train a sentence encoder from text by a recipe; no labels needed.",
        "finish": "Make a usable model out of an interrupted run.",
        "check": "Look at a text before training on it; with advice.",
        "recipes": "List the recipes; show their settings, presets and differences.",
    },
    "Evaluate": {
        "evaluate": "Score encoders: STS, transfer, probing, retrieval.",
        "analyze": "Write a page about one model, or several side by side.",
        "compare": "Compare recipes over seeds and starting models.",
        "reproduce": "Train a paper's system: published scores next to yours.",
        "label": "Type queries and mark right texts on a local page, for evaluate and adapt.",
        "calibrate": "Measure what a cosine of a model means on your text.",
    },
    "Use": {
        "encode": "Turn texts into vectors, in a file or folder.",
        "index": "Keep vectors in a folder: search, filters, pairs, duplicates.",
        "nearest": "Show the sentences nearest to a query by one or more encoders.",
        "serve": "Serve encoders over HTTP: OpenAI-style embeddings, search, a page.",
        "similarity": "Cosine similarity of one text to others.",
        "export": "Write an encoder as ONNX, or as a table of word vectors.",
        "push": "Put an encoder on the Hub, with its card.",
        "merge": "Merge adapters (LoRA) into their model, in a folder that opens anywhere.",
        "whiten": "Whiten an encoder with a linear map fitted on a text.",
    },
    "Make a new encoder": {
        "static": "Make a sentence encoder by counting words, in minutes.",
        "pretrain": "Pretrain a small BERT on raw text, or adapt one to your domain.",
    },
    "Help": {
        "demo": "Train, evaluate and search on the built-in sample, offline.",
        "doctor": "Find common problems; versions and hardware for a bug report.",
    },
}
"""The line of each command in ``--help``, by purpose. Written here, because importing all commands would be slow."""

COMMANDS = {name: summary for commands in PURPOSES.values() for name, summary in commands.items()}

WELCOME = """\
OpenCSE makes sentence-embedding models from raw text.

  Adapt a model to your text    opencse adapt docs.jsonl --out my-model
  Check it on your queries      opencse evaluate opencse-mini my-model --suite retrieval --data queries
  Search with it, or serve it   opencse index build my-index my-model docs.jsonl
                                opencse serve my-model --index my-index

See it work first (offline, about a minute):  opencse demo
All commands:  opencse --help      Of one:  opencse adapt --help
"""

_IN_SEVERAL = {"train", "pretrain", "adapt"}


class Commands(TyperGroup):
    """The commands by name, each imported when it is requested."""

    def list_commands(self, ctx: object) -> list[str]:
        """The names of the commands, in the order of ``--help``."""
        return list(COMMANDS)

    def get_command(self, ctx: object, cmd_name: str) -> Any:  # noqa: ANN401 - a private class of typer's
        """The command called ``cmd_name``.

        Raises:
            UserError: if there is none.
        """
        if cmd_name not in COMMANDS and (matches := [words for words in EXAMPLES if words.split()[1:] == [cmd_name]]):
            raise UserError(f"unknown command {cmd_name!r}; did you mean opencse {matches[0]}?")
        require_known(cmd_name, list(COMMANDS), "command")
        if cmd_name not in _IN_SEVERAL and started().several:
            raise UserError(
                f"opencse {cmd_name} runs in one process; only {', '.join(sorted(_IN_SEVERAL))} run in several"
            )
        return _built(cmd_name)

    def format_commands(self, ctx: object, formatter: Any) -> None:  # noqa: ANN401 - a private class of typer's
        """Writes the list of commands for ``--help``."""
        for purpose, commands in PURPOSES.items():
            with formatter.section(purpose):
                formatter.write_dl(list(commands.items()), col_max=12)


_FACES = {"Train": "training", "Evaluate": "evaluating"}
"""The modules of `opencse.cli` with the faces of commands, by purpose; all others are in ``using``."""
_OF_SEVERAL = {"evaluate": "evaluate_all"}
"""The functions whose commands have other names."""
GROUPS = {
    "index": {
        "build": "build_index",
        "add": "add_to_index",
        "delete": "delete_from_index",
        "query": "query_index",
        "info": "index_info",
        "tune": "tune_index",
        "pairs": "index_pairs",
        "duplicates": "index_duplicates",
        "negatives": "index_negatives",
        "export": "export_index",
    },
    "export": {"onnx": "export_onnx", "static": "export_static"},
    "recipes": {"presets": "list_presets", "show": "show_recipe", "diff": "diff_recipes"},
}
"""The commands of commands, with the functions of their parts."""
_PLAIN: dict[str, Any] = {"add_completion": False, "rich_markup_mode": None}


def face_of(name: str, function: str) -> Callable[..., None]:
    """The function that prints what ``function`` gives, for the command ``name``."""
    purpose = next(one for one, commands in PURPOSES.items() if name in commands)
    module = (
        name if name in ("index", "recipes") else _FACES.get(purpose, "training" if name == "pretrain" else "using")
    )
    face: Callable[..., None] = getattr(importlib.import_module(f"opencse.cli.{module}"), function)
    return face


@functools.cache
def _built(name: str) -> Any:  # noqa: ANN401 - a private class of typer's
    """The command as typer makes it from the signature of its function, which takes 5 ms."""
    from opencse.cli.parameters import TypedCommand, typed_command

    parts = GROUPS.get(name, {})
    command = typer.Typer(**_PLAIN, context_settings={} if parts else _SETTINGS)
    if parts:
        command.callback(invoke_without_command=name == "recipes", no_args_is_help=name != "recipes")(_OVERVIEWS[name])
    for word, function in (parts or {name: _OF_SEVERAL.get(name, name)}).items():
        face = typed_command(face_of(name, function), getattr(opencse, function))
        command.command(word, cls=TypedCommand)(face)
    built: Any = get_command(command)
    _describe(built, name)
    for part, inner in (getattr(built, "commands", None) or {}).items():
        _describe(inner, f"{name} {part}")
        inner.short_help = inner.help.partition("\n\n")[0]  # typer would end it after 45 letters
    return built


def _index() -> None:
    """Build, change and search an index of texts."""


def _export() -> None:
    """Write an encoder in another form."""


def _recipes(context: typer.Context) -> None:
    """List the recipes; show their settings, presets and differences."""
    if context.invoked_subcommand is None:
        from opencse.cli.recipes import overview

        overview()


_OVERVIEWS: dict[str, Callable[..., None]] = {"index": _index, "export": _export, "recipes": _recipes}


def _describe(command: Any, words: str) -> None:  # noqa: ANN401 - a private class of typer's
    """Completes what ``--help`` shows: examples, and arguments by the names that the sentences use (TEXT, INDEX)."""
    command.epilog = epilog_of(words)
    for parameter in command.params:
        if parameter.metavar is None and parameter.param_type_name == "argument":
            parameter.metavar = parameter.name.upper()
        elif parameter.metavar is None and getattr(parameter, "multiple", False):
            parameter.metavar = "<str>"  # typer has <list[str]>; the sentence says that it may be repeated


_SETTINGS = {"help_option_names": ["-h", "--help"]}
app = typer.Typer(
    cls=Commands,
    name="opencse",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain: rich's own would take as long as all the rest
    context_settings=_SETTINGS,
)


@app.callback(invoke_without_command=True)
def start(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", help="Print the version and exit.", is_eager=True),
) -> None:
    """Raw text in, an evaluated sentence-embedding model out."""
    if version:
        from opencse.version import __version__

        typer.echo(__version__)
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(WELCOME, nl=False)
