"""A rule engine for machine-learning compute graphs."""

__version__ = "0.1.0"
