"""No arrangement of folders and symlinks lets content from outside the allowed folders through."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from hypothesis import event, given, settings
from hypothesis import strategies as st

from counsel.caller import Caller
from counsel.engine import context
from counsel.errors import CounselError
from counsel.requests import Question
from counsel.settings import load

NAMES = ("a", "b", "c")
FOLDERS = ("allowed", "allowed/a", "allowed/a/b", "allowed-not", "outside", "outside/a")
PARTS = (*NAMES, "..", ".", "allowed", "outside", "allowed-not", "~", "")

part = st.sampled_from(PARTS)
relative = st.lists(part, min_size=1, max_size=6).map("/".join)
target = st.one_of(relative, relative.map(lambda text: "ROOT/" + text))
places = st.tuples(st.sampled_from(FOLDERS), st.sampled_from(NAMES)).map("/".join)
links = st.lists(st.tuples(places, target), max_size=6)
files = st.lists(places, min_size=1, max_size=6)
asked = st.one_of(relative, target, places.map(lambda text: "ROOT/" + text))


def arrange(root: Path, files: list[str], links: list[tuple[str, str]]) -> None:
    for folder in FOLDERS:
        (root / folder).mkdir(parents=True)
    for name, to in links:
        if not os.path.lexists(root / name):
            (root / name).symlink_to(to.replace("ROOT", str(root)) or ".")
    for name in files:
        if not os.path.lexists(root / name):
            inside = name.startswith("allowed/")
            (root / name).write_text("INSIDE\n" if inside else "OUTSIDE\n")


@settings(max_examples=400, deadline=None)
@given(files, links, asked, st.sampled_from(["", "{1:1}", "{1:}"]))
def test_only_content_of_allowed_folders_is_sent(files, links, asked, lines):
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        arrange(root, files, links)
        env = {"HOME": str(root / "outside"), "COUNSEL_HOME": str(root / "counsel")}
        caller = Caller(cwd=root / "allowed", settings=load(env))
        question = Question(prompt="Q", files=(asked.replace("ROOT", str(root)) + lines,))
        try:
            built = context.build(question, caller)
        except CounselError:
            event("refused")
            return
        event("sent")
        assert "OUTSIDE" not in built.prompt
        assert built.prompt.count("| INSIDE") == 1
        assert all(path.is_relative_to(root / "allowed") and path == path.resolve() for path in built.files)
