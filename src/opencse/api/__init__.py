"""Every command as a function of the same name; ``import opencse`` gives them all, each loaded when first used."""
