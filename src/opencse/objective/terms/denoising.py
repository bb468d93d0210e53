"""Reconstruction of a text from its sentence vector by a decoder, as an extra loss (TSDAE, DenoSent)."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from opencse.encoder.encoder import SentenceEncoder
from opencse.objective.context import Context
from opencse.objective.losses.tokens import masked_lm
from opencse.objective.terms.base import Term
from opencse.objective.vectors.decoder import CopiedDecoder, NewDecoder
from opencse.objective.vectors.network import sums_by_row, through
from opencse.objective.vectors.requests import AnchorTexts, AnchorVectors, LmHead, PositiveTexts, Sentences
from opencse.objective.vectors.step import Representations, Request, StepInputs
from opencse.settings import PartSettings
from opencse.streams import seed_of

_LOSS, _COUNTED, _RIGHT = range(3)
"""Columns of `Denoising.compute`."""


class Copied(PartSettings):
    """A decoder of the backbone's shape with its weights, which reads the text so far (TSDAE).

    Attributes:
        tied: share the encoder's weights; only the cross-attention is new.

    Example:
        >>> Denoising(Denoising.Settings(decoder={"kind": "copy", "tied": False})).settings.decoder
        Copied(kind='copy', tied=False)
    """

    kind: Literal["copy"] = "copy"
    tied: bool = True


class New(PartSettings):
    """A new decoder over the embeddings of the text (DenoSent).

    Attributes:
        layers: number of layers.
        heads: attention heads of a layer.
        width: of the feed-forward layers.
        dropout: of the layers.
        noise: rate of the dropout on the embeddings that it reads, all at once; 0 lets it read the text so far.

    Example:
        >>> Denoising(Denoising.Settings(decoder={"kind": "new", "layers": 2})).settings.decoder.layers
        2
    """

    kind: Literal["new"] = "new"
    layers: int = Field(default=16, ge=1, le=256)
    heads: int = Field(default=1, ge=1)
    width: int = Field(default=2048, ge=1, le=65_536)
    dropout: float = Field(default=0.1, ge=0, lt=1)
    noise: float = Field(default=0.825, ge=0, lt=1)


class Denoising(Term):
    """Reconstruction of a text from the anchor's vector, by a decoder that is trained too and dropped at the end.

    The decoder D attends to the one vector h_i of the anchor i, as the encoder reads it (a view may have damaged it),
    and predicts the tokens x_i1 ... x_il of the text as it was before::

        loss = mean over all tokens t of all texts of -log p_it(x_it)
        TSDAE     p_it = softmax(D(x_i1 ... x_i(t-1); h_i))      decoder = { kind = "copy" }
        DenoSent  p_it = softmax(D(dropout(e(x_i)); h_i)_t)      decoder = { kind = "new" }

    TSDAE's decoder is the backbone with cross-attention, and shares its weights (``tied``); the first token is read and
    not predicted. DenoSent's is a new one of 16 layers with one head, which reads the output e of the backbone's
    embeddings, without gradient, with .825 of its values dropped, and predicts all tokens, the special ones too. Both
    predict with the backbone's masked-LM head. Where the examples are pairs, ``target = "positive"`` reconstructs the
    pair's other text, as DenoSent does with paraphrases.

    The log has ``reconstructed``, the share of the tokens that are predicted correctly.

    `opencse.objective.losses.masked_lm` is the loss at each token as a function of tensors.

    Example:
        >>> from dataclasses import replace
        >>> reps = Representations.of(torch.eye(1), torch.eye(1))
        >>> sums = torch.tensor([[2.0, 4.0, 1.0]])  # loss 2 over 4 tokens, of which 1 is predicted correctly
        >>> Denoising().loss(replace(reps, computed={"denoising": sums}))
        tensor(0.5000)
    """

    class Settings(PartSettings):
        """Settings of `Denoising`.

        Attributes:
            weight: of the term.
            decoder: the network that reconstructs.
            target: the text that is reconstructed from the anchor's vector.
        """

        kind: Literal["denoising"] = "denoising"
        weight: float = Field(default=1.0, gt=0, allow_inf_nan=False)
        decoder: Annotated[Copied | New, Field(discriminator="kind")] = Copied()
        target: Literal["anchor", "positive"] = "anchor"

    settings: Settings
    compares_examples = False

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__(settings)
        self.decoder: CopiedDecoder | NewDecoder | None = None
        self._texts = AnchorTexts() if self.settings.target == "anchor" else PositiveTexts()

    @property
    def reads(self) -> Set[Request[Any]]:
        """The anchors' vectors, the texts to reconstruct, and the masked-LM head."""
        vectors = AnchorVectors() if self.settings.target == "anchor" else Sentences()
        return {vectors, self._texts, LmHead(instead="leave out the denoising term")}

    @property
    def networks(self) -> Sequence[nn.Module]:
        """The decoder."""
        return () if self.decoder is None else (self.decoder,)

    def check(self, context: Context) -> None:
        """Refuses an encoder without layers, and vectors of another size than a token's state."""
        context.require_layers(f"the {self.kind} term needs a decoder that reads a text")
        context.require_token_size(f"the decoder of the {self.kind} term attends to the sentence vector as to a token")

    def begin(self, encoder: SentenceEncoder, *, batch_size: int, seed: int) -> None:
        """Makes the decoder."""
        del batch_size
        decoder, reader = self.settings.decoder, f"{self.kind} term"
        own_seed = seed_of(seed, self.name)
        if isinstance(decoder, Copied):
            self.decoder = CopiedDecoder(encoder, own_seed, tied=decoder.tied, reader=reader)
        else:
            self.decoder = NewDecoder(
                encoder,
                own_seed,
                layers=decoder.layers,
                heads=decoder.heads,
                width=decoder.width,
                dropout=decoder.dropout,
                noise=decoder.noise,
                reader=reader,
            )

    def compute(self, inputs: StepInputs, reps: Representations) -> Tensor:
        """(N, 3): the sum of the losses of each text's tokens, how many there are, and how many are predicted."""
        assert self.decoder is not None
        decoder, texts = self.decoder, reps[self._texts]

        def reconstruct(start: int, stop: int, vectors: Tensor) -> Tensor:
            rows = texts.rows(start, stop)
            states = decoder(rows, vectors)
            real = rows.attention_mask[:, decoder.ahead :].bool()
            row, column = real.nonzero(as_tuple=True)
            labels = rows.input_ids[:, decoder.ahead :][row, column]
            logits = decoder.head(states[row, column])
            losses = masked_lm(logits, labels)
            right = (logits.detach().argmax(dim=1) == labels).to(losses.dtype)
            columns = torch.stack([losses, torch.ones_like(losses), right], dim=1)
            return sums_by_row(columns, row, column, real.shape)

        return through(decoder, reconstruct, reps.anchor, inputs.chunks)

    def loss(self, reps: Representations) -> Tensor:
        """Mean cross-entropy over the tokens."""
        sums: Tensor = reps.computed[self.name]
        return sums[:, _LOSS].sum() / sums[:, _COUNTED].sum().clamp(min=1)

    def diagnose(self, reps: Representations) -> dict[str, Tensor]:
        """The share of the tokens that the decoder predicts."""
        if self.name not in reps.computed:
            return {}
        totals = reps.computed[self.name].sum(dim=0)
        return {"reconstructed": totals[_RIGHT] / totals[_COUNTED].clamp(min=1)}
