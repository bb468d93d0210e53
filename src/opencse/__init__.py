"""OpenCSE: raw text in, an evaluated sentence-embedding model out.

Every command is a function of the same name: ``opencse.train``, ``opencse.evaluate``, ... Each is loaded when it is
first used, so that ``import opencse`` costs nothing; ``dir(opencse)`` shows them all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opencse.version import __version__

__all__ = [
    "Index",
    "InterruptedRunError",
    "SentenceEncoder",
    "UserError",
    "__version__",
    "adapt",
    "add_to_index",
    "analyze",
    "build_index",
    "calibrate",
    "check",
    "compare",
    "delete_from_index",
    "demo",
    "diff_recipes",
    "doctor",
    "encode",
    "evaluate",
    "evaluate_all",
    "export_index",
    "export_onnx",
    "export_static",
    "finish",
    "index_duplicates",
    "index_info",
    "index_negatives",
    "index_pairs",
    "label",
    "label_scores",
    "list_presets",
    "list_recipes",
    "load",
    "merge",
    "nearest",
    "pretrain",
    "push",
    "query_index",
    "questions",
    "reproduce",
    "serve",
    "show_recipe",
    "similarity",
    "static",
    "train",
    "tune_index",
    "whiten",
]

if TYPE_CHECKING:
    from opencse.commands.analysis import analyze
    from opencse.commands.asking import questions
    from opencse.commands.checking import check
    from opencse.commands.demo import demo
    from opencse.commands.doctor import doctor
    from opencse.commands.encoding import encode
    from opencse.commands.evaluation import evaluate, evaluate_all
    from opencse.commands.exporting import export_onnx, export_static, merge, push
    from opencse.commands.finishing import finish
    from opencse.commands.index import (
        add_to_index,
        build_index,
        delete_from_index,
        export_index,
        index_duplicates,
        index_info,
        index_negatives,
        index_pairs,
        query_index,
        tune_index,
    )
    from opencse.commands.labelling import label, label_scores
    from opencse.commands.making import static, whiten
    from opencse.commands.recipes import diff_recipes, list_presets, list_recipes, show_recipe
    from opencse.commands.serving import serve
    from opencse.commands.studies import compare, reproduce
    from opencse.commands.training import adapt, pretrain, train
    from opencse.commands.vectors import calibrate, nearest, similarity
    from opencse.encoder.encoder import SentenceEncoder
    from opencse.encoder.opening import load
    from opencse.errors import InterruptedRunError, UserError
    from opencse.search.index import Index

_HOMES = {
    "opencse.commands.asking": ("questions",),
    "opencse.commands.checking": ("check",),
    "opencse.commands.demo": ("demo",),
    "opencse.commands.doctor": ("doctor",),
    "opencse.commands.encoding": ("encode",),
    "opencse.commands.evaluation": ("evaluate", "evaluate_all"),
    "opencse.commands.exporting": ("export_onnx", "export_static", "merge", "push"),
    "opencse.commands.finishing": ("finish",),
    "opencse.commands.index": (
        "add_to_index",
        "build_index",
        "delete_from_index",
        "export_index",
        "index_duplicates",
        "index_info",
        "index_negatives",
        "index_pairs",
        "query_index",
        "tune_index",
    ),
    "opencse.commands.labelling": ("label", "label_scores"),
    "opencse.commands.analysis": ("analyze",),
    "opencse.commands.making": ("static", "whiten"),
    "opencse.commands.recipes": ("diff_recipes", "list_presets", "list_recipes", "show_recipe"),
    "opencse.commands.serving": ("serve",),
    "opencse.commands.studies": ("compare", "reproduce"),
    "opencse.commands.training": ("adapt", "pretrain", "train"),
    "opencse.commands.vectors": ("calibrate", "nearest", "similarity"),
    "opencse.encoder.encoder": ("SentenceEncoder",),
    "opencse.encoder.opening": ("load",),
    "opencse.errors": ("InterruptedRunError", "UserError"),
    "opencse.search.index": ("Index",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    """Loads a public name when it is first used."""
    if name not in _HOME_OF:
        raise AttributeError(f"module 'opencse' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    """The public names, loaded or not."""
    return sorted({*globals(), *__all__})
