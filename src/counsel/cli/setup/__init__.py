"""`counsel setup`."""
