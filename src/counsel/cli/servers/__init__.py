"""`counsel servers`."""
