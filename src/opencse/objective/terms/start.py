"""Terms that hold the encoder to the one that training begins with: its vectors, weights, or layers (SG-OPT)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from opencse.encoder.encoder import SentenceEncoder
from opencse.kernels.states import Encoded
from opencse.modules.pooling import Pooling
from opencse.objective.columns import same_text
from opencse.objective.similarity import at_least_float32
from opencse.objective.teachers.teacher import START, Teacher, TeacherSettings, TeacherVectors
from opencse.objective.terms.base import Term
from opencse.objective.terms.distillation import vector_distance
from opencse.objective.vectors.step import Forward, Representations, Request, StepInputs
from opencse.settings import AboveZero, FromZero
from opencse.streams import seed_of


@dataclass(frozen=True)
class SharedWeights:
    """The trained weights of the backbone.

    Attributes:
        weights: by their names in the backbone.
        processes: how many processes train together. Their gradients of these weights are added up, so a loss of the
            weights alone has to be divided by this number in the backward pass; see `once`.
    """

    weights: Mapping[str, Tensor]
    processes: int

    def once(self, loss: Tensor) -> Tensor:
        """The same loss, whose gradients of all processes add up to the gradient of one."""
        return loss if self.processes == 1 else loss.detach() + (loss - loss.detach()) / self.processes


@dataclass(frozen=True)
class BackboneWeights(Request[SharedWeights]):
    """The trained weights of the encoder's backbone, with gradient."""

    encodes: ClassVar[bool] = False

    def ask(self, forward: Forward) -> Callable[[Encoded], SharedWeights]:
        """Adds nothing to the forward pass."""
        trained = {name: p for name, p in forward.encoder.backbone.named_parameters() if p.requires_grad}
        processes = forward.inputs.chunks.world.count
        return lambda encoded: SharedWeights(trained, processes)


class NearStart(Term):
    """A penalty for leaving the start, so that training on few texts forgets less of what the encoder knew.

    With v a text's vector, v_0 the start's vector of it, theta and theta_0 the weights of the backbone::

        loss = vectors * mean over both views of distance(v, v_0)  +  weights * sum (theta - theta_0)^2

    ``distance`` is ``1 - cos`` or the mean squared difference per dimension. The penalty of the weights is SG-OPT's
    (Kim et al. 2021, arXiv:2106.07345, eq. 5, there with .1 and without the square). The start's vectors are made
    without dropout. It is used in place of, or with, the averages of weights of `opencse adapt`
    (``training.average_with_start``)::

        opencse adapt docs -s 'objective.terms=[{kind="near_start", vectors=1.0}]' -s training.average_with_start=[1.0]

    The log has ``start_distance``, the first mean, where vectors are compared.

    Example:
        >>> NearStart.Settings().vectors, NearStart.Settings(vectors=0.0, weights=0.1).weights
        (1.0, 0.1)
    """

    class Settings(Term.Settings):
        """Settings of `NearStart`.

        Attributes:
            vectors: factor of the distance of vectors.
            weights: factor of the distance of weights.
            distance: the distance of two vectors.
        """

        kind: Literal["near_start"] = "near_start"
        vectors: FromZero = 1.0
        weights: FromZero = 0.0
        distance: Literal["cosine", "mse"] = "cosine"

        @model_validator(mode="after")
        def _something_is_near(self) -> NearStart.Settings:
            if not self.vectors and not self.weights:
                raise ValueError("vectors and weights are both 0, so nothing is compared; set one of them")
            return self

    settings: Settings
    compares_examples = False

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__(settings)
        plain = TeacherSettings(model=START)
        self.teacher = Teacher(plain, f"{self.kind} term")
        self.request = TeacherVectors(plain, "views", self.teacher)
        if self.settings.vectors:
            self.cannot = (("training_head", "compares vectors with the start's (without vectors=0), which have none"),)

    @property
    def reads(self) -> Set[Request[Any]]:
        """The vectors of the views and the start's, and the weights, as far as the settings need them."""
        vectors = {*super().reads, self.request} if self.settings.vectors else set()
        return {*vectors, *([BackboneWeights()] if self.settings.weights else [])}

    def begin(self, encoder: SentenceEncoder, *, batch_size: int, seed: int) -> None:
        """Copies the start."""
        self.teacher.begin(encoder)

    def loss(self, reps: Representations) -> Tensor:
        """The sum of both penalties."""
        settings, total = self.settings, torch.zeros((), device=reps.keys.device)
        if settings.vectors:
            total = total + settings.vectors * self._distance(reps)
        if settings.weights:
            shared = reps[BackboneWeights()]
            start = dict(self.teacher.model.backbone.named_parameters())
            squares = [(weight - start[name]).square().sum() for name, weight in shared.weights.items()]
            total = total + settings.weights * shared.once(torch.stack(squares).sum())
        return total

    def diagnose(self, reps: Representations) -> dict[str, Tensor]:
        """``start_distance``: the mean distance of the vectors from the start's."""
        return {"start_distance": self._distance(reps)} if self.settings.vectors else {}

    def _distance(self, reps: Representations) -> Tensor:
        taught = reps[self.request]
        both = torch.cat([reps.anchor, reps.positive])
        start = torch.cat([taught.anchor, taught.positive])
        if not self._is_normalised:
            return vector_distance(both, start, self.settings.distance)
        return vector_distance(nn.functional.normalize(both, dim=1), start, self.settings.distance)

    @property
    def _is_normalised(self) -> bool:
        """Whether saved vectors have length 1: the start's have, the ones in training have not."""
        return self.teacher.model.normalize


