"""Runs a folder of `opencse.export_onnx` with onnxruntime, without torch and transformers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from opencse.arrays import Embeddings
from opencse.encoder.text_encoder import TextEncoder
from opencse.environment import require_packages
from opencse.errors import explaining
from opencse.kernels.precision import PrecisionName
from opencse.modules.prompts import Prompts
from opencse.modules.similarity import Similarity
from opencse.text.rust_tokenizer import Ids, RustTokenizer, padded

if TYPE_CHECKING:
    from onnxruntime import InferenceSession


GRAPH, TOKENIZER, DESCRIPTION = "model.onnx", "tokenizer.json", "export.json"
IDS, MASK, VECTORS = "input_ids", "attention_mask", "sentence_embedding"


def require_onnx(*packages: str) -> None:
    """Raises a ``UserError`` if one of ``packages`` is not installed."""
    require_packages("an ONNX graph", "export", *packages)


def session(graph: Path, threads: int = 0) -> InferenceSession:
    """Opens an onnxruntime session of ``graph`` on the CPU; with ``threads`` 0 onnxruntime chooses their number."""
    from onnxruntime import InferenceSession, SessionOptions

    options = SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    return InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])


class OnnxEncoder(TextEncoder):
    """Encodes texts with an exported folder: L2-normalised vectors without torch.

    Attributes:
        description: content of ``export.json``: dimension, max_length, prompts, precision, checks.
        folder: of the export.
    """

    kind = "an export"

    def __init__(self, folder: str | Path, *, threads: int = 0) -> None:
        """Opens ``folder``.

        Args:
            folder: as `opencse.export_onnx` wrote it.
            threads: of onnxruntime; 0 lets it choose their number.

        Raises:
            UserError: if onnxruntime is not installed, or the folder is not such an export.
        """
        require_onnx("onnxruntime")
        from tokenizers import Tokenizer

        path = Path(folder)
        with explaining(
            f"{path}: cannot be opened as an ONNX export", Exception, fix="write it with opencse export onnx"
        ):  # onnxruntime and tokenizers raise exceptions of many kinds of their own
            about: dict[str, Any] = json.loads((path / DESCRIPTION).read_text(encoding="utf-8"))
            self.prompts = Prompts(about["prompts"], about["default_prompt_name"])
            self.max_length = int(about["max_length"])
            self._dimension = int(about["dimension"])
            self.similarity_fn_name = Similarity(about["similarity"])
            backend = Tokenizer.from_file(str(path / TOKENIZER))
            self._session = session(path / GRAPH, threads)
        self._pad_id = int((backend.padding or {}).get("pad_id", 0))
        side, longest = (backend.truncation or {}).get("direction", "right"), about["max_characters"]
        by_id = None if longest is None else int(longest) // self.max_length
        self.tokenizer: RustTokenizer = RustTokenizer(backend, truncation_side=side, characters_per_id=by_id)
        self.description, self.folder, self.normalize = about, path, True

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return self._dimension

    @property
    def id_count(self) -> int:
        """Number of word vectors, as far as the vocabulary says."""
        return self.tokenizer.vocabulary_size

    @property
    def weight_bytes(self) -> int:
        """Bytes of the graph with its weights."""
        return (self.folder / GRAPH).stat().st_size

    def fingerprint(self) -> str:
        """That of the model when it was exported."""
        return str(self.description["fingerprint"])

    def encode_ids(
        self, rows: Sequence[Ids], unpooled: int | Sequence[int] = 0, *, precision: PrecisionName = "float32"
    ) -> Embeddings:
        """L2-normalised vectors (n, dimension) of texts that are given as ids; all tokens are pooled."""
        ids, lengths = padded(rows, self._pad_id)
        mask = (np.arange(ids.shape[1]) < lengths[:, None]).astype(np.int64)
        return np.asarray(self._session.run([VECTORS], {IDS: ids, MASK: mask})[0])
