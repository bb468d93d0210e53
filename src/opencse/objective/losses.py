"""The losses as plain functions of tensors: each one's formula, code and example are with its family of terms.

They know no model and no settings: the parts of an objective call them, and so can you. All compute in float32 at
least, autocast or not.
"""

from __future__ import annotations

from opencse.objective.columns import LogitColumns as Columns  # noqa: F401 - the name that older parts import
from opencse.objective.columns import hardness_log_weight as hardness_log_weight
from opencse.objective.contrast import binary_from_logits as binary_from_logits
from opencse.objective.contrast import info_nce as info_nce
from opencse.objective.contrast import info_nce_from_logits as info_nce_from_logits
from opencse.objective.negatives.derived import mixed_vectors as mixed_vectors
from opencse.objective.similarity import SimilarityKind as SimilarityKind
from opencse.objective.similarity import at_least_float32 as at_least_float32
from opencse.objective.similarity import pairwise_similarity as pairwise_similarity
from opencse.objective.similarity import rowwise_similarity as rowwise_similarity
from opencse.objective.terms.dimensions import barlow_twins as barlow_twins
from opencse.objective.terms.dimensions import barlow_twins_rank as barlow_twins_rank
from opencse.objective.terms.dimensions import dcl as dcl
from opencse.objective.terms.dimensions import dcl_rank as dcl_rank
from opencse.objective.terms.dimensions import group_whitening as group_whitening
from opencse.objective.terms.distillation import bounded_mse as bounded_mse
from opencse.objective.terms.distillation import jensen_shannon as jensen_shannon
from opencse.objective.terms.distillation import list_mle as list_mle
from opencse.objective.terms.distillation import list_net as list_net
from opencse.objective.terms.distillation import margin_mse as margin_mse
from opencse.objective.terms.distillation import negative_entropy as negative_entropy
from opencse.objective.terms.distillation import rank_correlations as rank_correlations
from opencse.objective.terms.distillation import score_kl as score_kl
from opencse.objective.terms.distillation import shuffled_in_groups as shuffled_in_groups
from opencse.objective.terms.distillation import vector_distance as vector_distance
from opencse.objective.terms.graded import angle as angle
from opencse.objective.terms.graded import angle_similarity as angle_similarity
from opencse.objective.terms.graded import cosent as cosent
from opencse.objective.terms.graded import cosine_regression as cosine_regression
from opencse.objective.terms.graded import pair_features as pair_features
from opencse.objective.terms.graded import pair_softmax as pair_softmax
from opencse.objective.terms.graded import ranked as ranked
from opencse.objective.terms.graded import triplet as triplet
from opencse.objective.terms.graded import triplet_shortfall as triplet_shortfall
from opencse.objective.terms.imitation import turned as turned
from opencse.objective.terms.networks import mutual_information as mutual_information
from opencse.objective.terms.pairs import bidirectional_margin as bidirectional_margin
from opencse.objective.terms.pairs import contrastive_tension as contrastive_tension
from opencse.objective.terms.start import self_guided as self_guided
from opencse.objective.terms.tokens import masked_lm as masked_lm
from opencse.objective.terms.tokens import replaced_tokens as replaced_tokens
