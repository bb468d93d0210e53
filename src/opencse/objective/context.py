"""What parts cannot be combined with: features of an objective and of an encoder, each with the way out of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.model_folder.backbone import dropout_rates
from opencse.modules.dense import Projection

Feature = Literal[
    "two_passes",
    "second_encoder",
    "no_contrast",
    "drawn_texts",
    "derived_positives",
    "changed_inputs",
    "learned_temperature",
    "other_positives",
    "no_layers",
    "other_size",
    "training_head",
    "kept_projection",
    "no_mask_token",
    "prompts",
    "no_dropout",
    "no_dropout_rates",
]
"""What a part may not go with; `of_objective` and `of_encoder` say what each is."""
Cannot = Sequence[tuple[Feature, str]]
"""Features that a part cannot be combined with, each with the reason: a clause that follows the part's name."""
Features = Mapping[Feature, tuple[str, str]]
"""The features that are there, each with a clause that says so and what to do about it."""


def require_without(reader: Any, features: Features) -> None:  # noqa: ANN401 - a `Part` or a `Request`, which import this
    """Refuses the first of ``features`` that ``reader`` cannot be combined with.

    Raises:
        UserError: naming both, and what to change.
    """
    for feature, why in reader.cannot:
        if feature in features:
            state, remedy = features[feature]
            raise UserError(f"{reader.called} {why}, and {state}; {remedy}")


def of_objective(objective: Any) -> Features:  # noqa: ANN401 - an `Objective`, which imports this
    """The features of an objective."""
    view, of, two_passes = objective.view, objective.positive.of, objective.setting_of_two_passes
    other_view = "choose another view"
    return _that_hold(
        {
            "two_passes": (bool(two_passes), f"{two_passes} makes two", "leave it out"),
            "second_encoder": (objective.dual_encoder, "objective.dual_encoder has a second one", "set it to false"),
            "no_contrast": (not objective.negatives, "there are no negatives", "add the in_batch negatives"),
            "drawn_texts": (view.draws_texts, f"the view {view.kind} draws its texts in each step", other_view),
            "derived_positives": (
                view.derives_positives,
                f"the view {view.kind} makes the positives' vectors of the anchors'",
                other_view,
            ),
            "changed_inputs": (
                view.changes_inputs,
                f"the view {view.kind} changes the positives' input embeddings",
                other_view,
            ),
            "learned_temperature": (
                objective.learned_temperature is not None,
                "objective.learned_temperature changes it",
                "leave one of them out",
            ),
            "other_positives": (
                not of.of_positives,
                f"objective.positive.of = {of.kind} compares others",
                "choose other vectors, or another view",
            ),
        }
    )


def of_encoder(encoder: SentenceEncoder, model: str, own_dropout: bool, contrasted: bool) -> Features:
    """The features of the encoder to be trained.

    Args:
        encoder: with its training head.
        model: its name.
        own_dropout: whether it keeps its original dropout (the user set no rate).
        contrasted: whether there are negatives; without any, equal views do no harm.
    """
    hidden, size = int(encoder.backbone.config.hidden_size), encoder.training_dimension
    prompts = any(encoder.prompts.columns.of(1))
    kept = any(isinstance(layer, Projection) for layer in encoder.dense)
    return _that_hold(
        {
            "no_layers": (encoder.depth == 0, f"{model} has no layers", "choose another model, or another recipe"),
            "other_size": (
                size != hidden,
                f"sentence vectors have {size} dimensions, where tokens have {hidden}",
                "leave encoder.head.size out",
            ),
            "training_head": (
                encoder.projection is not None,
                "the encoder has a head that is dropped after training",
                "set it with --set encoder.head.kind=none",
            ),
            "kept_projection": (kept, "it is kept", "set encoder.head.keep=false, or encoder.head.kind=mlp"),
            "no_mask_token": (
                encoder.tokenizer.hf.mask_token_id is None,
                f"the tokenizer of {model} has no mask token",
                "choose another recipe, or a model with one",
            ),
            "prompts": (prompts, f"{model} has one", "choose a model without one, or another recipe"),
            "no_dropout": (
                own_dropout and contrasted and not encoder.has_dropout,
                f"{model} has none",
                "set it with --set encoder.dropout=0.1 (or 0, to train on equal views all the same)",
            ),
            "no_dropout_rates": (
                not dropout_rates(encoder.backbone.config),
                f"{model} has no dropout",
                "leave objective.view.rates out",
            ),
        }
    )


def _that_hold(choices: Mapping[Feature, tuple[bool, str, str]]) -> Features:
    return {feature: (state, remedy) for feature, (holds, state, remedy) in choices.items() if holds}
