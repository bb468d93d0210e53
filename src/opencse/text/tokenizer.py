"""Turns texts into token ids with a tokenizer of transformers, and ids into padded batches."""

from __future__ import annotations

import hashlib
import re
import tempfile
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from opencse.errors import UserError, reason
from opencse.foreign import checks_trust, not_trusted, own_tokenizer
from opencse.text.rust_tokenizer import Ids as Ids
from opencse.text.rust_tokenizer import RustTokenizer, padded
from opencse.text.template import Frame, Template

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Backend
    from transformers import PreTrainedTokenizerBase

WordNumbers = NDArray[np.int16]
_VOCABULARIES = (
    "tokenizer.json",
    "vocab.txt",
    "vocab.json",
    "tokenizer.model",
    "spiece.model",
    "sentencepiece.bpe.model",
)


@dataclass(frozen=True)
class TokenisedText:
    """The ids of one text, special tokens counted, and where its words are.

    Attributes:
        ids: (length,).
        words: (length,) number of the white-space delimited word each id is of, counted from 0 at the first word
            that has an id; -1 for the special tokens that the tokenizer put around the text. None if they
            were not requested.
    """

    ids: Ids
    words: WordNumbers | None = None


@dataclass(frozen=True)
class Tokens:
    """A padded batch, padding on the right.

    Attributes:
        input_ids: (rows, longest) int64.
        attention_mask: (rows, longest) int64; 1 at tokens, 0 at padding.
        unpooled: (rows,) int64, how many of each row's first tokens pooling leaves out (those of a prompt, where the
            model says so); None for no such tokens.
    """

    input_ids: Tensor
    attention_mask: Tensor
    unpooled: Tensor | None = None

    def to(self, device: torch.device) -> Tokens:
        """The same batch on ``device``."""
        unpooled = None if self.unpooled is None else moved(self.unpooled, device)
        return Tokens(moved(self.input_ids, device), moved(self.attention_mask, device), unpooled)

    def rows(self, start: int, end: int) -> Tokens:
        """Some of the rows."""
        unpooled = None if self.unpooled is None else self.unpooled[start:end]
        return Tokens(self.input_ids[start:end], self.attention_mask[start:end], unpooled)

    def columns(self, length: int) -> Tokens:
        """The first tokens of every row."""
        return Tokens(self.input_ids[:, :length], self.attention_mask[:, :length], self.unpooled)

    def padded(self, multiple: int, pad_id: int) -> Tokens:
        """The same batch, of a length that ``multiple`` divides."""
        spare = -self.input_ids.shape[1] % multiple
        if not spare:
            return self
        ids = torch.nn.functional.pad(self.input_ids, (0, spare), value=pad_id)
        return Tokens(ids, torch.nn.functional.pad(self.attention_mask, (0, spare)), self.unpooled)

    def leaving_out(self, unpooled: int | Sequence[int]) -> Tokens:
        """The same batch; pooling leaves out the first tokens of each row: one number for all rows, or one per row."""
        counts = torch.as_tensor(unpooled, dtype=torch.int64).expand(len(self)).clone()
        return Tokens(self.input_ids, self.attention_mask, counts) if bool(counts.any()) else self

    @property
    def pooled_mask(self) -> Tensor:
        """(rows, longest); 1 at the tokens that pooling counts."""
        if self.unpooled is None:
            return self.attention_mask
        positions = torch.arange(self.attention_mask.shape[1], device=self.attention_mask.device)
        return self.attention_mask * (positions >= self.unpooled.unsqueeze(1))

    def __len__(self) -> int:
        return len(self.input_ids)


