"""Terms between the dimensions of two sets of vectors: DCL, Barlow Twins, whitening of groups."""

from __future__ import annotations

import math
from collections.abc import Sequence, Set
from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from opencse.encoder.encoder import SentenceEncoder
from opencse.modules.dense import Dense, RowNorm
from opencse.objective.columns import same_text
from opencse.objective.contrast import info_nce_from_logits
from opencse.objective.similarity import at_least_float32, pairwise_similarity, standard_normal
from opencse.objective.terms.base import Term
from opencse.objective.vectors.requests import Draws, Sentences
from opencse.objective.vectors.step import Representations, Request
from opencse.settings import AboveZero, FromZero
from opencse.streams import seed_of

_ROUNDING = torch.finfo(torch.float64).eps


def centred(vectors: Tensor) -> Tensor:
    """(N, D) -> (N, D): subtracts the mean of each dimension; exactly 0 where a dimension is constant."""
    shifted = vectors - vectors[:1].detach()  # the mean of equal numbers can be a rounding error off them
    return shifted - shifted.mean(dim=0)


def standardised(vectors: Tensor, *, ddof: int, eps: float) -> Tensor:
    """(N, D) -> (N, D): scales each dimension to mean 0 and variance 1.

    With ``eps`` 0, a dimension of variance 0 has no such form: it becomes 0, and gets no gradient.

    Args:
        vectors: N >= 1 + ``ddof``.
        ddof: 1 divides the squares by N - 1 (unbiased), 0 by N.
        eps: added to the variance.
    """
    deviation = centred(vectors)
    return _divided(deviation, deviation.square().sum(dim=0) / (len(vectors) - ddof) + eps)


def unit_columns(vectors: Tensor) -> Tensor:
    """(N, D) -> (N, D): scales each dimension to length 1; one of zeros stays 0, and gets no gradient."""
    return _divided(vectors, vectors.square().sum(dim=0))


def _divided(vectors: Tensor, squares: Tensor) -> Tensor:
    """``vectors`` / sqrt(``squares``), 0 where these are 0 (the root of 0 has no finite gradient)."""
    zero = squares == 0
    return (vectors / squares.masked_fill(zero, 1.0).sqrt()).masked_fill(zero, 0.0)


def cross_products(first: Tensor, second: Tensor) -> Tensor:
    """(N, D), (N, D) -> (D, D): the dot products of all pairs of dimensions, autocast or not."""
    with torch.autocast(first.device.type, enabled=False):
        return first.T @ second


def rank_of_products(first: Tensor, second: Tensor) -> Tensor:
    """(N, D), (N, D) -> scalar: the rank of ``first.T @ second``, at most min(N, D).

    It counts the singular values above the largest one times ``max(N, D)`` times the rounding unit of float64. They
    equal the singular values of the small product R_1 R_2^T of the QR decompositions of both factors' transposes, so
    no (D, D) matrix is decomposed if N is less than D. Computed on the CPU, in float64.
    """
    # first.T = Q R, so a product of (N, N) triangles has the rank; float64, as rounding hides it in float32.
    triangles = [torch.linalg.qr(side.detach().to("cpu", torch.float64).T, mode="r").R for side in (first, second)]
    rank: Tensor = torch.linalg.matrix_rank(triangles[0] @ triangles[1].T, rtol=max(first.shape) * _ROUNDING)
    return rank


def dcl(
    anchor: Tensor,
    positive: Tensor,
    *,
    temperature: float = 5.0,
    scaling: Literal["paper", "reference"] = "paper",
) -> Tensor:
    """Dimension-wise contrast: each dimension of one view should be most like itself in the other (SimCSE++, eq. 5).

    With y^1, y^2 the anchors and positives, each dimension with mean 0 and variance 1 over the batch::

        s_cd = sum_i y^1_ic y^2_id / temperature
        loss = sum_c ( -s_cc + log sum_d exp(s_cd) )

    ``scaling = "reference"`` is the authors' code, which divides s_cd by N too, takes the mean over c, and uses the
    biased variance plus 1e-5. `opencse.objective.terms.dimensions.DCL` compares the two.

    Args:
        anchor: (N, D), N at least 2.
        positive: (N, D).
        temperature: tau_DCL, above 0.
        scaling: see above.

    Returns:
        Scalar.

    Example:
        >>> views = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
        >>> dcl(views, views, temperature=2.0)
        tensor(0.4028)
        >>> dcl(views, views.flip(1), temperature=2.0)  # the dimensions are swapped
        tensor(3.4028)
    """
    first, second = _dcl_dimensions(anchor, scaling), _dcl_dimensions(positive, scaling)
    logits = cross_products(first, second) / temperature  # (D, D)
    if scaling == "reference":
        # The authors' code divides the products by N, the paper does not.
        logits = logits / len(anchor)
    losses = torch.logsumexp(logits, dim=1) - logits.diagonal()  # (D,)
    # Eq. 5 sums over the dimensions; the code takes the mean.
    return losses.sum() if scaling == "paper" else losses.mean()


