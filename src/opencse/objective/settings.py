"""The ``[objective]`` table of a recipe."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from opencse.objective.contrast import TILE_BYTES, ContrastLoss, Directions, MatryoshkaSettings, Partition
from opencse.objective.registry import PartOf
from opencse.objective.sides.base import SidesSettings
from opencse.objective.similarity import SimilarityKind
from opencse.settings import AboveZero, PartSettings, Rate, Settings

SavedEncoder = Literal["first", "second", "better"]
_VIEWS: Any = {"kind": "views"}
_DROPOUT: Any = {"kind": "dropout"}
_IN_BATCH: Any = {"kind": "in_batch"}
_OF_CONTRAST = (
    "similarity",
    "temperature",
    "learned_temperature",
    "partition",
    "loss",
    "label_smoothing",
    "mask_duplicates",
)


class PositiveSettings(Settings):
    """The vectors that the positive's similarity is taken between, and how much it counts.

    Attributes:
        of: the two vectors; by default the two views.
        scale: multiplies the positive's logit, in the numerator and the denominator: the ``m`` of SimCSE++'s code
            (its paper puts m on the negatives instead: ``weight`` of ``in_batch``).
        copies: how often the positive is in its denominator: 2 with ``directions = "both"`` and ``partition = "joint"``
            is the loss of Li et al. 2023 (arXiv:2308.03281, eq. 2) and of sentence-transformers.
        least_score: with graded pairs, a pair of a lower score is not a positive: it has no loss of its own, and its
            texts are negatives of the others alone (the in-batch loss of AnglE, whose labels are 0 and 1). Scores are
            scaled to 0 ... 1. Unset: every pair is a positive.
    """

    of: SidesSettings = Field(default=_VIEWS)
    scale: AboveZero = 1.0
    copies: int = Field(default=1, ge=1, le=100)
    least_score: float | None = Field(default=None, gt=0, le=1)


class ObjectiveSettings(Settings):
    """The ``[objective]`` table of a recipe.

    A part is named by its ``kind``: one of the package, one that an installed package gives in the entry point group
    ``opencse.parts``, or any other class as ``kind = "package.module:Class"``.

    Example:
        >>> settings = ObjectiveSettings.model_validate({"negatives": [{"kind": "in_batch", "weight": 0.9}]})
        >>> settings.temperature, settings.negatives[0].weight
        (0.05, 0.9)

    Attributes:
        view: how the positive is made.
        positive: the vectors that its similarity is taken between.
        negatives: what an anchor is pushed away from; empty for an objective without contrast.
        terms: extra losses, each kind once.
        similarity: cosine or dot.
        temperature: tau of SimCSE's eq. 1.
        learned_temperature: whether tau is trained, from ``temperature`` on: logits are sim * exp(s) (CLIP,
            CT-improved).
        directions: ``rows`` contrasts each anchor with its columns, ``columns`` each positive (anchors and positives
            exchanged), ``both`` both; hard negatives are columns of the anchors alone. With ``both`` and ``in_batch``
            negatives of ``columns = "positives_and_anchors"`` it is NT-Xent (Chen et al. 2020).
        partition: with ``both``: ``separate`` takes the mean of two losses, ``joint`` puts the columns of both
            directions into one softmax, with the positive once (``positive.copies`` counts it more often).
        loss: the loss of an anchor: ``softmax`` is the cross-entropy of SimCSE's eq. 1; ``binary`` the mean binary
            cross-entropy of all its probabilities, as in DCLR's code (`losses.binary_from_logits`, without tiles).
        label_smoothing: epsilon.
        mask_duplicates: whether equal texts of a batch are never each other's negatives.
        dual_encoder: whether a second encoder, trained too, reads the positives (SimCSE, Table 2).
        saved_encoder: which of the two is saved: the ``first``, the ``second`` (as sentence-transformers does in
            contrastive tension), or in each evaluation on the dev data the ``better`` one (CT's authors); that of the
            last evaluation is in ``last/``.
        tile_bytes: most bytes of similarities that are made at once. A larger batch is contrasted tile by tile, which
            gives the same loss and gradients up to rounding, in memory that does not grow with the square of the batch.
        matryoshka: contrasts the first dimensions of the vectors too, so that vectors can be truncated (Kusupati et al.
            2022).
    """

    view: Annotated[PartSettings, PartOf("view")] = Field(default=_DROPOUT)
    positive: PositiveSettings = PositiveSettings()
    negatives: tuple[Annotated[PartSettings, PartOf("negatives")], ...] = Field(default=(_IN_BATCH,))
    terms: tuple[Annotated[PartSettings, PartOf("term")], ...] = ()
    similarity: SimilarityKind = "cosine"
    temperature: AboveZero = 0.05
    learned_temperature: bool = False
    directions: Directions = "rows"
    partition: Partition = "separate"
    loss: ContrastLoss = "softmax"
    label_smoothing: Rate = 0.0
    mask_duplicates: bool = True
    dual_encoder: bool = False
    saved_encoder: SavedEncoder = "first"
    tile_bytes: int = Field(default=TILE_BYTES, gt=0, le=10**15)
    matryoshka: MatryoshkaSettings | None = None

    @model_validator(mode="after")
    def _contrast_reads_its_settings(self) -> ObjectiveSettings:
        if not self.negatives and not self.terms:
            raise ValueError("an objective needs at least one negative source or one term")
        if not self.negatives:
            self._require_defaults()
        if self.loss == "binary" and (self.label_smoothing or self.positive.copies > 1):
            raise ValueError(
                "loss = binary is of single probabilities: it has no label_smoothing and no positive.copies; leave "
                "them out"
            )
        if self.saved_encoder != "first" and not self.dual_encoder:
            raise ValueError(f"saved_encoder = {self.saved_encoder} needs objective.dual_encoder = true")
        if self.partition == "joint" and self.directions != "both":
            raise ValueError("partition = joint is of two directions; set directions = both, or leave it out")
        return self

    def _require_defaults(self) -> None:
        """Refuses settings that only a contrast reads, in an objective without one.

        Raises:
            ValueError: naming them.
        """
        defaults = {name: field.default for name, field in type(self).model_fields.items() if name in _OF_CONTRAST}
        values = {name: getattr(self, name) for name in defaults}
        for name, field in PositiveSettings.model_fields.items():
            if name != "of":
                defaults[f"positive.{name}"], values[f"positive.{name}"] = field.default, getattr(self.positive, name)
        changed = [name for name, value in values.items() if value != defaults[name]]
        if changed:
            verb = "are" if len(changed) > 1 else "is"
            settings = ", ".join(f"{name} = {defaults[name]}" for name in changed)
            raise ValueError(
                f"{' and '.join(changed)} {verb} read by a contrast alone, and there are no negatives; add the "
                f"in_batch negatives, or keep the default: {settings}"
            )
