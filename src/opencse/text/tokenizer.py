"""One tokenizer interface over transformers': ragged ids in, ragged ids out, padded tensors when asked."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from opencse.errors import UserError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Ids = NDArray[np.int32]


@dataclass(frozen=True)
class Tokens:
    """A padded batch: ``input_ids`` and ``attention_mask``, both (rows, longest) int64; padding is on the right."""

    input_ids: Tensor
    attention_mask: Tensor

    def to(self, device: torch.device) -> Tokens:
        """The same batch on ``device``."""
        return Tokens(
            self.input_ids.to(device, non_blocking=True), self.attention_mask.to(device, non_blocking=True)
        )

    def __len__(self) -> int:
        return len(self.input_ids)


class Tokenizer:
    """Turns texts into id arrays with special tokens.

    The fast (Rust) backend is used through a private copy, so that truncation set here never leaks
    into what is saved; tokenizers without one go through transformers' Python call.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self.hf = tokenizer
        self._fast = None
        if getattr(tokenizer, "is_fast", False):
            from tokenizers import Tokenizer as Backend

            self._fast = Backend.from_str(tokenizer.backend_tokenizer.to_str())
            self._fast.no_padding()
        if tokenizer.pad_token_id is None:
            raise UserError(f"{tokenizer.name_or_path}: the tokenizer has no padding token")
        self.pad_id = int(tokenizer.pad_token_id)

    @classmethod
    def load(cls, location: str | Path) -> Tokenizer:
        """The tokenizer of a folder or Hub id.

        Raises:
            UserError: where there is none.
        """
        from transformers import AutoTokenizer

        folder = Path(location)
        known = ("tokenizer.json", "vocab.txt", "vocab.json", "spiece.model", "sentencepiece.bpe.model")
        if folder.is_dir() and not any((folder / name).is_file() for name in known):
            raise UserError(
                f"{location}: the model folder has no tokenizer (looked for {', '.join(known)}); "
                "save it there with tokenizer.save_pretrained(folder)"
            )
        try:
            return cls(AutoTokenizer.from_pretrained(str(location)))
        except (OSError, ValueError) as error:
            raise UserError(f"{location}: its tokenizer cannot be loaded ({str(error).splitlines()[0]})") from None

    @property
    def vocabulary_size(self) -> int:
        """Entries of the vocabulary, added tokens included."""
        return len(self.hf)

    def fingerprint(self) -> str:
        """A hash that differs whenever the same text could become other ids."""
        if self._fast is not None:
            state = self._fast.to_str()
        else:
            state = repr((type(self.hf).__name__, sorted(self.hf.get_vocab().items()), self.hf.init_kwargs))
        return hashlib.sha256(state.encode()).hexdigest()

    def encode(self, texts: Sequence[str], max_length: int | None) -> list[Ids]:
        """Ids of each text with special tokens, cut to ``max_length`` ids (special tokens counted); None: uncut."""
        if self._fast is not None:
            if max_length is None:
                self._fast.no_truncation()
            else:
                self._fast.enable_truncation(max_length)
            return [np.asarray(e.ids, dtype=np.int32) for e in self._fast.encode_batch_fast(list(texts))]
        rows = self.hf(
            list(texts),
            truncation=max_length is not None,
            max_length=max_length,
            return_attention_mask=False,
            return_token_type_ids=False,
        )["input_ids"]
        return [np.asarray(row, dtype=np.int32) for row in rows]

    def pad(self, rows: Sequence[Ids]) -> Tokens:
        """``rows`` as one right-padded batch."""
        lengths = np.fromiter((len(row) for row in rows), dtype=np.int64, count=len(rows))
        ids = np.full((len(rows), int(lengths.max())), self.pad_id, dtype=np.int64)
        for i, row in enumerate(rows):
            ids[i, : len(row)] = row
        mask = np.arange(ids.shape[1]) < lengths[:, None]
        return Tokens(torch.from_numpy(ids), torch.from_numpy(mask.astype(np.int64)))
