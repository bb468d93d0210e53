"""Modules on tokens: their weights in a mean, templates without a text, the masked-language-model head."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from opencse.errors import UserError
from opencse.text.template import Frame
from opencse.text.tokenizer import Tokens

FLOOR = 0.2
"""Weight of the most common token; the rarest has weight 1."""


class TokenWeights(nn.Module):
    """One weight for each token of the vocabulary, for a weighted mean of token vectors.

    Of the token vectors h_t of a text with the ids x_t, v = sum_t w(x_t) h_t / sum_t w(x_t). The weights are not
    trained; they go with the encoder and are saved with it.

    Attributes:
        weights: (V,) float32, from 0 on.

    Example:
        >>> texts = [np.array([0, 1]), np.array([0, 2])]  # token 0 is in both texts, token 3 in none
        >>> weights = TokenWeights.inverse_document_frequency(texts, 4)
        >>> [round(weight, 2) for weight in weights(torch.tensor([0, 1, 3])).tolist()]
        [0.2, 0.5, 1.0]
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
        """Weights tokens by how few of some texts they are in (Sparck Jones 1972), between ``floor`` and 1.

        w(x) = floor + (1 - floor) idf(x) / max idf, with idf(x) = ln((N + 1) / (n(x) + 1)), of N texts, n(x) of which
        hold x. What every text holds ([CLS] and [SEP] too) counts ``floor``; what none holds counts 1.

        Args:
            texts: the ids of each text.
            vocabulary: V.
            floor: from 0 to 1; 1 makes all weights equal.

        Raises:
            UserError: where there are no texts.
        """
        count, text_counts = 0, np.zeros(vocabulary, dtype=np.int64)
        for ids in texts:
            text_counts[np.unique(ids)] += 1
            count += 1
        if not count:
            raise UserError("no texts to weigh tokens by")
        return cls(torch.from_numpy(_weights(text_counts, count, floor)))


def _weights(text_counts: NDArray[np.int64], count: int, floor: float) -> NDArray[np.float32]:
    idf = np.log((count + 1) / (text_counts + 1))
    return (floor + (1 - floor) * idf / max(float(idf.max()), np.finfo(np.float64).tiny)).astype(np.float32)


Slot = Literal["skipped", "padding"]
"""What is in the slot of a template alone: positions that are skipped, or padding tokens that are attended to."""


class TemplatesAlone:
    """Makes the inputs of templates without text, one for each template and each length of text in a batch.

    With a text of n ids in template (p, s), the template alone is (p, s) with the positions of s moved up by n
    (``skipped``, PromptBERT), or (p, n padding tokens, s) in which the padding is attended to (``padding``, CoT-BERT).
    Copies of an encoder share it.

    Attributes:
        slot: what is in the slot.
        frames: the templates, each as the ids around a text.
    """

    def __init__(self, slot: Slot, frames: Sequence[Frame]) -> None:
        self.slot = slot
        self.frames = list(frames)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def add(self, frame: Frame) -> None:
        """Adds a template that some texts of a batch are in."""
        if frame not in self.frames:
            self.frames.append(frame)

    def of(self, tokens: Tokens, pad_id: int) -> tuple[Tokens, Tensor]:
        """The templates alone that belong to some texts.

        Args:
            tokens: (rows, length), texts in templates.
            pad_id: id of the padding token.

        Returns:
            The templates (R, longest), each once per length of its texts; and (rows,) which of them each text has.

        Example:
            >>> alone = TemplatesAlone("skipped", [Frame((2, 7), (8, 3))])
            >>> ids = torch.tensor([[2, 7, 5, 6, 8, 3], [2, 7, 5, 8, 3, 0]])
            >>> templates, which = alone.of(Tokens(ids, (ids > 0).long()), pad_id=0)
            >>> templates.input_ids.tolist(), which.tolist()  # the first id stands in skipped places
            ([[2, 7, 2, 8, 3, 0], [2, 7, 2, 2, 8, 3]], [1, 0])
            >>> templates.attention_mask.tolist()
            [[1, 1, 0, 1, 1, 0], [1, 1, 0, 0, 1, 1]]
        """
        ids, width = tokens.input_ids, tokens.input_ids.shape[1]
        lengths = tokens.attention_mask.sum(dim=1)
        matches = torch.stack([_in_frame(ids, lengths, frame) * len(frame) for frame in self.frames])
        frame_of_row = matches.argmax(dim=0)  # the longest, where one template is part of another
        around = torch.tensor([len(frame) for frame in self.frames], device=ids.device)[frame_of_row]
        key = frame_of_row * (width + 1) + (lengths - around).clamp(min=0)
        kinds, which = torch.unique(key, return_inverse=True)
        rows, masks = [], []
        for number, length in (divmod(kind, width + 1) for kind in kinds.tolist()):
            frame = self.frames[number]
            filler, attended = (pad_id, 1) if self.slot == "padding" else (frame.before[0], 0)
            rows.append([*frame.before, *[filler] * length, *frame.after])
            masks.append([*[1] * len(frame.before), *[attended] * length, *[1] * len(frame.after)])
        longest = max(map(len, rows))
        padded = [row + [pad_id] * (longest - len(row)) for row in rows]
        mask = [row + [0] * (longest - len(row)) for row in masks]
        return Tokens(torch.tensor(padded), torch.tensor(mask)).to(ids.device), which


