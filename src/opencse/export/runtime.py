"""Runs a folder of `opencse.export_onnx` with onnxruntime, without torch and transformers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from opencse.arrays import Embeddings
from opencse.encoder.fingerprint import hash_model
from opencse.encoder.text_encoder import TorchlessEncoder, require_texts, token_batches
from opencse.environment import require_packages
from opencse.errors import UserError, reason
from opencse.model_folder.description import list_modules, read_hybrid_weight
from opencse.model_folder.without_torch import TorchlessParts
from opencse.modules.prompts import Prompts, Role
from opencse.modules.similarity import Similarity
from opencse.progress import Count
from opencse.text.rust_tokenizer import Ids, RustTokenizer

if TYPE_CHECKING:
    from onnxruntime import InferenceSession


GRAPH, TOKENIZER, DESCRIPTION = "model.onnx", "tokenizer.json", "export.json"
IDS, MASK, VECTORS = "input_ids", "attention_mask", "sentence_embedding"
_TOKEN_BUDGET = 2_048


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


class OnnxEncoder:
    """Encodes texts with an exported folder: L2-normalised vectors without torch.

    Attributes:
        description: content of ``export.json``: dimension, max_length, prompts, precision, checks.
        prompts: the model's prompts by name.
        tokenizer: of the tokenizers library; truncates at max_length.
        folder: of the export.
    """

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
        try:
            self.description: dict[str, Any] = json.loads((path / DESCRIPTION).read_text(encoding="utf-8"))
            self.prompts = _prompts(self.description)
            self._longest: int | None = self.description.get("max_characters")
            self._dimension = int(self.description["dimension"])
            self.tokenizer = Tokenizer.from_file(str(path / TOKENIZER))
            self._session = session(path / GRAPH, threads)
        except Exception as error:  # onnxruntime and tokenizers raise exceptions of many kinds of their own
            raise UserError(
                f"{path}: cannot be opened as an ONNX export ({reason(error)}); write it with opencse export onnx"
            ) from None
        padding = self.tokenizer.padding or {}
        self._pad_id = int(padding.get("pad_id", 0))
        self.tokenizer.no_padding()
        self.folder = path

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return self._dimension

    def encode_query(
        self, texts: str | Sequence[str], prompt_name: str | None = None, prompt: str | None = None
    ) -> NDArray[np.float32]:
        """Vectors of queries: `encode` with the prompt called ``query``, if the model has one."""
        return self.encode(texts, prompt=self.prompts.requested(Role.QUERY, prompt_name, prompt))

    def encode_document(
        self, texts: str | Sequence[str], prompt_name: str | None = None, prompt: str | None = None
    ) -> NDArray[np.float32]:
        """Vectors of documents: `encode` with the prompt called ``document``, if the model has one."""
        return self.encode(texts, prompt=self.prompts.requested(Role.DOCUMENT, prompt_name, prompt))

    def encode(
        self, texts: str | Sequence[str], prompt_name: str | None = None, prompt: str | None = None
    ) -> NDArray[np.float32]:
        """L2-normalised vectors (n, dimension) in the order of ``texts``; (dimension,) for a single text.

        Args:
            texts: one text or many.
            prompt_name: name of the model's prompt that is put before each text; by default its default prompt.
            prompt: text that is put before each text instead.

        Raises:
            UserError: if ``texts`` are not strings, or for an unknown prompt.
        """
        rows = [texts] if isinstance(texts, str) else list(texts)
        require_texts(rows)
        before = self.prompts.requested(Role.PLAIN, prompt_name, prompt)
        encoded = self.tokenizer.encode_batch_fast([(before + text)[: self._longest] for text in rows])
        vectors = self.encode_ids([np.asarray(text.ids, dtype=np.int32) for text in encoded])
        return vectors[0] if isinstance(texts, str) else vectors

    def encode_ids(self, ids: Sequence[NDArray[np.int32]]) -> NDArray[np.float32]:
        """L2-normalised vectors (n, dimension) of texts that are given as ids."""
        vectors = np.zeros((len(ids), self._dimension), dtype=np.float32)
        for indices in token_batches([len(row) for row in ids], _TOKEN_BUDGET):
            batch = [ids[i] for i in indices]
            lengths = np.array([len(row) for row in batch])
            padded = np.full((len(batch), max(1, int(lengths.max()))), self._pad_id, dtype=np.int64)
            for row, values in zip(padded, batch, strict=True):
                row[: len(values)] = values
            mask = (np.arange(padded.shape[1]) < lengths[:, None]).astype(np.int64)
            vectors[indices] = self._session.run([VECTORS], {IDS: padded, MASK: mask})[0]
        return vectors


def _prompts(description: Mapping[str, Any]) -> Prompts:
    """The prompts of an export; older ones have only a default prompt."""
    if "prompts" in description:
        return Prompts(dict(description["prompts"]), description.get("default_prompt_name"))
    return Prompts({"default": str(description["prompt"])}, "default")


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
