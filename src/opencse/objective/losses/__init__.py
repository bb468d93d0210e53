"""The losses as pure functions of tensors: each one's formula, code and example in one place.

They know no model and no settings: the parts of an objective call them, and so can you. All compute in float32 at
least, autocast or not. `opencse.objective.tiled` makes `info_nce` of large batches in constant memory.
"""

from __future__ import annotations

import importlib
import warnings
from typing import TYPE_CHECKING

from opencse.objective.losses.contrastive import (
    binary_from_logits,
    info_nce,
    info_nce_from_logits,
)
from opencse.objective.losses.dimensions import (
    barlow_twins,
    barlow_twins_rank,
    dcl,
    dcl_rank,
)
from opencse.objective.losses.distillation import (
    bounded_mse,
    jensen_shannon,
    list_mle,
    list_net,
    margin_mse,
    negative_entropy,
    rank_correlations,
    score_kl,
    shuffled_in_groups,
    turned,
    vector_distance,
)
from opencse.objective.losses.graded import (
    angle,
    angle_similarity,
    cosent,
    cosine_regression,
    pair_features,
    pair_softmax,
    ranked,
    triplet,
    triplet_shortfall,
)
from opencse.objective.losses.margins import (
    bidirectional_margin,
)
from opencse.objective.losses.mutual_information import mutual_information
from opencse.objective.losses.negatives import (
    hardness_log_weight,
    mixed_vectors,
)
from opencse.objective.losses.self_guided import (
    self_guided,
)
from opencse.objective.losses.similarity import (
    SimilarityKind,
    at_least_float32,
    pairwise_similarity,
    rowwise_similarity,
)
from opencse.objective.losses.tension import contrastive_tension
from opencse.objective.losses.tokens import (
    masked_lm,
    replaced_tokens,
)
from opencse.objective.losses.whitening import group_whitening

__all__ = [
    "SimilarityKind",
    "angle",
    "angle_similarity",
    "at_least_float32",
    "barlow_twins",
    "barlow_twins_rank",
    "bidirectional_margin",
    "binary_from_logits",
    "bounded_mse",
    "contrastive_tension",
    "cosent",
    "cosine_regression",
    "dcl",
    "dcl_rank",
    "group_whitening",
    "hardness_log_weight",
    "info_nce",
    "info_nce_from_logits",
    "jensen_shannon",
    "list_mle",
    "list_net",
    "margin_mse",
    "masked_lm",
    "mixed_vectors",
    "mutual_information",
    "negative_entropy",
    "pair_features",
    "pair_softmax",
    "pairwise_similarity",
    "rank_correlations",
    "ranked",
    "replaced_tokens",
    "rowwise_similarity",
    "score_kl",
    "self_guided",
    "shuffled_in_groups",
    "triplet",
    "triplet_shortfall",
    "turned",
    "vector_distance",
]

if not TYPE_CHECKING:  # a type checker reports the old name instead

    def __getattr__(name: str) -> object:
        """Finds ``Columns``, which is now `opencse.objective.columns.LogitColumns`; older parts import it here."""
        if name != "Columns":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        message = "opencse.objective.losses.Columns is now opencse.objective.columns.LogitColumns"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        return importlib.import_module("opencse.objective.columns").LogitColumns
