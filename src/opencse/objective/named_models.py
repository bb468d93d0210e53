"""Hashes the models that an objective names, so that a run with another teacher counts as another run."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import BaseModel

from opencse.encoder.fingerprint import hash_model
from opencse.objective.teachers.teacher import START
from opencse.settings import OF_A_MODEL, nested_settings


def hash_named_models(settings: BaseModel) -> dict[str, str]:
    """SHA-256 of each file of the models that ``settings`` name as teachers, guides and generators.

    Args:
        settings: of a recipe or an objective.

    Returns:
        By the model's name and the file's in its folder; empty where all are copies of the start.

    Raises:
        UserError: if there is no such model, or a file cannot be read.

    Example:
        >>> from opencse.objective.settings import ObjectiveSettings
        >>> hash_named_models(ObjectiveSettings())
        {}
    """
    names = sorted(set(_names(settings)) - {START})
    return {f"{name}/{file}": digest for name in names for file, digest in hash_model(name).items()}


def _names(settings: BaseModel) -> Iterator[str]:
    """What the fields for models hold, those of nested settings included."""
    for one in nested_settings(settings):
        for name, field in type(one).model_fields.items():
            if OF_A_MODEL in field.metadata:
                yield getattr(one, name)
