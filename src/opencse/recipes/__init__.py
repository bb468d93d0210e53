"""Methods as data: the recipes that come with the package, their presets and overrides."""
