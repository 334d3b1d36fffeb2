"""Small programs for developers of this repository. They are not installed."""
