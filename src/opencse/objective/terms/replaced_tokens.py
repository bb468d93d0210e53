"""Replaced token detection by a second network that reads the sentence vector, as an extra loss (DiffCSE)."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence, Set
from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from opencse.encoder.encoder import SentenceEncoder
from opencse.kernels.states import Computation, embedding_module, plain_states, trained_states
from opencse.objective.context import Context
from opencse.objective.losses.tokens import replaced_tokens
from opencse.objective.terms.base import Term
from opencse.objective.vectors.masking import Masking
from opencse.objective.vectors.network import through
from opencse.objective.vectors.replacer import START, GuessedPositions, Pick, Replacer
from opencse.objective.vectors.requests import LmHead, MaskedViews, Sentences
from opencse.objective.vectors.step import Representations, Request, StepInputs
from opencse.settings import ModelLocation, PartSettings
from opencse.streams import seed_of
from opencse.text.tokenizer import Tokens

_LOSS, _COUNTED, _REPLACED, _REPLACED_FOUND, _REAL, _RIGHT = range(6)
"""Columns of `ReplacedTokens.compute`."""


class _Discriminator(nn.Module):
    """Predicts which tokens of a text were replaced, given the sentence vector: two logits per token.

    Attributes:
        backbone: a copy of the encoder's, trained.
        classify: Linear(hidden, 2), with torch's own initialisation.
        computation: of the backbone's states; ``packed`` ones mean nothing at padding.

    Args:
        encoder: gives the first weights.
        seed: the seed of the last layer's first weights.
        computation: of the backbone's states.
    """

    def __init__(self, encoder: SentenceEncoder, seed: int, computation: Computation) -> None:
        super().__init__()
        self.backbone = copy.deepcopy(encoder.backbone)
        self.computation = computation
        hidden = int(encoder.backbone.config.hidden_size)
        self.classify = nn.Linear(hidden, 2)
        bound, generator = 1 / math.sqrt(hidden), torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for weights in self.classify.parameters():
                weights.uniform_(-bound, bound, generator=generator)
        self.classify.to(encoder.device)

    def forward(self, tokens: Tokens, vectors: Tensor) -> Tensor:
        """(rows, length, 2) logits of "original" and "replaced", of float32 at least.

        Args:
            tokens: (rows, length), some of them replaced.
            vectors: (rows, hidden), read in place of the first token: after the embeddings' LayerNorm and dropout, and
                without a position.
        """
        if self.computation != "transformers":
            depth = int(self.backbone.config.num_hidden_layers)
            states = trained_states(
                self.backbone, tokens, [depth], self.computation, dropout=self.training, leading=vectors
            )
        else:
            states = plain_states(self.backbone, tokens, leading=vectors)
        logits: Tensor = self.classify(states[-1])
        return logits.float() if logits.dtype in (torch.bfloat16, torch.float16) else logits


class ReplacedTokens(Term):
    """Replaced token detection by a discriminator that reads the sentence vector (DiffCSE, section 3).

    A frozen masked language model, the generator, reads a copy x' of each of the 2N texts of the views of which
    ``rate`` of the tokens are hidden, and gives an edited text x''. The discriminator D, a second network with the
    encoder's first weights and two logits per token, reads x'' with the text's own sentence vector h (after the head)
    in place of the first token's embedding, and predicts which tokens differ::

        r_t  = [x''_t != x_t]
        loss = mean over all tokens t of all texts of -log p_t(r_t),   p_t = softmax(D(x'', h)_t)

    The gradient reaches the encoder only through h; D is trained and checkpointed with it, and dropped at the end.
    The paper writes the sum over tokens and texts, its code takes the mean, and the published weights go with that.

    ==============  ==========================================  =============================================
    .               paper                                       reference (the authors' code)
    ==============  ==========================================  =============================================
    hidden tokens   ``masking = "all"``: all are [MASK]         ``"bert"``: 80% [MASK], 10% random, 10% kept
    guesses         ``pick = "sample"`` from the softmax, at    ``pick = "best"``, the most probable token, at
                    ``places = "masked"``, the hidden ones      ``places = "all"``, every position
    generator       without dropout                             ``generator_dropout``: trained mode leaves it on
    padding         ``padding = "ignored"``                     ``"counted"`` in the mean, as not replaced
    ==============  ==========================================  =============================================

    The first token is never replaced, and counts in the mean as [SEP] does. In the authors' code the random ids may be
    special ones, and the discriminator reads id 0 at padding.

    The log has ``replaced_share``, the share of the tokens that were replaced, ``replaced_found``, the share of those
    that the discriminator finds, and ``originals_found``, the same share of the others.

    `opencse.objective.losses.replaced_tokens` is the loss at each token as a function of tensors.

    Example:
        >>> from dataclasses import replace
        >>> reps = Representations.of(torch.eye(1), torch.eye(1))
        >>> sums = torch.tensor([[2.0, 4.0, 1.0, 1.0, 4.0, 3.0]])  # loss 2 over 4 tokens, ...
        >>> ReplacedTokens().loss(replace(reps, computed={"replaced_tokens": sums}))
        tensor(0.5000)
    """

    class Settings(PartSettings):
        """Settings of `ReplacedTokens`.

        Attributes:
            weight: of the term.
            rate: share of the tokens that are hidden from the generator.
            generator: ``start``, a frozen copy of the model that training begins with and its masked-LM head; or the
                folder or Hub id of a masked language model with the same vocabulary.
            generator_dropout: whether the generator's dropout is on.
            masking: what the hidden tokens become: all [MASK], or by BERT's rule.
            pick: draw each guess, or take the most probable token.
            places: where tokens are replaced by guesses.
            padding: whether padding counts in the mean.
        """

        kind: Literal["replaced_tokens"] = "replaced_tokens"
        weight: float = Field(default=0.005, gt=0, allow_inf_nan=False)
        rate: float = Field(default=0.3, gt=0, lt=1)
        generator: ModelLocation = START
        generator_dropout: bool = False
        masking: Masking = "all"
        pick: Pick = "sample"
        places: GuessedPositions = "masked"
        padding: Literal["ignored", "counted"] = "ignored"

    settings: Settings
    compares_examples = False

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__(settings)
        self.replacer: Replacer | None = None
        self.discriminator: _Discriminator | None = None
        self._copy = MaskedViews(self.settings.rate, self.settings.masking, f"{self.kind} term")

    @property
    def reads(self) -> Set[Request[Any]]:
        """The views' vectors and a masked copy of their texts; the masked-LM head if the start generates."""
        head = LmHead(instead="set a generator: objective.terms.replaced_tokens.generator=MODEL")
        return {Sentences(), self._copy, *([head] if self.settings.generator == START else [])}

    @property
    def networks(self) -> Sequence[nn.Module]:
        """The discriminator."""
        return () if self.discriminator is None else (self.discriminator,)

    def check(self, context: Context) -> None:
        """Refuses an encoder without layers, and vectors of another size than a token's embedding."""
        context.require_layers(f"the {self.kind} term needs a discriminator that reads a text")
        if context.encoder is not None:
            embedding_module(context.encoder.backbone)
        context.require_token_size(f"the {self.kind} term puts the sentence vector in a token's place")

    def begin(self, encoder: SentenceEncoder, *, batch_size: int, seed: int) -> None:
        """Opens the generator, and makes the discriminator of a copy of the encoder's weights."""
        del batch_size
        settings = self.settings
        self.replacer = Replacer.open(
            settings.generator,
            encoder,
            pick=settings.pick,
            positions=settings.places,
            dropout=settings.generator_dropout,
            reader=f"{self.kind} term",
        )
        packed_away = encoder.computation == "packed" and settings.padding == "counted"  # logits at padding count
        computation: Computation = "transformers" if packed_away else encoder.computation
        self.discriminator = _Discriminator(encoder, seed_of(seed, self.name), computation)

    def compute(self, inputs: StepInputs, reps: Representations) -> Tensor:
        """(rows, 6) for each of the views' texts.

        The columns: the sum of the losses of its tokens, how many tokens count, how many were replaced, how many of
        these the discriminator finds, how many are real, how many of these it classifies correctly.
        """
        assert self.replacer is not None
        assert self.discriminator is not None
        discriminator, copied = self.discriminator, reps[self._copy]
        rows = len(copied.masked.positions)
        texts = inputs.tokens.rows(0, rows)
        vectors = torch.cat([reps.anchor, reps.positive])[:rows]
        ids = self.replacer(texts, copied, self.noise(reps), inputs.chunks)
        real = texts.attention_mask.bool()
        labels = ((ids != texts.input_ids) & real).long()
        counted = real if self.settings.padding == "ignored" else torch.ones_like(real)

        def detect(start: int, stop: int, vectors: Tensor) -> Tensor:
            logits = discriminator(Tokens(ids[start:stop], texts.attention_mask[start:stop]), vectors)
            replaced, is_real = labels[start:stop], real[start:stop]
            losses = replaced_tokens(logits, replaced)
            right = (logits.detach().argmax(dim=2) == replaced) & is_real
            columns = [
                losses * counted[start:stop],
                counted[start:stop],
                replaced,
                right & replaced.bool(),
                is_real,
                right,
            ]
            return torch.stack([column.to(losses.dtype).sum(dim=1) for column in columns], dim=1)

        return through(discriminator, detect, vectors, inputs.chunks)

    def loss(self, reps: Representations) -> Tensor:
        """Mean cross-entropy over the tokens that count."""
        sums: Tensor = reps.computed[self.name]
        return sums[:, _LOSS].sum() / sums[:, _COUNTED].sum()

    def diagnose(self, reps: Representations) -> dict[str, Tensor]:
        """The share of replaced tokens, and the shares of them and of the others that the discriminator finds."""
        if self.name not in reps.computed:
            return {}
        totals = reps.computed[self.name].sum(dim=0)
        originals = totals[_REAL] - totals[_REPLACED]
        return {
            "replaced_share": totals[_REPLACED] / totals[_REAL],
            "replaced_found": totals[_REPLACED_FOUND] / totals[_REPLACED].clamp(min=1),
            "originals_found": (totals[_RIGHT] - totals[_REPLACED_FOUND]) / originals.clamp(min=1),
        }
