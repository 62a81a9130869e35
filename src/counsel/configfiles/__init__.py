"""Editing files that belong to other programs, so that only the intended bytes change.

edits.py     what is to change, as data, and what the file must mean afterwards
document.py  one small interface over the formats, with the semantic guard
jsonread.py  JSON: where members stand and what they mean; sparse.py: of large objects only where
jsonspan.py  JSON and JSONC: change the characters of a member and no others
tomlread.py  TOML: what a text means; tomlscan.py: where its statements stand; toml11.py: its newer version
tomlspan.py  TOML: change the statements of one path; tomlinline.py: inside inline tables; tomlwrite.py: how it is written
locks.py     Claude Code's lock folder, and our own lock files
safewrite.py lock, read again, new file beside the old one, atomic replace; several files all or none
disk.py      what the file system does for it: through links, modes and owners kept, synced, errors in words
content.py   a file's bytes, or what it holds now with one span changed
overlap.py   what two texts share at their ends
journal.py   a backup of every write; undo
"""