def dcl_rank(anchor: Tensor, positive: Tensor, *, scaling: Literal["paper", "reference"] = "paper") -> Tensor:
    """The rank of the (D, D) matrix s of `dcl`: at most min(N - 1, D), because the mean is subtracted.

    Example:
        >>> views = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
        >>> dcl_rank(views, views)
        tensor(2)
    """
    return rank_of_products(*(_dcl_dimensions(view.to("cpu", torch.float64), scaling) for view in (anchor, positive)))


def _dcl_dimensions(vectors: Tensor, scaling: Literal["paper", "reference"]) -> Tensor:
    """(N, D) -> (N, D), each dimension of mean 0 and variance 1."""
    # The second as torch's BatchNorm1d has it.
    ddof, eps = (1, 0.0) if scaling == "paper" else (0, 1e-5)
    return standardised(at_least_float32(vectors), ddof=ddof, eps=eps)


def barlow_twins(
    anchor: Tensor,
    positive: Tensor,
    *,
    off_diagonal: float = 0.005,
    centre: bool = False,
    scaling: Literal["unit", "batch_norm"] = "unit",
) -> Tensor:
    """Barlow Twins: the correlation matrix of the two views' dimensions should be the identity (SimCSE++, eq. 4).

    With z^1, z^2 the anchors and positives::

        C_cd = sum_i z^1_ic z^2_id / ( sqrt(sum_i (z^1_ic)^2) sqrt(sum_i (z^2_id)^2) )
        loss = sum_c (1 - C_cc)^2 + off_diagonal * sum_c sum_{d != c} C_cd^2

    Zbontar et al. (2021, arXiv:2103.03230), whose loss it is, subtract the mean of each dimension first: ``centre``.

    Args:
        anchor: (N, D).
        positive: (N, D).
        off_diagonal: lambda_BT.
        centre: whether the mean of each dimension is subtracted first.
        scaling: ``unit`` divides each dimension by its length, as above; ``batch_norm`` (an earlier commit of the code
            of SimCSE++) divides each dimension less its mean by the root of its biased variance plus 1e-5, and C by N.

    Returns:
        Scalar.

    Example:
        >>> views = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
        >>> barlow_twins(views, views)
        tensor(0.)
        >>> barlow_twins(views, views.flip(1))  # C is 0 on the diagonal and 1 elsewhere
        tensor(2.0100)
    """
    first, second = (_barlow_dimensions(view, scaling, centre=centre) for view in (anchor, positive))
    correlation = cross_products(first, second)  # (D, D), C
    diagonal = correlation.diagonal()
    others = correlation - torch.diag(diagonal)
    return (1.0 - diagonal).square().sum() + off_diagonal * others.square().sum()


def barlow_twins_rank(
    anchor: Tensor, positive: Tensor, *, centre: bool = False, scaling: Literal["unit", "batch_norm"] = "unit"
) -> Tensor:
    """The rank of the correlation matrix C of `barlow_twins`: at most min(N, D), or min(N - 1, D) if centred.

    Example:
        >>> views = torch.tensor([[1.0, 1.0, 1.0], [1.0, -1.0, 1.0]])
        >>> barlow_twins_rank(views, views), barlow_twins_rank(views, views, centre=True)
        (tensor(2), tensor(1))
    """
    views = (view.to("cpu", torch.float64) for view in (anchor, positive))
    return rank_of_products(*(_barlow_dimensions(view, scaling, centre=centre) for view in views))


def _barlow_dimensions(vectors: Tensor, scaling: Literal["unit", "batch_norm"], *, centre: bool) -> Tensor:
    """(N, D) -> (N, D), each dimension of length 1."""
    vectors = at_least_float32(vectors)
    if scaling == "batch_norm":
        return standardised(vectors, ddof=0, eps=1e-5) / math.sqrt(len(vectors))
    return unit_columns(centred(vectors) if centre else vectors)


