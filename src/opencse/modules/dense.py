"""Dense layers and heads that are applied to the pooled vector."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from opencse.errors import UserError
from opencse.settings import Settings


@contextmanager
def evaluating(module: nn.Module, but: Iterable[nn.Module] = ()) -> Iterator[None]:
    """Evaluation mode within the block; after it every module is in the mode it had before.

    Args:
        module: with all its parts.
        but: parts that keep their mode.

    Example:
        >>> layer = nn.Dropout(0.5).train()
        >>> with evaluating(layer):
        ...     layer.training
        False
        >>> layer.training
        True
    """
    modes = [(part, part.training) for part in module.modules()]
    if not any(training for _, training in modes):
        yield
        return
    stay = [(part, part.training) for excluded in but for part in excluded.modules()]
    module.eval()
    for part, training in stay:
        part.training = training
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training


ACTIVATIONS: dict[str, type[nn.Module]] = {
    "tanh": nn.Tanh,
    "identity": nn.Identity,
    "relu": nn.ReLU,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
    "sigmoid": nn.Sigmoid,
    "leaky_relu": nn.LeakyReLU,
    "elu": nn.ELU,
    "mish": nn.Mish,
}


ACTIVATION_PATHS = {name: f"{kind.__module__}.{kind.__name__}" for name, kind in ACTIVATIONS.items()}
"""``activation_function`` of a Dense module in a saved folder, by our name."""


class HeadSettings(Settings):
    """Settings of the projection head of training.

    Attributes:
        kind: ``none``; ``mlp``: Linear(H, size) + Tanh, newly initialised (normal, sd 0.02; zero bias), the shape of
            BERT's pooler but not its weights (SimCSE, section 6.3); ``linear``: Linear(H, size) alone, for
            vectors of fewer dimensions (SSCL, Table 5), see `Dense.linear_head`; or ``projection``: two linear layers
            with batch normalisation (DiffCSE), see `Projection`.
        size: dimensions of the vectors that the head makes; unset keeps the encoder's own (not with ``linear``).
        keep: whether it stays in the saved encoder (supervised SimCSE, and SSCL's, whose smaller vectors are the
            result) or is used in training only (unsupervised SimCSE, "MLP (train)" of Table 6).

    Example:
        >>> head = new_head(HeadSettings(kind="linear", size=2), 8, torch.Generator().manual_seed(0))
        >>> head(torch.ones(3, 8)).shape
        torch.Size([3, 2])
    """

    kind: Literal["none", "mlp", "linear", "projection"] = "none"
    size: int | None = Field(default=None, ge=1, le=65_536)
    keep: bool = False

    @model_validator(mode="after")
    def _size_where_it_means_something(self) -> HeadSettings:
        if self.kind == "linear" and self.size is None:
            raise ValueError('a linear head needs a size, for instance head = { kind = "linear", size = 256 }')
        if self.kind == "none" and self.size is not None:
            raise ValueError("a size goes with a head; set kind to linear, mlp or projection")
        return self


class Dense(nn.Module):
    """Linear layer and activation: (rows, in) -> (rows, out). sentence-transformers' ``Dense`` module on disk.

    With ``use_residual`` the input is added to the output, through a linear map without bias if sizes differ.

    Example:
        >>> layer = Dense(4, 2, "identity")
        >>> layer(torch.ones(3, 4)).shape
        torch.Size([3, 2])
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        activation: str = "tanh",
        *,
        bias: bool = True,
        use_residual: bool = False,
    ) -> None:
        super().__init__()
        self.linear = nn.Linear(in_features, out_features, bias=bias)
        self.use_residual = use_residual
        if use_residual and in_features != out_features:
            self.residual = nn.Linear(in_features, out_features, bias=False)
        self.activation_name = activation
        self.activation = ACTIVATIONS[activation]()

    @property
    def out_features(self) -> int:
        """Number of dimensions of its output."""
        return self.linear.out_features

    @classmethod
    def mlp_head(cls, features: int, generator: torch.Generator, size: int | None = None) -> Dense:
        """A new MLP head of SimCSE's shape, initialised from ``generator``; ``size`` is ``features`` if not given."""
        head = cls(features, features if size is None else size)
        with torch.no_grad():
            head.linear.weight.normal_(0.0, 0.02, generator=generator)
            head.linear.bias.zero_()
        return head

    @classmethod
    def linear_head(cls, features: int, generator: torch.Generator, size: int) -> Dense:
        """A new linear head: W x + b with orthonormal rows (columns, if ``size`` is above ``features``) and b = 0.

        It starts as a projection on a random subspace, which keeps what a linear map to ``size`` dimensions can keep
        without having seen data: no direction of the subspace is stretched, and cosines change at random alone. The
        authors of SSCL do not say how theirs starts.
        """
        head = cls(features, size, "identity")
        with torch.no_grad():
            nn.init.orthogonal_(head.linear.weight, generator=generator)
            head.linear.bias.zero_()
        return head

    def forward(self, vectors: Tensor) -> Tensor:
        """Activation(W x + b), and with a residual + x, or + R x."""
        output: Tensor = self.activation(self.linear(vectors))
        if not self.use_residual:
            return output
        same = self.linear.in_features == self.linear.out_features
        return output + (vectors if same else self.residual(vectors))


