"""Reads modules.json, the list of a sentence-transformers model's modules and their folders."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from opencse.errors import UserError
from opencse.model_folder.layout import TOKEN_WEIGHTS, read_json
from opencse.model_folder.table_rows import table_folder

_BEFORE = ("Transformer", "WeightedLayerPooling", TOKEN_WEIGHTS, "Pooling")
"""The modules from text to one vector, in this order, each once."""
_AFTER = ("Dense", "LayerNorm", "Dropout", "Normalize")
"""The modules that change the vector, in any order."""
_MODULE_FOLDER = re.compile(r"\d+_[A-Z][A-Za-z0-9]*")


@dataclass(frozen=True)
class LayerFolder:
    """A module after the pooling: its name in sentence-transformers, and its folder."""

    name: str
    folder: Path


@dataclass(frozen=True)
class Modules:
    """The folders of the modules in modules.json.

    Attributes:
        transformer: of the backbone; the table's for a table of word vectors.
        pooling: with the configuration of the pooling.
        weighted_layers: the weights of layers, if there are any.
        token_weights: the weights of tokens, if there are any.
        layers: what changes the pooled vector, in order, without a Normalize at the end.
        normalize: the Normalize at the end, if there is one.
        table: whether the backbone is a table of word vectors.
    """

    transformer: Path
    pooling: Path
    weighted_layers: Path | None
    token_weights: Path | None
    layers: tuple[LayerFolder, ...]
    normalize: Path | None
    table: bool = False


def list_modules(folder: Path) -> Modules | None:
    """The modules that modules.json lists; None for a plain transformers folder."""
    listing = folder / "modules.json"
    table = table_folder(folder)
    if not listing.is_file():
        _refuse_unlisted(folder)
        return None if table is None else Modules(folder, folder, None, None, (), None, table=True)
    entries = read_json(listing)
    folders: dict[str, Path] = {}
    layers: list[LayerFolder] = []
    last = ""
    for module in entries if isinstance(entries, list) else [entries]:
        if not isinstance(module, dict) or not {"type", "path"} <= module.keys():
            raise UserError(f"{listing}: a list of objects with type and path was expected")
        package, _, name = str(module["type"]).rpartition(".")
        if table is not None and not last and name == "StaticEmbedding":
            folders = {"Transformer": table, "Pooling": table}
            last = "Pooling"
            continue
        if name not in (*_BEFORE, *_AFTER) or package.split(".")[0] != "sentence_transformers":
            supported = ", ".join((*_BEFORE, *_AFTER))
            raise UserError(f"{folder}: module {module['type']} is not supported here; supported: {supported}")
        if not _may_follow(name, last):
            where = f"{name} after {last}" if last else f"{name} first"
            raise UserError(f"{folder}: modules in an order that is not supported here ({where})")
        path = module_folder(listing, module["path"])
        if name != "Normalize" and not path.is_dir():  # the folder of a Normalize is empty, and git stores none
            raise UserError(
                f"{listing}: names the {name} module in {path.name}, but there is no such folder; copy it from the "
                "model that this folder was made of"
            )
        if name in _AFTER:
            layers.append(LayerFolder(name, path))
        else:
            folders[name] = path
        last = name
    if "Transformer" not in folders or "Pooling" not in folders:
        raise UserError(
            f"{folder}: modules.json lacks a Transformer or a Pooling module, so this gives no vectors of texts; a "
            "cross-encoder re-ranks, by --rerank"
        )
    normalize = layers.pop().folder if layers and layers[-1].name == "Normalize" else None
    return Modules(
        transformer=folders["Transformer"],
        pooling=folders["Pooling"],
        weighted_layers=folders.get("WeightedLayerPooling"),
        token_weights=folders.get(TOKEN_WEIGHTS),
        layers=tuple(layers),
        normalize=normalize,
        table=table is not None,
    )


def _may_follow(name: str, last: str) -> bool:
    """Whether the module ``name`` may come after ``last``, which is empty for the first one."""
    if name in _AFTER:
        return last == "Pooling" or last in _AFTER
    return not last or (last in _BEFORE and _BEFORE.index(name) > _BEFORE.index(last))


def _refuse_unlisted(folder: Path) -> None:
    """Refuses folders of modules without modules.json: they would be left out silently."""
    unlisted = sorted(path.name for path in folder.iterdir() if _MODULE_FOLDER.fullmatch(path.name) and path.is_dir())
    if unlisted:
        raise UserError(
            f"{folder}: modules.json is missing, which says how {', '.join(unlisted)} is used; copy modules.json from "
            "the model that this folder was made of, or delete the folders of modules to read the transformer alone"
        )


def module_folder(listing: Path, path: object) -> Path:
    """The folder of a module, which is in the model's folder or the folder itself.

    Args:
        listing: the file modules.json.
        path: of the module, as it is written there.

    Raises:
        UserError: for a path that leads out of the model's folder.
    """
    folder = listing.parent
    if not isinstance(path, str) or Path(path).is_absolute() or ".." in Path(path).parts or "\0" in path:
        raise UserError(f"{listing}: path is {path!r}; the name of a folder inside {folder} was expected")
    return folder / path