class DCL(Term):
    """Dimension-wise contrast: each dimension of one view should be most like itself in the other (SimCSE++, eq. 5).

    With y^1, y^2 the (N, D) anchors and positives, each dimension with mean 0 and variance 1 over the batch::

        s_cd = sum_i y^1_ic y^2_id / temperature
        loss = sum_c ( -s_cc + log sum_d exp(s_cd) )

    That is ``scaling = "paper"``. ``"reference"`` is the authors' code, another regime under the same name:

    ============================  =========================  ==================================
    .                             paper                      reference
    ============================  =========================  ==================================
    variance                      unbiased (N - 1)           biased (N), plus 1e-5
    s_cd                          as above                   divided by N too
    loss                          sum over c                 mean over c
    s_cc; sd of s_cd, c != d      11.4; 1.6                  .18; .025
    mean over c of the loss       .03 (their sum: 25)        6.46 (log D is 6.64)
    ============================  =========================  ==================================

    (numbers: N = 64, D = 768, temperature 5, the two views of a dimension correlated by .905). In the paper's regime
    the softmax is sharp; in the code's it is nearly uniform, which makes the term a weak, nearly constant pull: up on
    the diagonal, down on everything else. Where the authors train in several processes, their s_cd is larger by the
    number of processes.

    In the paper's scaling s grows with N, so a temperature goes with a batch: what 5 is at 64 examples, 20 is at 256.
    If the two views are similar and the temperature is too low for the batch, the term is 0 from the first step
    (docs/results/family.md).

    A dimension of variance 0 has no y: under ``paper`` it is 0, so its logits are 0, its loss is log D, and it gets no
    gradient from the term; under ``reference`` the 1e-5 keeps it finite. It works without contrast too
    (``negatives = []``, Table 4, there with a temperature of .05).

    The log has ``dcl_rank``, the rank of the (D, D) matrix s, at most min(N - 1, D) because the mean is subtracted.

    `opencse.objective.losses.dcl` is the loss as a function of two tensors.

    Example:
        >>> import torch
        >>> views = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
        >>> DCL(DCL.Settings(temperature=2.0)).loss(Representations.of(views, views))
        tensor(0.4028)
    """

    recordable = True

    class Settings(Term.Settings):
        """Settings of `DCL`.

        Attributes:
            temperature: tau_DCL of eq. 5.
            weight: lambda of eq. 6.
            scaling: ``paper`` or ``reference``.
        """

        kind: Literal["dcl"] = "dcl"
        weight: AboveZero = 0.1
        temperature: AboveZero = 5.0
        scaling: Literal["paper", "reference"] = "paper"

    settings: Settings

    def loss(self, reps: Representations) -> Tensor:
        """`losses.dcl` of the two views."""
        settings = self.settings
        return dcl(reps.anchor, reps.positive, temperature=settings.temperature, scaling=settings.scaling)

    def diagnose(self, reps: Representations) -> dict[str, Tensor]:
        """``dcl_rank``: the rank of s."""
        return {"dcl_rank": dcl_rank(reps.anchor, reps.positive, scaling=self.settings.scaling)}


