"""No arrangement of folders and symlinks lets content from outside the allowed folders through."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import event, example, given, settings
from hypothesis import strategies as st

from counsel.caller import Caller
from counsel.engine.context import build
from counsel.errors import CounselError
from counsel.requests import Question
from counsel.settings import load

# Every folder contains these files and links. The name of `allowed-not` begins with that of an allowed folder.
FOLDERS = ("allowed", "allowed/in", "allowed/in/deep", "allowed-not", "outside", "outside/in")
FILES = ("a", "b")
LINKS = ("l", "m", "n")

links = st.lists(
    st.tuples(
        st.sampled_from(FOLDERS),
        st.sampled_from(LINKS),
        st.one_of(
            st.sampled_from([f"ROOT/{folder}{rest}" for folder in FOLDERS for rest in ("", "/a", "/l")]),
            st.lists(st.sampled_from(["..", "in", "deep", "outside", "allowed-not", "allowed", *LINKS, "a"]), min_size=1, max_size=4).map("/".join),
        ),
    ),
    min_size=1,
    max_size=6,
)  # fmt: skip
file_name = st.tuples(
    st.sampled_from(["", "", "", "ROOT/allowed/", "ROOT/outside/../allowed/", "ROOT/allowed-not/"]),
    st.lists(st.sampled_from([*LINKS, *LINKS, "in", "deep", ".."]), max_size=4),
    st.sampled_from([*FILES, *LINKS]),
).map(lambda parts: parts[0] + "/".join([*parts[1], parts[2]]))


def create_tree(root: Path, links: list[tuple[str, str, str]]) -> None:
    for folder in FOLDERS:
        (root / folder).mkdir(parents=True)
        for name in FILES:
            inside = folder.split("/")[0] == "allowed"
            (root / folder / name).write_text("INSIDE\n" if inside else "OUTSIDE\n")
    for folder, name, to in links:
        if not os.path.lexists(root / folder / name):
            (root / folder / name).symlink_to(to.replace("ROOT", str(root)))


@settings(max_examples=150, deadline=None, derandomize=True)
@given(links, file_name, st.sampled_from(["", "{1:1}"]))
@example([("allowed", "l", "ROOT/outside/a")], "l", "")
@example([("allowed", "l", "../outside"), ("outside", "m", "in")], "l/m/a", "{1:1}")
@example([("allowed", "l", "ROOT/allowed/in")], "l/deep/a", "")
def test_only_content_of_allowed_folders_is_sent(links: Any, file_name: Any, lines: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        create_tree(root, links)
        env = {"HOME": str(root / "outside"), "COUNSEL_HOME": str(root / "counsel")}
        caller = Caller(cwd=root / "allowed", settings=load(env))
        question = Question(prompt="Q", files=(file_name.replace("ROOT", str(root)) + lines,))
        try:
            context = build.build(question, caller)
        except CounselError as error:
            event(error.code)
            return
        event("sent")
        assert "OUTSIDE" not in context.prompt
        assert context.prompt.count("| INSIDE") == 1
        assert all(path.is_relative_to(root / "allowed") and path == path.resolve() for path in context.files)
