"""Encodes a few texts with the ONNX export of a model instead of the model, so that torch need not be loaded."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from opencse.arrays import Embeddings
from opencse.encoder.fingerprint import hash_model
from opencse.encoder.torchless import TorchlessEncoder
from opencse.errors import UserError
from opencse.export.runtime import DESCRIPTION, GRAPH, TOKENIZER, OnnxEncoder
from opencse.model_folder.hybrid_weight import read_hybrid_weight
from opencse.model_folder.listing import list_modules
from opencse.model_folder.torchless_parts import TorchlessParts
from opencse.modules.similarity import Similarity
from opencse.progress import Count
from opencse.text.rust_tokenizer import Ids, RustTokenizer


class ExportedEncoder(TorchlessEncoder):
    """Turns texts into vectors with an export; see `opencse.encoder.text_encoder.TextEncoder`.

    Args:
        onnx: the export.
        folder: of the model that it was made of.
    """

    kind = "an export"

    def __init__(self, onnx: OnnxEncoder, folder: Path) -> None:
        about = onnx.description
        self._onnx = onnx
        self._fingerprint = str(about["fingerprint"])
        max_length = int(about["max_length"])
        longest = about.get("max_characters")
        by_id = None if longest is None else int(longest) // max_length
        tokenizer = RustTokenizer(onnx.tokenizer, characters_per_id=by_id)
        similarity = Similarity(about["similarity"])
        super().__init__(
            TorchlessParts(tokenizer, max_length, True, onnx.prompts, similarity, read_hybrid_weight(folder))
        )

    @property
    def dimension(self) -> int:
        """Number of dimensions of a vector."""
        return self._onnx.dimension

    def fingerprint(self) -> str:
        """That of the model when it was exported."""
        return self._fingerprint

    @property
    def weight_bytes(self) -> int:
        """Bytes of the graph with its weights."""
        return (self._onnx.folder / GRAPH).stat().st_size

    @property
    def id_count(self) -> int:
        """Number of word vectors, as far as the vocabulary says."""
        return self.tokenizer.vocabulary_size

    def vectors_of_ids(self, rows: Sequence[Ids]) -> Embeddings:
        """(n, dimension) vectors of texts that are given as ids, at least one each."""
        return self._onnx.encode_ids(rows)

    def vectors_of_texts(
        self, texts: Sequence[str], prompt: str, *, batch_size: int | None = None, progress: Count | None = None
    ) -> Embeddings:
        """(n, dimension) vectors of checked texts; the export forms its own batches."""
        del batch_size
        vectors = self._onnx.encode(texts, prompt=prompt)
        if progress is not None:
            progress(len(texts), len(texts))
        return vectors


def open_export(folder: Path) -> ExportedEncoder | None:
    """Opens the export of the model in ``folder``, where it gives the model's vectors; None without such an export.

    It is in ``FOLDER/onnx`` or ``FOLDER-onnx``, in float32, was made of the files that are in the folder now, and the
    model itself L2-normalises, as an export does. Other exports are left alone.

    Args:
        folder: of the model.
    """
    if find_spec("onnxruntime") is None:
        return None
    model = folder.absolute()  # a folder such as . has no name
    for export in (model / "onnx", model.with_name(f"{model.name}-onnx")):
        if not (export / TOKENIZER).is_file() or not _is_of(folder, export / DESCRIPTION):
            continue
        return ExportedEncoder(OnnxEncoder(export), folder)
    return None


def _is_of(folder: Path, description: Path) -> bool:
    """Whether an export gives the vectors of the model in ``folder``."""
    try:
        about: dict[str, Any] = json.loads(description.read_text(encoding="utf-8"))
        if not isinstance(about, dict):
            return False
        modules = list_modules(folder)
        unit = modules is not None and modules.normalize is not None
        exact = about.get("precision") == "float32" and bool(about.get("files"))
        return unit and exact and about["files"] == hash_model(folder)
    except (OSError, ValueError, UserError):
        return False
