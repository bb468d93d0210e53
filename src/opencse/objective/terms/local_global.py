"""Mutual information between a text's vector and convolutions over its tokens, as an extra loss (IS-BERT)."""

from __future__ import annotations

import copy
from collections.abc import Sequence, Set
from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from opencse.encoder.encoder import SentenceEncoder
from opencse.kernels.states import plain_states, trained_states
from opencse.objective.context import Context
from opencse.objective.losses.mutual_information import mutual_information
from opencse.objective.terms.base import Term
from opencse.objective.vectors.generator import seeded
from opencse.objective.vectors.network import through
from opencse.objective.vectors.requests import AnchorTexts
from opencse.objective.vectors.step import Representations, Request, StepInputs
from opencse.settings import PartSettings
from opencse.streams import seed_of
from opencse.text.tokenizer import Tokens


class _Convolutions(nn.Module):
    """Local vectors of a text's tokens: the encoder's states through convolutions of several windows, side by side.

    Attributes:
        backbone: the encoder's, whose weights it shares.
        computation: of the backbone's states.
        convolutions: one per window, newly initialised as torch does, without activation.
    """

    def __init__(self, encoder: SentenceEncoder, windows: Sequence[int], seed: int) -> None:
        super().__init__()
        weights: dict[int, Any] = {id(p): p for p in encoder.backbone.parameters()}
        self.backbone = copy.deepcopy(encoder.backbone, weights)
        self.computation = encoder.computation
        hidden, count = int(encoder.backbone.config.hidden_size), len(windows)
        edges = [hidden * i // count for i in range(count + 1)]
        with seeded(seed, torch.device("cpu")):
            self.convolutions = nn.ModuleList(
                nn.Conv1d(hidden, stop - start, window, padding=window // 2)
                for window, start, stop in zip(windows, edges, edges[1:], strict=False)
            )
        self.convolutions.to(encoder.device)

    def forward(self, tokens: Tokens) -> Tensor:
        """(rows, length, hidden); padding is read as zeros."""
        if self.computation != "transformers":
            depth = int(self.backbone.config.num_hidden_layers)
            states = trained_states(self.backbone, tokens, [depth], self.computation, dropout=self.training)[-1]
        else:
            states = plain_states(self.backbone, tokens)[-1]
        read = (states * tokens.attention_mask.unsqueeze(2).to(states.dtype)).transpose(1, 2)
        return torch.cat([convolution(read) for convolution in self.convolutions], dim=1).transpose(1, 2)


class LocalGlobal(Term):
    """Mutual information between a text's vector and its local vectors (IS-BERT, section 3).

    Convolutions over the token states of a text, of windows 1, 3 and 5 and a third of the width each, give a local
    vector for each token; their mean is the text's vector. `opencse.objective.losses.mutual_information` is the loss,
    over the anchors of the batch: local vectors should fit their own text, and no other one.

    The term encodes the anchors' texts itself, as they are before a view changes them; next to a contrast that is one
    more pass. **What is saved is the backbone with the recipe's pooling, without the convolutions**, which the paper
    keeps. Padding is zeros to the convolutions; in the paper's code they read the backbone's states there.

    Example:
        >>> from dataclasses import replace
        >>> reps = replace(Representations.of(torch.eye(2), torch.eye(2)), answers={})
        >>> local = torch.tensor([[[2.0, -2.0]], [[-2.0, 2.0]]])  # two texts of one token
        >>> texts = Tokens(torch.ones(2, 1, dtype=torch.int64), torch.ones(2, 1, dtype=torch.int64))
        >>> reps = replace(reps, answers={AnchorTexts(): texts}, computed={"local_global": local})
        >>> LocalGlobal().loss(reps)
        tensor(-1.3856)
    """

    class Settings(PartSettings):
        """Settings of `LocalGlobal`.

        Attributes:
            weight: of the term.
            windows: how many tokens each convolution reads, odd numbers.
        """

        kind: Literal["local_global"] = "local_global"
        weight: float = Field(default=1.0, gt=0, allow_inf_nan=False)
        windows: tuple[Literal[1, 3, 5, 7, 9], ...] = Field(default=(1, 3, 5), min_length=1, max_length=8)

    settings: Settings

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__(settings)
        self.network: _Convolutions | None = None

    @property
    def reads(self) -> Set[Request[Any]]:
        """The anchors' texts."""
        return {AnchorTexts()}

    @property
    def networks(self) -> Sequence[nn.Module]:
        """The backbone with the convolutions."""
        return () if self.network is None else (self.network,)

    def check(self, context: Context) -> None:
        """Refuses an encoder without layers, whose tokens know nothing of each other."""
        context.require_layers(f"the {self.kind} term needs the states of tokens in their text")

    def begin(self, encoder: SentenceEncoder, *, batch_size: int, seed: int) -> None:
        """Makes the convolutions."""
        del batch_size
        self.network = _Convolutions(encoder, self.settings.windows, seed_of(seed, self.name))

    def compute(self, inputs: StepInputs, reps: Representations) -> Tensor:
        """(N, length, hidden) the local vectors."""
        assert self.network is not None
        network, texts = self.network, reps[AnchorTexts()]

        def local(start: int, stop: int, nothing: Tensor) -> Tensor:
            del nothing
            return network(texts.rows(start, stop))  # type: ignore[no-any-return]

        none = torch.zeros(len(texts), 0, device=texts.input_ids.device)
        return through(network, local, none, inputs.chunks)

    def loss(self, reps: Representations) -> Tensor:
        """The negated estimate; 0 for a batch of one text."""
        local: Tensor = reps.computed[self.name]
        real = reps[AnchorTexts()].attention_mask
        weights = real.to(local.dtype).unsqueeze(2)
        texts = (local * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1)
        return mutual_information(local, real, texts) if len(texts) > 1 else local.sum() * 0.0
