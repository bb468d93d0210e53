"""Terms of labelled rows: graded pairs, classes of pairs, and triplets with a margin."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any, Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn import functional

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.objective.similarity import at_least_float32, rowwise_similarity
from opencse.objective.terms.base import Term
from opencse.objective.vectors.requests import Classes, HardNegatives, Scores, Sentences
from opencse.objective.vectors.step import Representations, Request
from opencse.settings import AboveZero, FromZero
from opencse.streams import seed_of

PairFeature = Literal["vectors", "difference", "product"]
"""What a classifier reads of a pair: u and v, |u - v|, or u * v."""
Distance = Literal["euclidean", "manhattan", "cosine"]


def ranked(similarity: Tensor, scores: Tensor, *, scale: float = 20.0) -> Tensor:
    """The loss of pairs in a wrong order: a pair with a higher score should have the higher similarity.

    With s_i the similarity and y_i the score of pair i::

        loss = log( 1 + sum over all i, j with y_i > y_j of exp(scale * (s_j - s_i)) )

    Only the order of the scores counts. It is the form of `cosent` and of `angle`.

    Args:
        similarity: (N,).
        scores: (N,).
        scale: factor of the similarities, above 0: one over a temperature.

    Returns:
        Scalar; 0 where all scores are equal.

    Example:
        >>> ranked(torch.tensor([0.9, 0.1]), torch.tensor([1.0, 0.0]), scale=1.0)  # log(1 + exp(-0.8))
        tensor(0.3711)
    """
    logits = scale * at_least_float32(similarity)
    differences = logits.unsqueeze(0) - logits.unsqueeze(1)  # (N, N): s_j - s_i in row i, column j
    wrong = scores.unsqueeze(1) > scores.unsqueeze(0)
    terms = differences.masked_fill(~wrong, -torch.inf).flatten()
    # The zero is the 1 in log(1 + sum of exponentials).
    return torch.logsumexp(torch.cat([terms.new_zeros(1), terms]), dim=0)


def cosent(first: Tensor, second: Tensor, scores: Tensor, *, scale: float = 20.0) -> Tensor:
    """CoSENT: `ranked` of the cosines of graded pairs.

    Published as a blog post (Su 2022, "CoSENT (I)") and by Huang et al. 2024 (TASLP, "CoSENT: Consistent Sentence
    Embedding via Similarity Ranking"), with scale 20; sentence-transformers' ``CoSENTLoss`` is the same.

    Args:
        first: (N, d).
        second: (N, d).
        scores: (N,) of the pairs; higher is more similar.
        scale: see `ranked`.

    Returns:
        Scalar.

    Example:
        >>> first, second = torch.eye(2), torch.tensor([[1.0, 0.0], [1.0, 0.0]])  # cosines 1 and 0
        >>> cosent(first, second, torch.tensor([0.2, 0.8]), scale=1.0)  # the wrong order: log(1 + e)
        tensor(1.3133)
    """
    return ranked(rowwise_similarity(first, second, "cosine"), scores, scale=scale)


def angle_similarity(first: Tensor, second: Tensor) -> Tensor:
    """The similarity of two vectors by their difference of angles in complex space (Li and Li 2023, eq. 5 to 8).

    The first half of a vector is the real part of d/2 complex numbers, the second half their imaginary part. With z
    and w these numbers of the two vectors, each vector of length 1::

        similarity = | sum_k Re(z_k conj(w_k)) + Im(z_k conj(w_k)) |

    The real parts add up to the cosine. It is the authors' code; the paper divides z by w, normalises, and takes the
    absolute value of the sum of the two parts of all quotients, which is the same number. A vector of odd length
    gets a 0 at its end.

    Args:
        first: (N, d).
        second: (N, d).

    Returns:
        (N,).

    Example:
        >>> angle_similarity(torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
        tensor([1., 1.])
        >>> angle_similarity(torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 1.0]]))  # 45 degrees
        tensor([0.])
    """
    first, second = (functional.normalize(at_least_float32(vectors), dim=1) for vectors in (first, second))
    cosine = (first * second).sum(dim=1)
    # The last number of an odd vector has the imaginary part 0.
    if first.shape[1] % 2:
        first, second = functional.pad(first, (0, 1)), functional.pad(second, (0, 1))
    (a, b), (c, d) = first.chunk(2, dim=1), second.chunk(2, dim=1)
    return (cosine + (b * c - a * d).sum(dim=1)).abs()


def angle(first: Tensor, second: Tensor, scores: Tensor, *, scale: float = 20.0) -> Tensor:
    """AnglE's loss of graded pairs: `ranked` of `angle_similarity` (Li and Li 2023, arXiv:2309.12871, eq. 9).

    The paper's sum has the angle differences of the pair with the higher score first, as a difference of angles shrinks
    with similarity; its code, like sentence-transformers' ``AnglELoss``, treats the number as a similarity, which
    is what is done here. Its code has scale 1 (next to a `cosent` of scale 20), sentence-transformers 20.

    Args:
        first: (N, d).
        second: (N, d).
        scores: (N,) of the pairs; higher is more similar.
        scale: see `ranked`.

    Returns:
        Scalar.

    Example:
        >>> first, second = torch.eye(2), torch.tensor([[1.0, 0.0], [1.0, 1.0]])
        >>> angle(first, second, torch.tensor([1.0, 0.0]), scale=1.0)
        tensor(0.9215)
    """
    return ranked(angle_similarity(first, second), scores, scale=scale)


def cosine_regression(first: Tensor, second: Tensor, scores: Tensor) -> Tensor:
    """The mean squared error of cosine and score (Reimers and Gurevych 2019, section 3, arXiv:1908.10084).

    With cosines c_i and scores y_i from 0 to 1: ``mean over i of (c_i - y_i)^2``; sentence-transformers'
    ``CosineSimilarityLoss``.

    Args:
        first: (N, d).
        second: (N, d).
        scores: (N,) from 0 to 1.

    Returns:
        Scalar.

    Example:
        >>> cosine_regression(torch.eye(2), torch.eye(2), torch.tensor([1.0, 0.5]))
        tensor(0.1250)
    """
    cosine = rowwise_similarity(first, second, "cosine")
    return functional.mse_loss(cosine, scores.to(cosine))


def pair_features(first: Tensor, second: Tensor, features: Sequence[PairFeature]) -> Tensor:
    """What a classifier reads of pairs of vectors u and v, joined: (u, v), |u - v| and u * v, as chosen.

    Args:
        first: (N, d).
        second: (N, d).
        features: each kind at most once; their order is always as in the list above.

    Returns:
        (N, features): 2 d for the vectors, d for each of the others.

    Example:
        >>> pair_features(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 1.0]]), ["vectors", "difference"])
        tensor([[1., 2., 3., 1., 2., 1.]])
    """
    first, second = at_least_float32(first), at_least_float32(second)
    columns: list[Tensor] = []
    if "vectors" in features:
        columns += [first, second]
    if "difference" in features:
        columns.append((first - second).abs())
    if "product" in features:
        columns.append(first * second)
    return torch.cat(columns, dim=1)


def pair_softmax(features: Tensor, classes: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """The cross-entropy of a linear classifier of pairs (Reimers and Gurevych 2019, section 3, "classification").

    ``o = softmax(W (u, v, |u - v|))``, cross-entropy with the pair's class. The paper prints no bias; the authors' code
    has one, as here.

    Args:
        features: (N, F) of the pairs: `pair_features`.
        classes: (N,) number of each pair's class, from 0.
        weight: (C, F) of the classifier.
        bias: (C,) of the classifier.

    Returns:
        Scalar, the mean over the pairs.

    Example:
        >>> features = pair_features(torch.eye(2), torch.eye(2), ["difference"])
        >>> pair_softmax(features, torch.tensor([0, 1]), torch.zeros(3, 2), torch.zeros(3))  # log(3)
        tensor(1.0986)
    """
    return functional.cross_entropy(functional.linear(at_least_float32(features), weight, bias), classes)


def triplet(anchor: Tensor, positive: Tensor, hard: Tensor, *, margin: float, distance: Distance) -> Tensor:
    """Triplet loss: a positive should be nearer than a hard negative, by a margin.

    With distance d, anchors a_i, positives p_i and the hard negatives n_ih of example i::

        loss = mean over i and h of max( d(a_i, p_i) - d(a_i, n_ih) + margin, 0 )

    The source is Reimers and Gurevych 2019, section 3, "triplet" (euclidean, margin 1). sentence-transformers'
    ``TripletLoss`` has margin 5, and adds 1e-6 to each difference of coordinates before taking its length, which is not
    done here.

    Args:
        anchor: (N, d).
        positive: (N, d).
        hard: (N, H, d), H >= 1.
        margin: at least 0.
        distance: ``euclidean``, ``manhattan`` (sum of absolute differences), or ``cosine``: 1 - cos.

    Returns:
        Scalar.

    Example:
        >>> anchor, positive, hard = torch.zeros(1, 2), torch.tensor([[3.0, 4.0]]), torch.tensor([[[0.0, 2.0]]])
        >>> triplet(anchor, positive, hard, margin=1.0, distance="euclidean")  # 5 - 2 + 1
        tensor(4.)
    """
    return functional.relu(triplet_shortfall(anchor, positive, hard, margin=margin, distance=distance)).mean()


def triplet_shortfall(anchor: Tensor, positive: Tensor, hard: Tensor, *, margin: float, distance: Distance) -> Tensor:
    """(N, H): by how much each hard negative falls short of being further than the positive by ``margin``.

    It is negative where it does not; see `triplet` for the arguments.

    Example:
        >>> anchor, positive, hard = torch.zeros(1, 1), torch.ones(1, 1), torch.full((1, 1, 1), 5.0)
        >>> triplet_shortfall(anchor, positive, hard, margin=1.0, distance="euclidean")
        tensor([[-3.]])
    """
    near = _distance(anchor, positive, distance).unsqueeze(1)  # (N, 1)
    far = _distance(anchor.unsqueeze(1), hard, distance)  # (N, H)
    return near - far + margin


def _distance(first: Tensor, second: Tensor, kind: Distance) -> Tensor:
    """Over the last dimension; the others are broadcast."""
    if kind == "cosine":
        return 1 - rowwise_similarity(first, second, "cosine")
    difference = at_least_float32(first) - at_least_float32(second)
    lengths: Tensor = torch.linalg.vector_norm(difference, ord=2 if kind == "euclidean" else 1, dim=-1)
    return lengths


class _OfScores(Term):
    """A term of graded pairs."""

    @property
    def reads(self) -> Set[Request[Any]]:
        """The vectors of the pairs, and their scores."""
        return {Sentences(), Scores()}


class Cosent(_OfScores):
    """CoSENT: of two pairs of a batch, the one with the higher score should have the higher cosine.

    With cosines c_i and scores y_i of the batch's pairs::

        loss = log( 1 + sum over all i, j with y_i > y_j of exp(scale * (c_j - c_i)) )

    `opencse.objective.losses.cosent` is the loss as a function of tensors, with its sources. The data holds a score in
    each row, see `opencse.text.labels`.

    Example:
        >>> import torch
        >>> from dataclasses import replace
        >>> reps = Representations.of(torch.eye(2), torch.tensor([[1.0, 0.0], [1.0, 0.0]]))  # cosines 1 and 0
        >>> reps = replace(reps, answers={Scores(): torch.tensor([0.2, 0.8])})
        >>> Cosent(Cosent.Settings(scale=1.0)).loss(reps)
        tensor(1.3133)
    """

    class Settings(Term.Settings):
        """Settings of `Cosent`.

        Attributes:
            scale: factor of the cosines, one over a temperature.
        """

        kind: Literal["cosent"] = "cosent"
        scale: AboveZero = 20.0

    settings: Settings

    def loss(self, reps: Representations) -> Tensor:
        """`losses.cosent` of the pairs."""
        return cosent(reps.anchor, reps.positive, reps[Scores()], scale=self.settings.scale)


class Angle(_OfScores):
    """AnglE: the order of graded pairs by their angles in complex space, which do not saturate as a cosine does.

    The loss is the term ``cosent``'s, with `opencse.objective.losses.angle_similarity` in place of the cosine;
    `opencse.objective.losses.angle` is the function of tensors, with its sources.

    Example:
        >>> import torch
        >>> from dataclasses import replace
        >>> reps = Representations.of(torch.eye(2), torch.tensor([[1.0, 0.0], [1.0, 1.0]]))
        >>> reps = replace(reps, answers={Scores(): torch.tensor([1.0, 0.0])})
        >>> Angle(Angle.Settings(scale=20.0)).loss(reps) > Angle(Angle.Settings(scale=1.0)).loss(reps)
        tensor(True)
    """

    class Settings(Term.Settings):
        """Settings of `Angle`.

        Attributes:
            scale: factor of the similarities: 1 in the authors' code, 20 in sentence-transformers.
        """

        kind: Literal["angle"] = "angle"
        scale: AboveZero = 1.0

    settings: Settings

    def loss(self, reps: Representations) -> Tensor:
        """`losses.angle` of the pairs."""
        return angle(reps.anchor, reps.positive, reps[Scores()], scale=self.settings.scale)


class CosineRegression(_OfScores):
    """The mean squared error of a graded pair's cosine and its score from 0 to 1 (SBERT's regression objective).

    `opencse.objective.losses.cosine_regression` is the loss as a function of tensors, with its source.

    Example:
        >>> import torch
        >>> from dataclasses import replace
        >>> reps = replace(Representations.of(torch.eye(2), torch.eye(2)), answers={Scores(): torch.tensor([1.0, 0.5])})
        >>> CosineRegression().loss(reps)
        tensor(0.1250)
    """

    class Settings(Term.Settings):
        """Settings of `CosineRegression`."""

        kind: Literal["cosine_regression"] = "cosine_regression"

    settings: Settings
    compares_examples = False

    def loss(self, reps: Representations) -> Tensor:
        """`losses.cosine_regression` of the pairs."""
        return cosine_regression(reps.anchor, reps.positive, reps[Scores()])


class Softmax(Term):
    """A linear classifier of pairs over (u, v, |u - v|): SBERT's classification objective.

    Its weights begin as in torch's ``Linear``, drawn from the run's seed; they are trained at the run's rate
    and are not part of the saved encoder. The data holds a class in each row, see `opencse.text.labels`; the number of
    classes is that of the data. The log has ``softmax_accuracy``, the share of the batch's pairs that are classified
    correctly.

    `opencse.objective.losses.pair_softmax` is the loss as a function of tensors, with its source.

    Example:
        >>> from dataclasses import replace
        >>> term = Softmax(Softmax.Settings(features=("difference",)))
        >>> term.classifier = nn.Linear(2, 3)
        >>> _ = nn.init.zeros_(term.classifier.weight), nn.init.zeros_(term.classifier.bias)
        >>> reps = replace(Representations.of(torch.eye(2), torch.eye(2)), answers={Classes(): torch.tensor([0, 2])})
        >>> term.loss(reps).detach()  # log(3)
        tensor(1.0986)
    """

    class Settings(Term.Settings):
        """Settings of `Softmax`.

        Attributes:
            features: what the classifier reads of a pair: ``vectors`` (u, v), ``difference`` |u - v|, ``product``
                u * v.
        """

        kind: Literal["softmax"] = "softmax"
        features: tuple[PairFeature, ...] = Field(default=("vectors", "difference"), min_length=1)

    settings: Settings
    compares_examples = False
    classifier: nn.Linear

    @property
    def reads(self) -> Set[Request[Any]]:
        """The vectors of the pairs, and their classes."""
        return {Sentences(), Classes()}

    def begin(self, encoder: SentenceEncoder, *, batch_size: int, seed: int) -> None:
        """Draws the classifier's first weights.

        Raises:
            UserError: for fewer than two classes.
        """
        if self.classes < 2:
            raise UserError(
                f"the softmax term tells classes of pairs apart, and the data has {self.classes}; give rows of at "
                "least two classes"
            )
        size = encoder.training_dimension * sum(
            {"vectors": 2}.get(feature, 1) for feature in set(self.settings.features)
        )
        # As nn.Linear draws its weights, from a seed of the term's own.
        bound = size**-0.5
        generator = torch.Generator().manual_seed(seed_of(seed, "softmax"))
        classifier = nn.Linear(size, self.classes)
        with torch.no_grad():
            for weights in (classifier.weight, classifier.bias):
                weights.copy_(torch.empty_like(weights).uniform_(-bound, bound, generator=generator))
        self.classifier = classifier.to(encoder.device)

    def loss(self, reps: Representations) -> Tensor:
        """`losses.pair_softmax` of the pairs."""
        return pair_softmax(self._features(reps), reps[Classes()], self.classifier.weight, self.classifier.bias)

    def diagnose(self, reps: Representations) -> dict[str, Tensor]:
        """``softmax_accuracy``: the share of pairs that are classified correctly."""
        guesses = self.classifier(self._features(reps)).argmax(dim=1)
        return {"softmax_accuracy": (guesses == reps[Classes()]).float().mean()}

    def _features(self, reps: Representations) -> Tensor:
        return pair_features(reps.anchor, reps.positive, self.settings.features)


class Triplet(Term):
    """Triplet loss: the positive should be nearer to the anchor than each hard negative of the row, by a margin.

    ``loss = mean of max(distance(anchor, positive) - distance(anchor, negative) + margin, 0)``; the other rows of the
    batch do not count. The log has ``triplets_inside``, the share of negatives that are not yet further by the margin:
    only these have a gradient.

    `opencse.objective.losses.triplet` is the loss as a function of tensors, with its source.

    Example:
        >>> import torch
        >>> reps = Representations.of(torch.zeros(1, 2), torch.tensor([[3.0, 4.0]]), torch.tensor([[[0.0, 2.0]]]))
        >>> Triplet().loss(reps)  # 5 - 2 + 1
        tensor(4.)
    """

    class Settings(Term.Settings):
        """Settings of `Triplet`.

        Attributes:
            margin: by which the negative should be further.
            distance: ``euclidean``, ``manhattan``, or ``cosine`` (1 - cos, from 0 to 2: choose a margin below 1).
        """

        kind: Literal["triplet"] = "triplet"
        margin: FromZero = 1.0
        distance: Distance = "euclidean"

        @model_validator(mode="after")
        def _margin_can_be_reached(self) -> Self:
            if self.distance == "cosine" and self.margin > 2:
                raise ValueError("a margin above 2 is above the largest cosine distance; lower it")
            return self

    settings: Settings
    compares_examples = False

    @property
    def reads(self) -> Set[Request[Any]]:
        """The vectors of the pairs, and the hard negatives."""
        return {Sentences(), HardNegatives()}

    def check_data(self, source: str, hard: int, only_hard: bool) -> None:
        """Refuses data without hard negatives."""
        if not hard:
            raise UserError(
                f"{source}: the triplet term needs a hard negative in each row, and its rows hold none; name a "
                "third column, or choose a recipe for pairs (simcse-supervised)"
            )

    def loss(self, reps: Representations) -> Tensor:
        """`losses.triplet` of the rows."""
        settings = self.settings
        return triplet(reps.anchor, reps.positive, reps.hard, margin=settings.margin, distance=settings.distance)

    def diagnose(self, reps: Representations) -> dict[str, Tensor]:
        """``triplets_inside``: the share of hard negatives that are not yet further by the margin."""
        settings = self.settings
        shortfall = triplet_shortfall(
            reps.anchor, reps.positive, reps.hard, margin=settings.margin, distance=settings.distance
        )
        return {"triplets_inside": (shortfall > 0).float().mean()}