class RowNorm(nn.Module):
    """Batch normalisation: (rows, d) minus each dimension's mean, divided by its standard deviation.

    As torch's BatchNorm1d, of float32 at least: the variance is the biased one plus 1e-5. In training each call with
    gradient moves ``running_mean`` and the unbiased ``running_var`` by a tenth; in evaluation mode they are used.

    Args:
        size: dimensions (d).
        affine: multiply by a learned ``weight`` and add a learned ``bias`` afterwards.

    Example:
        >>> RowNorm(1, affine=False)(torch.tensor([[1.0], [3.0]])).round(decimals=2).flatten().tolist()
        [-1.0, 1.0]
    """

    running_mean: Tensor
    running_var: Tensor
    eps = 1e-5
    momentum = 0.1

    def __init__(self, size: int, *, affine: bool) -> None:
        super().__init__()
        self.register_buffer("running_mean", torch.zeros(size))
        self.register_buffer("running_var", torch.ones(size))
        self.weight = nn.Parameter(torch.ones(size)) if affine else None
        self.bias = nn.Parameter(torch.zeros(size)) if affine else None

    def forward(self, rows: Tensor) -> Tensor:
        """The normalised rows."""
        rows = rows.float() if rows.dtype in (torch.bfloat16, torch.float16) else rows
        look = self.training and not torch.is_grad_enabled()  # without gradient the running values must not change
        mean, variance = (None, None) if look else (self.running_mean, self.running_var)
        with torch.autocast(rows.device.type, enabled=False):
            return nn.functional.batch_norm(
                rows, mean, variance, self.weight, self.bias, self.training, self.momentum, self.eps
            )

    @property
    def map(self) -> tuple[Tensor, Tensor]:
        """The factor and the summand of evaluation mode, in float64."""
        scale = (self.running_var.double() + self.eps).rsqrt()
        scale = scale if self.weight is None else scale * self.weight.double()
        shift = -self.running_mean.double() * scale
        return scale, shift if self.bias is None else shift + self.bias.double()


