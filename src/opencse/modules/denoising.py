"""What a template alone gives for its mask, to be subtracted from the vectors of texts in training (PromptBERT)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self

import torch
from torch import Tensor

from opencse.text.template import Frame
from opencse.text.tokenizer import Tokens

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
