"""The commands that ask: `ask`, `chat`, `consensus`, `review`."""
