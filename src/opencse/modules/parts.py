"""The parts of a sentence encoder, as reading and writing a model folder exchange them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tokenizers import normalizers

from opencse.errors import UserError
from opencse.folder_kinds import TABLE
from opencse.modules.pooling import Pooling
from opencse.modules.prompts import Prompts
from opencse.modules.similarity import HybridWeight, Similarity

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from opencse.modules.dense import SavedLayer
    from opencse.modules.token_modules import TokenWeights
    from opencse.text.tokenizer import Tokenizer


def lower_casing(tokenizer: Tokenizer) -> Tokenizer:
    """``tokenizer`` with lower-casing in front of its normaliser (sentence-transformers' ``do_lower_case``).

    The underlying transformers tokenizer is changed, so a saved folder lower-cases too. Special tokens
    inside a text stay as they are.

    Raises:
        UserError: for a tokenizer without Rust backend.
    """
    if not tokenizer.hf.is_fast:
        raise UserError(f"{tokenizer.hf.name_or_path}: do_lower_case needs a tokenizer with tokenizer.json")
    backend = tokenizer.hf.backend_tokenizer
    present = backend.normalizer
    several = isinstance(present, normalizers.Sequence)
    parts = [present[i] for i in range(len(present))] if several else [present] if present else []
    if any(isinstance(part, normalizers.Lowercase) for part in parts):
        return tokenizer
    backend.normalizer = normalizers.Sequence([normalizers.Lowercase(), *parts])
    return type(tokenizer)(tokenizer.hf, template=tokenizer.template)


@dataclass(frozen=True, eq=False, kw_only=True)
class Common:
    """What every encoder has, with torch or without.

    Attributes:
        pooling: from token vectors to a sentence vector.
        max_length: longest text in ids, special tokens included; longer ones are truncated.
        normalize: whether vectors are L2-normalised.
        prompts: what is put before texts, by what they are for.
        similarity_fn_name: the function that vectors are compared by.
        hybrid_weight: of the vectors in a hybrid search, where one was fitted for them; see `opencse index tune`.
    """

    pooling: Pooling = Pooling.MEAN
    max_length: int
    normalize: bool = False
    prompts: Prompts = field(default_factory=Prompts)
    similarity_fn_name: Similarity = Similarity.COSINE
    hybrid_weight: HybridWeight | None = None


@dataclass(frozen=True, eq=False)
class Parts(Common):
    """Lists the parts of an encoder; `SentenceEncoder.from_parts` builds it. For the others see `Common`.

    Attributes:
        backbone: any transformers encoder.
        tokenizer: its tokenizer.
        dense: layers after pooling that are kept at inference.
        pool_prompt: whether pooling counts the tokens of the prompt.
        lower_case: whether the tokenizer is made to lower-case (sentence-transformers' ``do_lower_case``).
        token_weights: what token vectors are multiplied by before pooling; None if all count the same.
        own_code: the classes of a model folder's own that the encoder is made of, where their code was trusted.
        own_dropout: the dropout rates that the folder's configuration names; they are saved as they were.

    Example:
        >>> from opencse import SentenceEncoder
        >>> parts = SentenceEncoder("opencse-mini", device="cpu").parts
        >>> parts.pooling.value, parts.max_length, parts.depth, parts.pooled_layers
        ('mean', 128, 0, (0,))
        >>> SentenceEncoder.from_parts(parts).eval().encode("A dog runs.").shape
        (448,)
    """

    backbone: PreTrainedModel
    tokenizer: Tokenizer
    dense: Sequence[SavedLayer] = ()
    pool_prompt: bool = True
    lower_case: bool = False
    token_weights: TokenWeights | None = None
    own_code: tuple[str, ...] = ()
    own_dropout: Mapping[str, float] = field(default_factory=dict)

    @property
    def depth(self) -> int:
        """Number of layers of the backbone (L)."""
        return int(self.backbone.config.num_hidden_layers)

    @property
    def pooled_layers(self) -> tuple[int, ...]:
        """The layers whose hidden states are averaged, from 0 (embedding output) to L."""
        return self.pooling.layers(self.depth)

    @property
    def is_table(self) -> bool:
        """Whether the backbone is a table of word vectors."""
        return bool(self.backbone.config.model_type == TABLE)
