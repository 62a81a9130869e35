"""Editing files that belong to other programs, so that only the intended bytes change.

edits.py     what is to change, as data, and what the file must mean afterwards
document.py  one small interface over the formats, with the semantic guard
jsonspan.py  JSON and JSONC: find the span of a member, splice
tomlspan.py  TOML: the same, over statements
locks.py     Claude Code's lock folder, and our own lock files
safewrite.py lock, read again, temporary file, fsync, atomic replace; several files all or none
journal.py   a backup of every write; undo
"""
