"""One switchboard for AI models and coding agents."""

__version__ = "0.1.0"
