"""The version of all programs; the distribution takes its own from here (pyproject.toml)."""

__version__ = "0.1.0"