def self_guided(anchor: Tensor, layers: Tensor, *, temperature: float = 0.01, left_out: Tensor | None = None) -> Tensor:
    """SG-OPT: each layer's vector of the own text against all layers' of the other texts.

    Kim, Yoo and Lee 2021, arXiv:2106.07345, eq. 6 and 7. With c_i the trained vector of text i, h_ik that of a frozen
    model at layer k, both after a projection, and ``phi(x, y) = exp(cos(x, y) / temperature)``::

        Z_i  = sum over all layers l and all texts j != i of phi(c_i, h_jl)
        loss = mean over texts i and layers k of -log( phi(c_i, h_ik) / (phi(c_i, h_ik) + Z_i) )

    So the other layers of the own text are not negatives, and neither are the other texts' trained vectors.

    Args:
        anchor: (N, d) trained vectors.
        layers: (L, N, d) the frozen model's.
        temperature: tau, above 0; .01 in the authors' code.
        left_out: (N, N) True where text j is not a negative of text i, in addition to j = i; None for nowhere.

    Returns:
        Scalar.

    Example:
        >>> vectors = torch.eye(2)
        >>> self_guided(vectors, torch.stack([vectors, vectors]), temperature=1.0)  # log(1 + 2 / e)
        tensor(0.5514)
        >>> self_guided(vectors, torch.stack([vectors, vectors.flip(0)]), temperature=1.0)
        tensor(1.2067)
    """
    unit, others = (torch.nn.functional.normalize(at_least_float32(x), dim=-1) for x in (anchor, layers))
    logits = torch.einsum("id,ljd->lij", unit, others) / temperature  # (L, N, N)
    excluded = torch.eye(len(anchor), dtype=torch.bool, device=anchor.device)
    if left_out is not None:
        excluded = excluded | left_out
    positive = logits.diagonal(dim1=1, dim2=2)  # (L, N)
    negatives = logits.masked_fill(excluded, -torch.inf).transpose(0, 1).flatten(1).logsumexp(dim=1)  # (N,)
    return (torch.logaddexp(positive, negatives) - positive).mean()