class BarlowTwins(Term):
    """Barlow Twins: the correlation matrix of the two views' dimensions should be the identity (SimCSE++, eq. 4).

    With z^1, z^2 the (N, D) anchors and positives::

        C_cd = sum_i z^1_ic z^2_id / ( sqrt(sum_i (z^1_ic)^2) sqrt(sum_i (z^2_id)^2) )
        loss = sum_c (1 - C_cc)^2 + off_diagonal * sum_c sum_{d != c} C_cd^2

    (The paper prints a minus before the first sum; Zbontar et al. 2021, whose loss it is, add both.) The paper
    subtracts no mean; Zbontar et al. do: ``centre``. C is at most of rank N, so it cannot become the identity of D > N
    dimensions. ``artificial`` (M) appends M standard normal rows, drawn at each step, to both matrices
    (section 4.2 and Table 2, M = 100, 300, 704) and makes the bound N + M. They are the same rows for both views, as
    in the authors' code: an artificial example agrees with itself. The mean, if it is subtracted, is that of all N + M
    rows. ``scaling = "batch_norm"`` is the loss in an earlier commit of that code, defined there
    and not used: each dimension less its mean, divided by the root of its biased variance plus 1e-5, C their products
    divided by the rows, ``off_diagonal`` .012, one draw of the rows for the whole run (here a new one each step). A
    dimension of zeros (a constant one, if centred) has C_cd = 0 and gets no gradient.

    The log has ``barlow_twins_rank``, the rank of C: at most min(N + M, D), one less if centred and N + M <= D.

    `opencse.objective.losses.barlow_twins` is the loss as a function of two tensors.

    Example:
        >>> reps = Representations.of(torch.eye(3), torch.eye(3))
        >>> BarlowTwins().loss(reps)
        tensor(0.)
        >>> BarlowTwins(BarlowTwins.Settings(artificial=2)).diagnose(reps)
        {'barlow_twins_rank': tensor(3)}
    """

    class Settings(Term.Settings):
        """Settings of `BarlowTwins`.

        Attributes:
            weight: the weight of the term. The paper gives none; the default is the one of its other term, ``dcl``.
            off_diagonal: lambda_BT. The paper gives none; the default is Zbontar et al.'s.
            artificial: rows appended (M).
            centre: whether the mean of each dimension is subtracted first.
            scaling: ``unit`` divides each dimension by its length, as above; ``batch_norm`` is the authors' code.
            projector: widths of a network that the vectors go through first: linear layers with batch normalisation
                and ReLU between them; empty for none. ``scaling`` normalises what it gives. It starts normal with
                standard deviation .02, is trained with the encoder and dropped at the end (SCD: 4096, 4096, 4096).
        """

        kind: Literal["barlow_twins"] = "barlow_twins"
        weight: AboveZero = 0.1
        off_diagonal: FromZero = 0.005
        artificial: int = Field(default=0, ge=0, le=1_048_576)
        centre: bool = False
        scaling: Literal["unit", "batch_norm"] = "unit"
        projector: tuple[Annotated[int, Field(ge=1, le=65_536)], ...] = ()

    settings: Settings

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__(settings)
        self.projector: nn.Sequential | None = None

    def begin(self, encoder: SentenceEncoder, *, batch_size: int, seed: int) -> None:
        """Makes the projector, if its settings have one."""
        if self.settings.projector:
            generator = torch.Generator().manual_seed(seed_of(seed, self.name))
            self.projector = _projector(encoder.training_dimension, self.settings.projector, generator)
            self.projector.to(encoder.device)

    def loss(self, reps: Representations) -> Tensor:
        """`losses.barlow_twins` of the views with the artificial rows."""
        settings = self.settings
        return barlow_twins(
            *self._padded(reps),
            off_diagonal=settings.off_diagonal,
            centre=settings.centre,
            scaling=settings.scaling,
        )

    def diagnose(self, reps: Representations) -> dict[str, Tensor]:
        """``barlow_twins_rank``: the rank of C."""
        settings = self.settings
        rank = barlow_twins_rank(*self._padded(reps), centre=settings.centre, scaling=settings.scaling)
        return {"barlow_twins_rank": rank}

    def _padded(self, reps: Representations) -> tuple[Tensor, Tensor]:
        """Both views, (N + M, D)."""
        anchor, positive = (self._projected(at_least_float32(side)) for side in (reps.anchor, reps.positive))
        if not self.settings.artificial:
            return anchor, positive
        rows = standard_normal((self.settings.artificial, anchor.shape[1]), anchor, self.noise(reps))
        return torch.cat([anchor, rows]), torch.cat([positive, rows])

    def _projected(self, vectors: Tensor) -> Tensor:
        if not self.settings.projector:
            return vectors
        assert self.projector is not None
        with torch.autocast(vectors.device.type, enabled=False):
            projected: Tensor = self.projector(vectors)
        return projected


def _projector(size: int, widths: Sequence[int], generator: torch.Generator) -> nn.Sequential:
    """Linear layers without bias, with batch normalisation and ReLU between them; weights normal as BERT's, sd .02."""
    layers: list[nn.Module] = []
    for width in widths:
        linear = nn.Linear(size, width, bias=False)
        with torch.no_grad():
            linear.weight.normal_(0.0, 0.02, generator=generator)
        layers += [linear, RowNorm(width, affine=True), nn.ReLU()]
        size = width
    # Nothing follows the last map, as in Barlow Twins' code.
    return nn.Sequential(*layers[:-2])


