"""Resolves the recipe of a run: its presets and settings, and the built-in encoder's preset for word vectors."""

from __future__ import annotations

from collections.abc import Sequence

from opencse.errors import UserError
from opencse.model_folder.locate import BUILTIN
from opencse.model_folder.reading import has_layers
from opencse.recipes.recipe import Recipe, Resolved, resolve_recipe


def resolve_for_run(
    recipe: str | Recipe,
    *,
    preset: str | None = None,
    settings: tuple[str, ...] = (),
    model: str = BUILTIN,
    is_new: bool = False,
) -> Resolved:
    """Resolves the recipe of a run that starts from ``model``.

    A table of word vectors, whatever it is called, gets the built-in encoder's preset where it has none: a recipe's
    learning rate is for a network.

    Example:
        >>> resolve_for_run("simcse", preset="crop-10").preset
        'opencse-mini:crop-10'

    Args:
        recipe: a name or the path of a TOML file, either with presets after colons; or the recipe itself.
        preset: more presets, joined by colons.
        settings: ``key.path=value``, applied last.
        model: to train: the built-in encoder, a folder, a Hub id, or the name of a preset.
        is_new: whether the run writes ``model`` first, so that it cannot be looked into.

    Raises:
        UserError: for a fault in the recipe or a setting, or a preset for another model.
    """
    if isinstance(recipe, Recipe):
        if preset is not None or settings:
            raise UserError("preset and settings need a recipe's name; change the Recipe object instead")
        return Resolved(recipe, (), model, _explicit_encoder_settings(recipe))
    resolved = resolve_recipe(recipe, preset=preset, model=model, overrides=settings)
    backbone = resolved.backbone
    if model == BUILTIN and backbone is not None and backbone.model != BUILTIN:
        raise UserError(
            f"{resolved.recipe.name}: {resolved.presets[0]} is a preset for {backbone.model}, and the model is the "
            f"built-in encoder; choose the model too, with --model {resolved.presets[0]}"
        )
    if is_new or backbone is not None or BUILTIN not in resolved.recipe.presets or has_layers(resolved.model or model):
        return resolved
    presets = f"{preset}:{BUILTIN}" if preset else BUILTIN
    return resolve_recipe(recipe, preset=presets, model=model, overrides=settings)


def require_settings(
    recipe: str | Recipe,
    *,
    presets: Sequence[str | None] = (None,),
    settings: tuple[str, ...],
    model: str,
    is_new: bool = False,
) -> None:
    """Refuses settings that suit the recipe with none of the presets, before a text is read, which may take long.

    Example:
        >>> require_settings("adapt", presets=(None, "sentences"), settings=("training.epochs=2",), model=BUILTIN)

    Args:
        recipe: see `resolve_for_run`, as for the other arguments.
        presets: one of these will be chosen by the text.
        settings: see `resolve_for_run`.
        model: see `resolve_for_run`.
        is_new: see `resolve_for_run`.

    Raises:
        UserError: for a fault in the recipe or a setting.
    """
    faults: list[UserError] = []
    for preset in presets:
        try:
            resolve_for_run(recipe, preset=preset, settings=settings, model=model, is_new=is_new)
            return
        except UserError as error:
            faults.append(error)
    raise faults[0]


def _explicit_encoder_settings(recipe: Recipe) -> frozenset[str]:
    """The keys of the encoder that a recipe made in Python sets."""
    encoder = recipe.encoder
    explicit = {"encoder.pooling": encoder.pooling is not None, "encoder.head": encoder.head.kind != "none"}
    return frozenset(key for key, is_set in explicit.items() if is_set)