class SelfGuided(Term):
    """Self-guided contrast (SG-OPT): a frozen copy of the start gives the anchor's positives at each of its layers.

    The copy's token vectors are pooled at every layer, the output of the embeddings among them. The anchor's vector and
    the pooled ones go through a projection of two linear layers with a GELU after each, which is trained with the
    encoder and dropped at the end. The anchor is pulled to each layer's vector of its own text, against all layers'
    vectors of the other texts: `opencse.objective.losses.self_guided`. The paper adds a distance to the start, the term
    ``near_start``.

    The copy has no dropout; in the authors' code training mode reaches it too, so its dropout is on there. Equal
    texts are each other's negatives there (``mask_duplicates = false``).

    Example:
        >>> from dataclasses import replace
        >>> reps = Representations.of(torch.eye(2), torch.eye(2))
        >>> layers = torch.stack([torch.eye(2), torch.eye(2)])
        >>> term = SelfGuided(SelfGuided.Settings(temperature=1.0))
        >>> term.loss(replace(reps, computed={"self_guided": layers}))  # before `begin` there is no projection
        tensor(0.5514)
    """

    class Settings(Term.Settings):
        """Settings of `SelfGuided`.

        Attributes:
            temperature: tau.
            pooling: the pooling of the copy's layers.
            size: dimensions of the projection; 0 for none.
            dropout: whether the copy's dropout is on.
            mask_duplicates: whether equal texts are not each other's negatives.
        """

        kind: Literal["self_guided"] = "self_guided"
        temperature: AboveZero = 0.01
        pooling: Pooling = Pooling.MEAN
        size: int = Field(default=4096, ge=0, le=1_048_576)
        dropout: bool = False
        mask_duplicates: bool = True

        @model_validator(mode="after")
        def _layers_are_pooled_one_by_one(self) -> SelfGuided.Settings:
            if len(self.pooling.layers(2)) > 1:
                raise ValueError(
                    f"layers are pooled one by one, and pooling {self.pooling} averages several; take mean"
                )
            return self

    settings: Settings
    start: SentenceEncoder
    cannot = (
        ("no_layers", "compares vectors with its layers'"),
        ("other_size", "compares sentence vectors with the layers'"),
    )

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__(settings)
        self.projection: nn.Module = nn.Identity()

    def begin(self, encoder: SentenceEncoder, *, batch_size: int, seed: int) -> None:
        """Copies the encoder, and makes the projection."""
        start = encoder.twin()
        start.lm_head, start.projection, start.dense = None, None, nn.Sequential()
        start.pooling, start.token_weights = self.settings.pooling, None
        self.start = start.requires_grad_(False).eval()
        if self.settings.size:
            config = encoder.backbone.config
            sd = float(getattr(config, "initializer_range", 0.02))
            generator = torch.Generator().manual_seed(seed_of(seed, self.name))
            layers = nn.Linear(encoder.training_dimension, self.settings.size), nn.Linear(*2 * (self.settings.size,))
            with torch.no_grad():
                for layer in layers:
                    layer.weight.normal_(0.0, sd, generator=generator)
                    layer.bias.zero_()
            self.projection = nn.Sequential(layers[0], nn.GELU(), layers[1], nn.GELU()).to(encoder.device)

    @torch.no_grad()
    def compute(self, inputs: StepInputs, reps: Representations) -> Tensor:
        """(L + 1, N, hidden): the copy's vectors of the anchors at each layer, the embeddings' first."""
        self.start.train(self.settings.dropout)
        layers = range(self.start.depth + 1)
        encoded = inputs.chunks.encode(self.start, inputs.anchors, layers=layers)
        return torch.stack([at_least_float32(encoded.layers[layer]) for layer in layers])

    def loss(self, reps: Representations) -> Tensor:
        """`losses.self_guided` of the projected vectors."""
        settings = self.settings
        anchor, layers = at_least_float32(reps.anchor), reps.computed[self.name]
        keys = reps.keys[:, :1]
        left_out = same_text(keys, keys) if settings.mask_duplicates else None
        return self_guided(
            self.projection(anchor), self.projection(layers), temperature=settings.temperature, left_out=left_out
        )
