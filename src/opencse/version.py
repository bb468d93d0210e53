"""The version of the package, for everything below `opencse` itself."""

__version__ = "0.2.0"
