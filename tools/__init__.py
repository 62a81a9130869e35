"""Scripts for people who work on counsel: generated pages, measurements of the code. Not packaged, not tests."""
