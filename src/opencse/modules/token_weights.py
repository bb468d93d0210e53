"""How much each token counts in the mean of its sentence: sentence-transformers' WordWeights."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from opencse.errors import UserError
from opencse.model_folder.layout import entry, read_config, read_weights
from opencse.records import write_json
from opencse.text.tokenizer import Tokenizer

MODULE = "WordWeights"
FLOOR = 0.2
"""What the commonest token counts, where the rarest counts 1."""
_TENSOR = "emb_layer.weight"


class TokenWeights(nn.Module):
    """One weight a token of the vocabulary, for a weighted mean of token vectors.

    Of the token vectors h_t of a text with the ids x_t, v = sum_t w(x_t) h_t / sum_t w(x_t). The weights are not
    trained; they go with the encoder and are saved with it.

    Attributes:
        weights: (V,) float32, from 0 on.
    """

    weights: Tensor

    def __init__(self, weights: Tensor) -> None:
        super().__init__()
        self.register_buffer("weights", weights.detach().float().clone())

    def forward(self, input_ids: Tensor) -> Tensor:
        """(rows, length) ids -> the weight of each, float32."""
        return self.weights[input_ids]

    @classmethod
    def inverse_document_frequency(
        cls, texts: Iterable[NDArray[np.integer]], vocabulary: int, floor: float = FLOOR
    ) -> Self:
        """Weights by how few of some texts a token is in (Sparck Jones 1972), between ``floor`` and 1.

        w(x) = floor + (1 - floor) idf(x) / max idf, with idf(x) = ln((N + 1) / (n(x) + 1)), of N texts, n(x) of which
        hold x. What every text holds ([CLS] and [SEP] too) counts ``floor``; what none holds counts 1.

        Args:
            texts: the ids of each text.
            vocabulary: V.
            floor: from 0 to 1; 1 makes all weights equal.

        Raises:
            UserError: where there are no texts.
        """
        count, found = 0, np.zeros(vocabulary, dtype=np.int64)
        for ids in texts:
            found[np.unique(ids)] += 1
            count += 1
        if not count:
            raise UserError("no texts to weigh tokens by")
        return cls(torch.from_numpy(_weights(found, count, floor)))

    @classmethod
    def read(cls, folder: Path, vocabulary: int) -> Self:
        """The weights of a WordWeights module; of folders written before sentence-transformers 5, by word.

        Args:
            folder: of the module.
            vocabulary: how many ids the tokenizer has.

        Raises:
            UserError: for a folder without weights, fewer of them than ids, or one that is negative or not finite.
        """
        if (folder / "model.safetensors").is_file():
            found = read_weights(folder).get(_TENSOR, torch.zeros(0)).flatten().float()
        else:
            found = _by_word(folder / "config.json")
        if len(found) < vocabulary:
            raise UserError(f"{folder}: {len(found):,} weights of tokens for {vocabulary:,} ids; each id needs one")
        if not bool(torch.isfinite(found).all()) or bool((found < 0).any()):
            raise UserError(f"{folder}: a weight of a token is negative or not finite; numbers from 0 on were expected")
        return cls(found)

    def write(self, folder: Path, tokenizer: Tokenizer) -> None:
        """Writes a WordWeights module into ``folder``, which is there."""
        from safetensors.torch import save_file

        named = tokenizer.hf.convert_ids_to_tokens(list(range(len(self.weights))))
        words = [f"[unused id {number}]" if word is None else word for number, word in enumerate(named)]
        by_word = dict(zip(words, self.weights.tolist(), strict=True))
        write_json(folder / "config.json", {"vocab": words, "word_weights": by_word, "unknown_word_weight": 1.0})
        save_file({_TENSOR: self.weights.cpu().unsqueeze(1).contiguous()}, folder / "model.safetensors")


def _by_word(file: Path) -> Tensor:
    config = read_config(file)
    words, weights = config.get("vocab"), entry(file, config, "word_weights", dict, {})
    other = config.get("unknown_word_weight", 1)
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise UserError(f"{file}: vocab is not a list of words, and there is no model.safetensors")
    found = [weights.get(word, weights.get(word.lower(), other)) for word in words]
    if not all(isinstance(weight, int | float) for weight in found):
        raise UserError(f"{file}: word_weights holds something that is not a number")
    return torch.tensor(found, dtype=torch.float32)


def _weights(found: NDArray[np.int64], count: int, floor: float) -> NDArray[np.float32]:
    idf = np.log((count + 1) / (found + 1))
    return (floor + (1 - floor) * idf / max(float(idf.max()), np.finfo(np.float64).tiny)).astype(np.float32)
