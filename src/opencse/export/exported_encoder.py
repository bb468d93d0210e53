"""Encodes a few texts with the ONNX export of a model instead of the model, so that torch need not be loaded."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from opencse.arrays import Embeddings
from opencse.encoder.batches import as_list, as_vectors
from opencse.encoder.damage import require_sound_vectors
from opencse.encoder.fingerprint import hash_model
from opencse.errors import UserError
from opencse.export.runtime import DESCRIPTION, GRAPH, TOKENIZER, OnnxEncoder
from opencse.model_folder.hybrid_weight import read_hybrid_weight
from opencse.model_folder.listing import list_modules
from opencse.modules.prompts import Role
from opencse.modules.similarity import Similarity
from opencse.progress import Count
from opencse.text.rust_tokenizer import Ids, RustTokenizer


class ExportedEncoder:
    """Turns texts into vectors with an export; see `opencse.encoder.text_encoder.TextEncoder`.

    Args:
        onnx: the export.
        folder: of the model that it was made of.
    """

    own_code: tuple[str, ...] = ()
    device_kind = "cpu"
    network_name = "OnnxEncoder"

    def __init__(self, onnx: OnnxEncoder, folder: Path) -> None:
        about = onnx.description
        self._onnx = onnx
        self._fingerprint = str(about["fingerprint"])
        self.prompts = onnx.prompts
        self.similarity_fn_name = Similarity(about["similarity"])
        self.max_length = int(about["max_length"])
        self.hybrid_weight = read_hybrid_weight(folder)
        self.weight_bytes = (onnx.folder / GRAPH).stat().st_size
        longest = about.get("max_characters")
        by_id = None if longest is None else int(longest) // self.max_length
        self.tokenizer = RustTokenizer(onnx.tokenizer, characters_per_id=by_id)

    @property
    def dimension(self) -> int:
        """Number of dimensions of a vector."""
        return self._onnx.dimension

    def fingerprint(self) -> str:
        """That of the model when it was exported."""
        return self._fingerprint

    def tokenize(self, texts: Sequence[str], prompt: str = "") -> list[Ids]:
        """Token ids of each text with ``prompt`` in front, truncated to ``max_length``."""
        return self.tokenizer.encode([prompt + text for text in texts], self.max_length)

    def encode_ids(self, rows: Sequence[Ids]) -> Embeddings:
        """(n, dimension) vectors of texts that are given as ids, at least one each."""
        return self._onnx.encode_ids(rows)

    def encode(
        self,
        texts: Iterable[str],
        prompt_name: str | None = None,
        prompt: str | None = None,
        *,
        precision: Literal["float32", "bf16"] = "float32",
        progress: Count | None = None,
    ) -> Embeddings:
        """(n, dimension) vectors of texts; see `SentenceEncoder.encode`. They are float32 in any precision."""
        del precision
        rows = as_list([texts] if isinstance(texts, str) else texts)
        vectors = self._onnx.encode(rows, prompt_name, prompt)
        require_sound_vectors(self, vectors, rows)
        if progress is not None:
            progress(len(rows), len(rows))
        return vectors

    def encode_query(self, texts: Iterable[str]) -> Embeddings:
        """(n, dimension) vectors of queries."""
        return self.encode(texts, prompt=self.prompts.of(Role.QUERY))

    def encode_document(self, texts: Iterable[str], *, progress: Count | None = None) -> Embeddings:
        """(n, dimension) vectors of documents."""
        return self.encode(texts, prompt=self.prompts.of(Role.DOCUMENT), progress=progress)

    def similarity(
        self, a: str | Sequence[str] | NDArray[np.floating], b: str | Sequence[str] | NDArray[np.floating]
    ) -> Embeddings:
        """Compares every a with every b: (n, m)."""
        return self.similarity_fn_name.matrix(as_vectors("a", a, self.encode), as_vectors("b", b, self.encode))


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
