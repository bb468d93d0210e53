"""Recipes, the training methods as TOML files: one per published system, with presets and overrides."""
