"""Edit files that belong to other programs, changing only the intended bytes.

edits.py            edits as data, and the value that the file must have afterwards
document.py         one interface over the formats, with the semantic guard
content.py          a file's new content: bytes, or one span replaced; what two texts share
sparse_object.py    a large JSON object, read by member
json/read.py        JSON: where members are and what they mean
json/edit.py        JSON and JSONC: change the characters of a member and no others; plain.py, style.py
toml/read.py        TOML: the value of a text; scan.py: where its statements are; toml11.py: TOML 1.1
toml/edit.py        TOML: change the statements of one path; inline.py: inside inline tables; format.py: written form
yaml/read.py        YAML frontmatter, for reading only
write/locks.py      Claude Code's lock folder, and our own lock files
write/safewrite.py  lock, read again, write a new file beside the old one, replace it atomically; all files or none
write/disk.py       file system calls: links, modes, owners, sync, errors
write/undo_log.py   a backup of every write; undo
write/three_way.py  undo one change in a file that was edited since
"""