def group_whitening(
    vectors: Tensor, order: Tensor, *, size: int, epsilon: float = 1e-5, detached: bool = False
) -> Tensor:
    """Whitens groups of dimensions of a batch, each group by itself.

    Zhuo et al. 2023, arXiv:2305.17746, section 3. The dimensions are put in ``order`` and divided into groups of
    ``size``. With X_g the (N, size) columns of a group, less their means::

        C_g = X_g^T X_g / N + epsilon I
        Y_g = X_g C_g^(-1/2)

    and the dimensions are put back in their places. The last group is smaller if ``size`` does not divide d. Another
    random order gives another distortion of the same vectors.

    Args:
        vectors: (N, d).
        order: (d,) the dimensions, in the order in which they are grouped.
        size: dimensions of a group.
        epsilon: added to each variance, so that fewer rows than dimensions do no harm.
        detached: whether the matrices ``C_g^(-1/2)`` take no gradient.

    Returns:
        (N, d), float32 at least: in each group the mean is 0 and the covariance nearly the identity.

    Example:
        >>> vectors = torch.tensor([[2.0, 0.0, 5.0], [-2.0, 0.0, 7.0], [0.0, 1.0, 6.0], [0.0, -1.0, 6.0]])
        >>> white = group_whitening(vectors, torch.tensor([0, 1, 2]), size=2)
        >>> (white.T @ white / 4).round(decimals=2).tolist()  # dimensions 0 and 1 are a group, 2 is one by itself
        [[1.0, 0.0, -1.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 1.0]]
    """
    shuffled = at_least_float32(vectors)[:, order]
    centred = shuffled - shuffled.mean(dim=0)
    whitened = [_whitened(group, epsilon, detached) for group in _groups(centred, size)]
    return torch.cat(whitened, dim=1)[:, order.argsort()]


def _groups(vectors: Tensor, size: int) -> list[Tensor]:
    """(G, N, size) of the full groups, and (1, N, rest) of the last one if it is smaller."""
    n, d = vectors.shape
    full = d // size
    parts = [vectors[:, : full * size].reshape(n, full, size).transpose(0, 1)] if full else []
    return parts + ([vectors[None, :, full * size :]] if d % size else [])


def _whitened(groups: Tensor, epsilon: float, detached: bool) -> Tensor:
    """(G, N, s) -> (N, G * s)."""
    source = groups.detach() if detached else groups
    identity = torch.eye(groups.shape[2], dtype=groups.dtype, device=groups.device)
    covariance = source.transpose(1, 2) @ source / groups.shape[1] + epsilon * identity
    matrices: Tensor = _InverseRoot.apply(covariance)  # type: ignore[no-untyped-call]
    return (groups @ matrices).transpose(0, 1).flatten(1)


class _InverseRoot(torch.autograd.Function):
    """``C^(-1/2)`` of symmetric positive matrices (G, s, s).

    Its gradient has no quotients of differences of eigenvalues, so equal eigenvalues do no harm: with C = U diag(l) U^T
    and r = sqrt(l), an entry of the change of C in the basis U is divided by ``-r_i r_j (r_i + r_j)``.
    """

    @staticmethod
    def forward(ctx: Any, matrices: Tensor) -> Tensor:  # noqa: ANN401 - as torch has it
        """(G, s, s) -> (G, s, s)."""
        values, basis = torch.linalg.eigh(matrices)
        # Rounding can leave an eigenvalue of a singular matrix below 0.
        roots = values.clamp(min=torch.finfo(values.dtype).tiny).sqrt()
        ctx.save_for_backward(roots, basis)
        result: Tensor = (basis / roots.unsqueeze(1)) @ basis.transpose(1, 2)
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # noqa: ANN401 - as torch has it
        """The gradient of the matrices."""
        roots, basis = ctx.saved_tensors
        inside = basis.transpose(1, 2) @ gradient @ basis
        a, b = roots.unsqueeze(2), roots.unsqueeze(1)
        result: Tensor = basis @ (-inside / (a * b * (a + b))) @ basis.transpose(1, 2)
        return (result + result.transpose(1, 2)) / 2


