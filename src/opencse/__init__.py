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
    "check_index",
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
    from opencse.api.asking import questions
    from opencse.api.checking import check
    from opencse.api.demo import demo
    from opencse.api.diagnosis import doctor
    from opencse.api.encoding import encode
    from opencse.api.evaluation import evaluate, evaluate_all
    from opencse.api.exporting import export_onnx, export_static
    from opencse.api.finishing import finish
    from opencse.api.index import (
        add_to_index,
        build_index,
        check_index,
        delete_from_index,
        export_index,
        index_duplicates,
        index_info,
        index_negatives,
        index_pairs,
        query_index,
    )
    from opencse.api.labelling import label, label_scores
    from opencse.api.looking import analyze
    from opencse.api.making import static, whiten
    from opencse.api.recipes import diff_recipes, list_presets, list_recipes, show_recipe
    from opencse.api.serving import serve
    from opencse.api.sharing import merge, push
    from opencse.api.studies import compare, reproduce
    from opencse.api.training import adapt, pretrain, train
    from opencse.api.tuning import tune_index
    from opencse.api.vectors import calibrate, nearest, similarity
    from opencse.encoder.encoder import SentenceEncoder
    from opencse.encoder.opening import load
    from opencse.errors import InterruptedRunError, UserError
    from opencse.search.index import Index

_HOMES = {
    "opencse.api.asking": ("questions",),
    "opencse.api.checking": ("check",),
    "opencse.api.demo": ("demo",),
    "opencse.api.diagnosis": ("doctor",),
    "opencse.api.encoding": ("encode",),
    "opencse.api.evaluation": ("evaluate", "evaluate_all"),
    "opencse.api.exporting": ("export_onnx", "export_static"),
    "opencse.api.finishing": ("finish",),
    "opencse.api.index": (
        "add_to_index",
        "build_index",
        "check_index",
        "delete_from_index",
        "export_index",
        "index_duplicates",
        "index_info",
        "index_negatives",
        "index_pairs",
        "query_index",
    ),
    "opencse.api.labelling": ("label", "label_scores"),
    "opencse.api.looking": ("analyze",),
    "opencse.api.making": ("static", "whiten"),
    "opencse.api.recipes": ("diff_recipes", "list_presets", "list_recipes", "show_recipe"),
    "opencse.api.serving": ("serve",),
    "opencse.api.sharing": ("merge", "push"),
    "opencse.api.studies": ("compare", "reproduce"),
    "opencse.api.training": ("adapt", "pretrain", "train"),
    "opencse.api.tuning": ("tune_index",),
    "opencse.api.vectors": ("calibrate", "nearest", "similarity"),
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
