"""Distributes jobs over the servers and workers of a team (docs/decisions/27-procrastinate.md)."""