class WhitenedContrast(Term):
    """Contrast of several whitened copies of each sentence (WhitenedCSE, section 3).

    The copies of a sentence are its anchor, its positive, and further dropout draws of the anchor. The N vectors of
    each copy are whitened by `opencse.objective.losses.group_whitening`, in groups of dimensions that are drawn again
    for each copy and step, and go through a layer of the term (linear, tanh), which is dropped after training. With
    z_c the result of copy c, the loss is SimCSE's between the first copy and each other one::

        loss = sum over c = 2 ... copies of InfoNCE(z_1, z_c)

    It takes the place of the contrast, so ``objective.negatives`` may be empty, and the encoder's own head is ``none``.

    The authors' code does not run as it is published (a positional argument after a named one); where it is clear, it
    differs from the paper: it whitens the first, second and last third of the rows of all copies, sentence by sentence
    (``rows = "thirds"``), and the whitening matrices take no gradient (``detached``).

    Example:
        >>> from dataclasses import replace
        >>> vectors = torch.tensor([[1.0, 0.5], [-1.0, 0.5], [0.0, -1.0]])
        >>> reps = replace(Representations.of(vectors, vectors), answers={Draws(1): vectors.unsqueeze(0)})
        >>> WhitenedContrast(WhitenedContrast.Settings(group_size=2, temperature=1.0)).loss(reps)
        tensor(0.7380)
    """

    class Settings(Term.Settings):
        """Settings of `WhitenedContrast`.

        Attributes:
            temperature: tau.
            copies: copies of each sentence, at least 2: the anchor, the positive, and further draws of the anchor.
            group_size: dimensions of a group; 6 makes 128 groups of BERT-base's 768 dimensions.
            rows: which rows are whitened together: those of a ``copy``, or ``thirds`` (parts of as many rows) of all
                copies of the first sentence, then of the second, and so on.
            detached: whether the whitening matrices take no gradient.
            epsilon: added to each variance.
            mask_duplicates: whether equal texts are not each other's negatives.
        """

        kind: Literal["whitened"] = "whitened"
        temperature: AboveZero = 0.05
        copies: int = Field(default=3, ge=2, le=1_024)
        group_size: int = Field(default=6, ge=1, le=1_048_576)
        rows: Literal["copy", "thirds"] = "copy"
        detached: bool = False
        epsilon: AboveZero = 1e-5
        mask_duplicates: bool = True

    settings: Settings
    cannot = (("training_head", "has a layer of its own after the whitening"),)

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__(settings)
        self.layer: torch.nn.Module = torch.nn.Identity()

    @property
    def reads(self) -> Set[Request[Any]]:
        """Both views, and the further draws."""
        return {Sentences(), *self._draws}

    @property
    def _draws(self) -> list[Draws]:
        return [Draws(self.settings.copies - 2)] if self.settings.copies > 2 else []

    def begin(self, encoder: SentenceEncoder, *, batch_size: int, seed: int) -> None:
        """Makes the layer after the whitening, with BERT's initialisation."""
        size = encoder.training_dimension
        layer = Dense(size, size)
        generator = torch.Generator().manual_seed(seed_of(seed, self.name))
        with torch.no_grad():
            layer.linear.weight.normal_(0.0, 0.02, generator=generator)
            layer.linear.bias.zero_()
        self.layer = layer.to(encoder.device)

    def whitened(self, reps: Representations) -> Tensor:
        """(copies, N, d): the whitened vectors, before the layer."""
        settings = self.settings
        further = [reps[draws] for draws in self._draws]
        copies = torch.cat([torch.stack([reps.anchor, reps.positive]), *further])  # (copies, N, d)
        count, n, d = copies.shape
        # What the published code does: its reshape mixes the rows of the copies.
        if settings.rows == "thirds":
            copies = copies.transpose(0, 1).reshape(count, n, d)
        noise = self.noise(reps)
        orders = [torch.rand(d, generator=noise, device=copies.device).argsort() for _ in range(count)]
        white = torch.stack(
            [
                group_whitening(
                    copy, order, size=settings.group_size, epsilon=settings.epsilon, detached=settings.detached
                )
                for copy, order in zip(copies, orders, strict=True)
            ]
        )
        return white.reshape(n, count, d).transpose(0, 1) if settings.rows == "thirds" else white

    def loss(self, reps: Representations) -> Tensor:
        """The sum of the contrasts of the first copy with each other one."""
        first, *others = self.layer(self.whitened(reps))
        keys = reps.keys[:, :2]
        excluded = torch.eye(len(first), dtype=torch.bool, device=first.device)
        if self.settings.mask_duplicates:
            excluded = excluded | same_text(keys, keys)
        losses = []
        for other in others:
            logits = pairwise_similarity(at_least_float32(first), at_least_float32(other), "cosine")
            logits = logits / self.settings.temperature
            losses.append(info_nce_from_logits(logits.diagonal(), logits.masked_fill(excluded, -torch.inf)).mean())
        return torch.stack(losses).sum()
