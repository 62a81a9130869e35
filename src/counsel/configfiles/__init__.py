"""Edit files that belong to other programs, changing only the intended bytes.

edits.py            edits as data, and what the file must mean afterwards
document.py         one interface over the formats, with the semantic guard
content.py          a file's new content: bytes, or one span replaced; what two texts share
sparse_object.py    a large JSON object, read by member
json/read.py        JSON: where members are and what they mean
json/edit.py        JSON and JSONC: change the characters of a member and no others; plain.py, style.py
toml/read.py        TOML: what a text means; scan.py: where its statements are; toml11.py: TOML 1.1
toml/edit.py        TOML: change the statements of one path; inline.py: inside inline tables; format.py: written form
yaml/read.py        YAML frontmatter, for reading only
write/locks.py      Claude Code's lock folder, and our own lock files
write/safewrite.py  lock, read again, new file beside the old one, atomic replace; several files all or none
write/disk.py       the file system's part: links, modes, owners, sync, errors
write/undo_log.py   a backup of every write; undo
write/three_way.py  one earlier change taken out of a file that was edited since
"""
