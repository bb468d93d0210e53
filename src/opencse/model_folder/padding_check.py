"""Checks that a backbone's vectors of a text do not depend on the padding behind it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from opencse.errors import UserError, reason
from opencse.kernels.packed import why_not_packed

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_LENGTH, _PADDED = 5, 12
_MOST = 1e-3
"""Largest change that is rounding, relative to the largest value."""


def require_padding_unseen(backbone: PreTrainedModel, folder: Path) -> None:
    """Refuses a backbone that computes other states of a text where it is padded, or none at all.

    Networks with convolutions over tokens (ConvBERT, MobileBERT) or Fourier transforms (FNet) read the padding,
    whatever the attention mask says: a text would have another vector in each batch. Backbones of BERT's shape do not.

    Args:
        backbone: as it was loaded, on a CPU.
        folder: where it was loaded from, for the message.

    Raises:
        UserError: in one line.
    """
    if why_not_packed(backbone) is None or not backbone.config.num_hidden_layers:
        return
    count = len(torch.as_tensor(backbone.get_input_embeddings().weight))
    pad = getattr(backbone.config, "pad_token_id", None)
    pad = pad if isinstance(pad, int) and 0 <= pad < count else 0
    ids = torch.tensor([[(pad + 1 + number) % count for number in range(_LENGTH)]])
    padded = torch.nn.functional.pad(ids, (0, _PADDED - _LENGTH), value=pad)
    training = backbone.training
    backbone.train(False)
    try:
        alone, among_padding = _states(backbone, ids), _states(backbone, padded)[:, :_LENGTH]
    except Exception as error:  # transformers' own code, or a folder's, may raise anything
        kind = backbone.config.model_type
        raise UserError(f"{folder}: this {kind} model cannot encode a short text here ({reason(error)})") from error
    finally:
        backbone.train(training)
    change = float((alone - among_padding).abs().max())
    if change > _MOST * float(alone.abs().max()):
        raise UserError(
            f"{folder}: in this {backbone.config.model_type} model padding changes the vector of a text (by "
            f"{change:.2g}), "
            "so that it would depend on the other texts of a batch; such models are not supported"
        )


@torch.no_grad()
def _states(backbone: Any, ids: Tensor) -> Tensor:  # noqa: ANN401 - any transformers encoder
    mask = (torch.arange(ids.shape[1]) < _LENGTH).long().unsqueeze(0)
    states: Tensor = backbone(input_ids=ids, attention_mask=mask).last_hidden_state
    return states