def _in_frame(ids: Tensor, lengths: Tensor, frame: Frame) -> Tensor:
    """(rows,) 1 where a text is in the template, else 0."""
    if len(frame) > ids.shape[1]:
        return torch.zeros_like(lengths)
    before, after = (torch.tensor(part, device=ids.device, dtype=ids.dtype) for part in (frame.before, frame.after))
    begins = (ids[:, : len(before)] == before).all(dim=1)
    positions = lengths.unsqueeze(1) - len(after) + torch.arange(len(after), device=ids.device)
    ends = (ids.gather(1, positions.clamp(min=0)) == after).all(dim=1)
    return (begins & ends & (lengths >= len(frame))).long()


_BLOCK_BYTES = 2**26
"""64 MiB of logits: 549 positions of a vocabulary of 30,522."""


class _ReplacedBackbone(nn.Module):
    """Replaces the backbone of a masked-LM model and returns the hidden states that it receives."""

    def forward(self, *_: Any, inputs_embeds: Tensor, **__: Any) -> Any:  # noqa: ANN401 - transformers' call
        from transformers.modeling_outputs import BaseModelOutput

        return BaseModelOutput(last_hidden_state=inputs_embeds)


class MaskedLMHead(nn.Module):
    """Hidden states (M, H) of masked positions -> logits (M, vocabulary).

    The head is the one of transformers' own masked-LM class for the architecture, with its backbone
    taken out; so it works for any of them and runs over the masked positions alone. The decoder
    shares the backbone's token embeddings where the configuration ties them, unless ``tied`` is False: then it
    starts from a copy of them and is trained separately.

    Example:
        >>> import torch
        >>> from transformers import BertConfig, BertForMaskedLM
        >>> sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
        >>> model = BertForMaskedLM(BertConfig(vocab_size=20, **sizes))
        >>> head = MaskedLMHead(model, model.get_input_embeddings())
        >>> head(torch.zeros(3, 8)).shape
        torch.Size([3, 20])
    """

    def __init__(self, masked_lm: nn.Module, word_embeddings: nn.Embedding, *, tied: bool = True) -> None:
        super().__init__()
        lm: Any = masked_lm
        self.prefix = str(lm.base_model_prefix)
        setattr(lm, lm.base_model_prefix, _ReplacedBackbone())
        self.tied = tied and bool(lm.config.tie_word_embeddings)
        if self.tied:
            lm.get_output_embeddings().weight = word_embeddings.weight
        elif lm.config.tie_word_embeddings:
            lm.get_output_embeddings().weight = nn.Parameter(word_embeddings.weight.detach().clone())
        self.lm = lm

    def forward(self, hidden: Tensor) -> Tensor:
        """Logits of each position."""
        logits: Tensor = self.lm(inputs_embeds=hidden.unsqueeze(0)).logits
        return logits.squeeze(0)

    def losses(self, hidden: Tensor, labels: Tensor, *, block_bytes: int = _BLOCK_BYTES) -> Tensor:
        """The cross-entropy at each position (M,), float32, with the logits of some positions in memory at a time.

        Logits of one block are computed again for its gradient, so that a step holds one block of logits and not all
        three arrays of (M, vocabulary) that the plain loss holds. The same losses and gradients as of all logits at
        once, up to rounding; what fits one block is computed at once.

        Args:
            hidden: (M, H) of the masked positions; M may be 0.
            labels: (M,) ids of the hidden tokens.
            block_bytes: most memory of a block's logits in float32.
        """

        def of(states: Tensor, ids: Tensor) -> Tensor:
            logits = self(states)
            return functional.cross_entropy(logits.float() if logits.itemsize < 4 else logits, ids, reduction="none")

        rows = max(1, block_bytes // (4 * len(self.lm.get_output_embeddings().weight)))
        if len(hidden) <= rows:
            return of(hidden, labels)
        starts = range(0, len(hidden), rows)
        blocks = [(hidden[start : start + rows], labels[start : start + rows]) for start in starts]
        if not torch.is_grad_enabled():
            return torch.cat([of(*block) for block in blocks])
        return torch.cat([checkpoint(of, *block, use_reentrant=False) for block in blocks])
