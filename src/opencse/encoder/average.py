"""Keeps an exponential moving average of an encoder's weights."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn

from opencse.encoder.encoder import SentenceEncoder
from opencse.model_folder.backbone import drop_pooler
from opencse.modules.dense import evaluating
from opencse.text.tokenizer import Tokens

Follow = Callable[[list[Tensor], list[Tensor], None], None]


class MovingAverage(nn.Module):
    """A copy of an encoder that follows it: ``theta_m <- momentum * theta_m + (1 - momentum) * theta``.

    Its weights take no gradient, and its vectors are computed without dropout. It has no masked-LM head.

    Attributes:
        encoder: the copy.

    Args:
        encoder: the encoder to follow; the copy starts with its weights.
        momentum: 0 <= momentum < 1; 0 is the encoder's own weights.
        head: whether the dense layers and the training head are copied too; otherwise the copy ends with the pooling.
        random_seed: if given, the copy's backbone starts with new random weights of this seed instead.
    """

    def __init__(self, encoder: SentenceEncoder, momentum: float, *, head: bool, random_seed: int | None) -> None:
        super().__init__()
        self.encoder = encoder.twin()
        self.encoder.lm_head = None
        if not head:
            self.encoder.dense, self.encoder.projection = nn.Sequential(), None
        if random_seed is not None:
            _randomise(self.encoder, random_seed)
        self.encoder.requires_grad_(False)
        self._follow: Follow = get_ema_multi_avg_fn(momentum)  # type: ignore[no-untyped-call]

    def update(self, encoder: SentenceEncoder) -> None:
        """Moves every weight towards ``encoder``'s; buffers are copied. Tied weights are moved once."""
        theirs = dict(encoder.named_parameters(remove_duplicate=False))
        averaged = dict(self.encoder.named_parameters())
        self._follow(list(averaged.values()), [theirs[name] for name in averaged], None)
        buffers = dict(encoder.named_buffers(remove_duplicate=False))
        for name, buffer in self.encoder.named_buffers():
            buffer.copy_(buffers[name])

    def forward(self, tokens: Tokens) -> Tensor:
        """(rows, d) vectors of ``tokens``; pooled ones, (rows, hidden), of a copy without head."""
        with evaluating(self.encoder):  # a head that normalises over a batch takes its running means
            vectors: Tensor = self.encoder(tokens).vectors
        return vectors


def _randomise(encoder: SentenceEncoder, seed: int) -> None:
    """Replaces the backbone by a new random one of the same configuration; the global random state stays unchanged."""
    config = copy.deepcopy(encoder.backbone.config)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would seed the GPUs' generators too
        encoder.backbone.load_state_dict(drop_pooler(type(encoder.backbone)(config)).state_dict())
