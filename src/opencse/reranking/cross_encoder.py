"""Scores pairs of texts by a cross-encoder, which reads both texts together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from opencse.encoder.network import default_device, usable_device
from opencse.encoder.text_encoder import token_batches, usual_budget
from opencse.errors import UserError, shortened
from opencse.kernels.precision import PrecisionName
from opencse.modules.dense import ACTIVATIONS
from opencse.progress import Count
from opencse.reranking.folder import CrossEncoderFolder, read_cross_encoder

_WINDOW = 8_192
"""Pairs that are tokenised and sorted by length together."""


class CrossEncoder:
    """A model that reads two texts together and gives one score, such as those trained on MS MARCO.

    The scores are those of sentence-transformers' ``CrossEncoder.predict``: its prompt, its activation and the longest
    pair are as the folder says. Pairs of similar length are computed together.

    Example:
        >>> reranker = CrossEncoder.load("cross-encoder/ms-marco-MiniLM-L6-v2")  # doctest: +SKIP
        >>> reranker.scores([("how do cats sleep?", "A cat sleeps curled up.")])  # doctest: +SKIP
        array([4.1], dtype=float32)

    Args:
        folder: the parts, see `opencse.reranking.folder.read_cross_encoder`.
        name: of the model, for messages and tables.
        device: where it runs.
        precision: ``float32`` or ``bf16``.
    """

    def __init__(
        self,
        folder: CrossEncoderFolder,
        *,
        name: str,
        device: torch.device,
        precision: PrecisionName = "float32",
    ) -> None:
        if precision not in ("float32", "bf16"):
            raise UserError(f"unknown precision {precision!r}; known: float32, bf16")
        self.name = name
        self.device = device
        self.max_length = folder.max_length
        self.own_code = folder.own_code
        self._precision = precision
        self._prompt = folder.prompt
        self._tokenizer = folder.tokenizer
        self._activation = ACTIVATIONS[folder.activation]()
        network: torch.nn.Module = folder.network
        self._network = network.to(device=device, dtype=torch.bfloat16 if precision == "bf16" else torch.float32)

    @classmethod
    def load(
        cls,
        model: str | Path,
        *,
        device: str | torch.device | None = None,
        precision: PrecisionName = "float32",
        trust_remote_code: bool = False,
    ) -> CrossEncoder:
        """Opens a cross-encoder.

        Args:
            model: a folder of sentence-transformers or transformers, or a Hub id.
            device: where it runs; None: a GPU if there is one.
            precision: ``float32`` or ``bf16``.
            trust_remote_code: run the code that the folder brings; read it first.

        Raises:
            UserError: if it is no cross-encoder with one output; see `opencse.reranking.folder.read_cross_encoder`.
        """
        runs_on = default_device() if device is None else usable_device(device)
        folder = read_cross_encoder(model, trust_remote_code=trust_remote_code)
        return cls(folder, name=str(model), device=runs_on, precision=precision)

    def scores(
        self, pairs: Sequence[tuple[str, str]], *, logits: bool = False, progress: Count | None = None
    ) -> NDArray[np.float32]:
        """The score of each pair of texts.

        Args:
            pairs: n pairs, query first; longer ones are truncated, the longer text of a pair first.
            logits: scores before the activation.
            progress: called with (pairs done, n).

        Returns:
            (n,) float32.

        Raises:
            UserError: if a score is NaN or infinite.
        """
        scores = np.empty(len(pairs), dtype=np.float32)
        for start in range(0, len(pairs), _WINDOW):
            window = pairs[start : start + _WINDOW]
            computed = 0
            rows = self._tokenized(window)
            lengths = [len(ids) for ids in rows["input_ids"]]
            for batch in reversed(token_batches(lengths, usual_budget(self.device.type))):  # the longest first
                scores[start + batch] = self._scored(rows, batch, logits)
                computed += len(batch)
                if progress is not None:
                    progress(start + computed, len(pairs))
        if not np.isfinite(scores).all():
            query, text = pairs[int(np.argmin(np.isfinite(scores)))]
            fix = "try precision float32" if self._precision == "bf16" else "the weights of the model are damaged"
            pair = f"{shortened(query, 40)!r} and {shortened(text, 40)!r}"
            raise UserError(f"{self.name}: the score of {pair} is NaN or infinite; {fix}")
        return scores

    def _tokenized(self, pairs: Sequence[tuple[str, str]]) -> dict[str, list[list[int]]]:
        """The inputs of the network by name, a row of ids for each pair."""
        encoded = self._tokenizer(
            [self._prompt + first for first, _ in pairs],
            [second for _, second in pairs],
            truncation="longest_first",
            max_length=self.max_length,
        )
        return dict(encoded)

    def _scored(self, rows: dict[str, list[list[int]]], batch: NDArray[np.int64], logits: bool) -> NDArray[np.float32]:
        some = {name: [values[row] for row in batch.tolist()] for name, values in rows.items()}
        inputs = self._tokenizer.pad(some, return_tensors="pt").to(self.device)
        with torch.inference_mode():
            outputs = self._network(**inputs).logits[:, 0].float()
            scores: NDArray[np.float32] = (outputs if logits else self._activation(outputs)).cpu().numpy()
            return scores
