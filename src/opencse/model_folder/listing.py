"""Reads modules.json, the list of a sentence-transformers model's modules and their folders."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from opencse.errors import UserError
from opencse.model_folder.layout import TOKEN_WEIGHTS, read_json
from opencse.model_folder.table_rows import table_folder

_MODULES = ("Transformer", "WeightedLayerPooling", TOKEN_WEIGHTS, "Pooling", "Dense", "Normalize")
_CONFIGURED = tuple(name for name in _MODULES if name != "Normalize")
"""Modules with files; the folder of the others is empty and may be missing (git stores no empty folders)."""
_MODULE_FOLDER = re.compile(r"\d+_[A-Z][A-Za-z0-9]*")


@dataclass(frozen=True)
class Modules:
    """The folders of the modules in modules.json; ``transformer`` is the table's for a table of word vectors."""

    transformer: Path
    pooling: Path
    weighted_layers: Path | None
    token_weights: Path | None
    dense: tuple[Path, ...]
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
    paths: dict[str, list[Path]] = {name: [] for name in _MODULES}
    last = ""
    for module in entries if isinstance(entries, list) else [entries]:
        if not isinstance(module, dict) or not {"type", "path"} <= module.keys():
            raise UserError(f"{listing}: a list of objects with type and path was expected")
        package, _, name = str(module["type"]).rpartition(".")
        if table is not None and not last and name == "StaticEmbedding":
            paths["Transformer"].append(table)
            paths["Pooling"].append(table)
            last = "Pooling"
            continue
        if name not in _MODULES or package.split(".")[0] != "sentence_transformers":
            supported = ", ".join(_MODULES)
            raise UserError(f"{folder}: module {module['type']} is not supported here; supported: {supported}")
        before = last and _MODULES.index(name) < _MODULES.index(last)
        again = paths[name] and name != "Dense"
        if before or again:
            raise UserError(f"{folder}: modules in an order that is not supported here ({name} after {last})")
        paths[name].append(module_folder(listing, module["path"]))
        last = name
    if not paths["Transformer"] or not paths["Pooling"]:
        raise UserError(f"{folder}: modules.json lacks a Transformer or a Pooling module")
    for name in _CONFIGURED:
        for path in paths[name]:
            if not path.is_dir():
                raise UserError(
                    f"{listing}: names the {name} module in {path.name}, but there is no such folder; copy it from "
                    "the model that this folder was made of"
                )
    transformer = paths["Transformer"][0]
    return Modules(
        transformer=transformer,
        pooling=paths["Pooling"][0],
        weighted_layers=next(iter(paths["WeightedLayerPooling"]), None),
        token_weights=next(iter(paths[TOKEN_WEIGHTS]), None),
        dense=tuple(paths["Dense"]),
        normalize=next(iter(paths["Normalize"]), None),
        table=table is not None,
    )


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
