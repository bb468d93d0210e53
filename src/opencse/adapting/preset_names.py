"""Names of the recipe that adapts a model, and of the presets that `opencse adapt` chooses by the documents."""

RECIPE = "adapt"
LOOSE = "sentences"
"""Preset of the recipe for texts without any order: only the sentence itself can be a positive."""
DOUBLED = "doubled"
"""Preset of the recipe for sentences without order with pairs: a sentence and itself are a pair, under dropout."""
ASKED = "asked"
"""Preset of the recipe where people's own questions select: the trained weights without averaging may be kept too."""
WHOLE = "whole"
"""Preset of the recipe where pairs are held out: an encoder with layers reads texts to their end."""
CHOSEN = (None, LOOSE, DOUBLED, ASKED, WHOLE)
"""The presets that may be chosen, and none."""