class Tokenizer:
    """Turns texts into arrays of token ids with special tokens.

    Example:
        >>> from opencse import SentenceEncoder
        >>> tokenizer = SentenceEncoder.load("opencse-mini", device="cpu").tokenizer
        >>> [len(ids) for ids in tokenizer.encode(["a kettle", "a"], max_length=8)]
        [5, 3]

    The fast (Rust) backend is used through a private copy, so that truncation set here never leaks
    into what is saved; tokenizers without one go through transformers' Python call.

    Attributes:
        hf: transformers' tokenizer; settings changed on it later do not reach the private copy.
        pad_id: id of its padding token.
        rust: the private copy, which makes the ids; None for tokenizers of Python alone.
        template: what every text is put into; its ids count as special tokens, which are never truncated or changed.
        frame: the ids of the template and of the special tokens around it; None without a template.

    Raises:
        UserError: if it has no padding token, or no Rust backend or mask token where the template needs one.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        *,
        characters_per_id: int | None = None,
        template: Template | None = None,
    ) -> None:
        from transformers import PreTrainedTokenizerFast

        if tokenizer.pad_token_id is None:
            raise UserError(
                f"{tokenizer.name_or_path or type(tokenizer).__name__}: the tokenizer has no padding token; "
                "set tokenizer.pad_token and save it again"
            )
        self.hf = tokenizer
        self.template = template
        self.frame: Frame | None = None
        self.pad_id = int(tokenizer.pad_token_id)
        self.rust: RustTokenizer | None = None
        if isinstance(tokenizer, PreTrainedTokenizerFast):
            self.rust = RustTokenizer(
                tokenizer.backend_tokenizer,
                truncation_side=tokenizer.truncation_side,
                splits_special=tokenizer.split_special_tokens,
                characters_per_id=characters_per_id,
            )
        if template is not None:
            if self.rust is None:
                raise UserError(
                    f"{tokenizer.name_or_path or type(tokenizer).__name__}: a template needs a tokenizer with "
                    "tokenizer.json (this one is of Python alone)"
                )
            self.frame = Frame.of(template, tokenizer)
            self.put_template(self.rust.backend)

    def put_template(self, backend: Backend, frame: Frame | None = None) -> None:
        """Makes a copy of the tokenizer's backend put texts into the template, if there is one.

        Args:
            backend: changed by this call.
            frame: other ids of the same template.
        """
        frame = frame or self.frame
        if frame is not None:
            backend.post_processor = frame.processor(backend)

    @property
    def special_count(self) -> int:
        """Number of ids around every text: special tokens, and those of the template."""
        return len(self.frame) if self.frame is not None else int(self.hf.num_special_tokens_to_add())

    @property
    def special_ids(self) -> frozenset[int]:
        """The ids of the special tokens."""
        return frozenset(self.hf.all_special_ids)

    @property
    def unknown_id(self) -> int | None:
        """The id that stands for what the vocabulary does not hold; None if there is none."""
        return None if self.hf.unk_token_id is None else int(self.hf.unk_token_id)

    @classmethod
    @checks_trust
    def load(cls, location: str | Path, *, trust_remote_code: bool = False) -> Tokenizer:
        """The tokenizer of a folder or Hub id.

        Args:
            location: the folder, or the id.
            trust_remote_code: run the code that the folder names, where it names any.

        Raises:
            UserError: where there is none.
        """
        from transformers import AutoTokenizer

        folder = Path(location)
        require_tokenizer(folder)
        if not trust_remote_code and own_tokenizer(folder):
            raise not_trusted(folder)
        try:
            tokenizer = AutoTokenizer.from_pretrained(str(location), trust_remote_code=trust_remote_code)
        except Exception as error:  # a broken file ends in any exception there, KeyError and bare ones included
            raise UserError(
                f"{location}: its tokenizer cannot be loaded ({type(error).__name__}: {reason(error)}); "
                "save it again with tokenizer.save_pretrained(folder)"
            ) from None
        return cls(tokenizer)

    @property
    def vocabulary_size(self) -> int:
        """Entries of the vocabulary, added tokens included."""
        return len(self.hf)

    def fingerprint(self) -> str:
        """A hash that differs whenever the same text could become other ids."""
        digest = hashlib.sha256()
        if self.rust is not None:
            digest.update(repr(self.rust.description()).encode())
        else:
            with tempfile.TemporaryDirectory() as folder:
                self.hf.save_pretrained(folder)
                for file in sorted(path for path in Path(folder).rglob("*") if path.is_file()):
                    digest.update(file.name.encode() + file.read_bytes())
        return digest.hexdigest()

    def encode(self, texts: Sequence[str], max_length: int | None) -> list[Ids]:
        """Tokenises each text, with special tokens.

        Args:
            texts: any number of them.
            max_length: longest in ids, special tokens counted; longer texts are truncated. None: no limit.
        """
        if len(texts) == 0:
            return []
        if self.rust is not None:
            return self.rust.encode(texts, max_length)
        rows = self.hf(
            list(texts),
            truncation=max_length is not None,
            max_length=max_length,
            return_attention_mask=False,
            return_token_type_ids=False,
        )["input_ids"]
        return [np.asarray(row, dtype=np.int32) for row in rows]

    def encode_words(self, texts: Sequence[str], max_length: int | None) -> list[TokenisedText]:
        """`encode`, with the word of every id.

        Raises:
            UserError: if the tokenizer has no fast backend, which alone knows the place of an id in its text.
        """
        if self.rust is None:
            raise UserError(
                f"{self.hf.name_or_path or type(self.hf).__name__}: this tokenizer does not tell which word an id is "
                "of, which changes to words and tokens need; choose a model with a fast tokenizer, or another view"
            )
        encodings = self.rust.encodings(texts, max_length)
        return [
            TokenisedText(np.asarray(e.ids, dtype=np.int32), _word_numbers(text, e.offsets, e.special_tokens_mask))
            for text, e in zip(texts, encodings, strict=True)
        ]

    @property
    def reads_from_left(self) -> bool:
        """Whether a text that is too long loses its end, so that its first words decide its ids."""
        return bool((self.rust or self.hf).truncation_side == "right")

    def longest_text(self, max_length: int | None) -> int | None:
        """Characters of a text that are read, for a longest input in ids; None: all."""
        return None if self.rust is None else self.rust.longest_text(max_length)

    def pad(self, rows: Sequence[Ids]) -> Tokens:
        """Pads ``rows`` on the right to one batch."""
        ids, lengths = padded(rows, self.pad_id)
        mask = np.arange(ids.shape[1]) < lengths[:, None]
        return Tokens(torch.from_numpy(ids), torch.from_numpy(mask.astype(np.int64)))


def require_tokenizer(location: Path) -> None:
    """Refuses a folder without the files of a tokenizer; anything else may be a Hub id."""
    if location.is_dir() and not any((location / name).is_file() for name in _VOCABULARIES):
        raise UserError(
            f"{location}: the model folder has no tokenizer (looked for {', '.join(_VOCABULARIES)}); "
            "save it there with tokenizer.save_pretrained(folder)"
        )


def _word_numbers(text: str, offsets: Sequence[tuple[int, int]], special: Sequence[int]) -> WordNumbers:
    """The white-space delimited word of each token's last character; -1 for special tokens.

    A token of white space alone belongs to the next word, as does the mark that begins a word ("\u2581", "\u0120").
    """
    spans = [match.span() for match in re.finditer(r"\S+", text)]
    begins = [begin for begin, _ in spans]
    numbers = []
    for (start, end), added in zip(offsets, special, strict=True):
        begun = bisect_left(begins, end)  # words begun before the token's end
        ongoing = begun > 0 and spans[begun - 1][1] > start
        numbers.append(-1 if added else max(0, min(begun - ongoing, len(spans) - 1)))
    first = min((number for number in numbers if number >= 0), default=0)  # not 0 if the text is truncated on its left
    return np.array([number - first if number >= 0 else -1 for number in numbers], dtype=np.int16)


def moved(tensor: Tensor, device: torch.device) -> Tensor:
    """A copy of ``tensor`` on ``device``, made while the device does other work.

    A GPU copies in parallel to its other work only from pinned memory (which cannot be paged out); from other memory it
    first finishes all earlier work.
    """
    if device.type == "cuda" and tensor.device.type == "cpu":
        # a graph would read this memory again when it is gone
        if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
            raise RuntimeError("a step that copies from the processor cannot be recorded")
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)