class Projection(nn.Module):
    """Two linear layers with batch normalisation: (rows, H) -> (rows, size), the head of DiffCSE's code.

    ::

        x = relu(BN(W1 v))       W1: (2H, H) without bias; BN with a learned scale and shift
        z = BN(W2 x)             W2: (size, 2H) without bias; BN without them

    BN is batch normalisation over the rows, see `RowNorm`. W1 and W2 start normal with sd 0.02, as BERT's layers do.

    In training mode the rows are a batch, and must be all rows of it: an encoder with such a head leaves it out where
    rows are encoded in chunks or by several processes, and applies it to the gathered vectors. In evaluation mode a
    vector depends on its own row alone; saved, the head is then two ordinary dense layers (`folded`).

    >>> head = Projection(4, torch.Generator().manual_seed(0))
    >>> head(torch.eye(4)).mean(dim=0).abs().max() < 1e-5
    tensor(True)

    Args:
        features: dimensions of the input (H).
        generator: of the first weights.
        size: dimensions of the output; ``features`` if not given.
    """

    def __init__(self, features: int, generator: torch.Generator, size: int | None = None) -> None:
        super().__init__()
        inside = 2 * features
        self.inner = nn.Linear(features, inside, bias=False)
        self.inner_norm = RowNorm(inside, affine=True)
        self.outer = nn.Linear(inside, features if size is None else size, bias=False)
        self.outer_norm = RowNorm(self.outer.out_features, affine=False)
        with torch.no_grad():
            for linear in (self.inner, self.outer):
                linear.weight.normal_(0.0, 0.02, generator=generator)

    @property
    def out_features(self) -> int:
        """Number of dimensions of its output."""
        return self.outer.out_features

    def forward(self, vectors: Tensor) -> Tensor:
        """The projected rows, of float32 at least.

        Raises:
            UserError: in training, for a batch of one row, which has no variance.
        """
        if self.training and len(vectors) < 2:
            raise UserError(
                "the projection head normalises over the rows of a batch, and one batch has a single row; "
                "set training.batch_size higher, or encoder.head.kind=mlp"
            )
        inside = torch.relu(self.inner_norm(self.inner(vectors)))
        projected: Tensor = self.outer_norm(self.outer(inside))
        return projected

    def folded(self) -> tuple[Dense, Dense]:
        """The head in evaluation mode as two dense layers, its normalisation in their weights."""
        first = self._folded(self.inner, self.inner_norm, "relu")
        return first, self._folded(self.outer, self.outer_norm, "identity")

    @staticmethod
    @torch.no_grad()
    def _folded(linear: nn.Linear, norm: RowNorm, activation: str) -> Dense:
        scale, shift = norm.map
        dense = Dense(linear.in_features, linear.out_features, activation).to(linear.weight)
        dense.linear.weight.copy_(linear.weight.double() * scale.unsqueeze(1))
        dense.linear.bias.copy_(shift)
        return dense


class UnitLength(nn.Module):
    """L2-normalises vectors that other layers follow; the last normalisation is ``normalize`` of the encoder.

    >>> UnitLength()(torch.tensor([[3.0, 4.0]]))
    tensor([[0.6000, 0.8000]])
    """

    def forward(self, vectors: Tensor) -> Tensor:
        """The vectors (rows, d), each of length one."""
        return nn.functional.normalize(vectors, dim=-1)


Head = Dense | Projection
SavedLayer = Dense | nn.LayerNorm | nn.Dropout | UnitLength
"""A layer after the pooling, as a saved folder has it."""


def as_saved(layers: nn.Sequential) -> list[SavedLayer]:
    """Replaces each projection by two dense layers, as inference and a saved folder have them."""
    saved: list[SavedLayer] = []
    for layer in layers:
        if isinstance(layer, Projection):
            saved += layer.folded()
        else:
            assert isinstance(layer, SavedLayer)
            saved.append(layer)
    return saved


def new_head(settings: HeadSettings, features: int, generator: torch.Generator) -> Head | None:
    """The head that ``settings`` describe, for vectors of ``features`` dimensions; None for ``none``."""
    if settings.kind == "none":
        return None
    if settings.kind == "mlp":
        return Dense.mlp_head(features, generator, settings.size)
    if settings.kind == "projection":
        return Projection(features, generator, settings.size)
    assert settings.size is not None, "settings of a linear head have a size"
    return Dense.linear_head(features, generator, settings.size)
