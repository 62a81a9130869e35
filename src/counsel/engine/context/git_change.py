"""Reads a change from git in a way that lets a hostile repository run nothing.

git runs programs that a repository's config names: filters, external diffs, textconv, a file system monitor. So the
diff is made with a git folder of our own that borrows only the repository's objects and index (`GIT_OBJECT_DIRECTORY`,
`GIT_INDEX_FILE`): the config, hooks and attributes in its `.git` are never read. `.gitattributes` can name drivers, but
our folder defines none. In the repository itself, git resolves only names of commits and four harmless values
(`_VALUES`), which runs no program.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

from counsel import untrusted
from counsel.engine.context import gitignore
from counsel.errors import InvalidArgument, NotFound
from counsel.lazy_dataclass import dataclass

WHOLE_FILES = 1_000_000  # lines of context: more than any file has
LARGEST = 32 * 1024 * 1024  # bytes of a diff; one with whole files that is larger gets less context
_SECONDS = 60.0
_LESS = 50  # lines of context
_MOST_UNTRACKED = 1_000
_DEFAULT_BRANCHES = (
    "refs/remotes/origin/HEAD",
    "refs/remotes/origin/main",
    "refs/remotes/origin/master",
    "refs/heads/main",
    "refs/heads/master",
)


@dataclass(frozen=True, slots=True)
class GitChange:
    root: Path  # the repository's folder
    about: str  # what was compared, for people
    diff: str  # unified, with whole files where that is not too large
    untracked: tuple[str, ...]  # untracked files, which are not part of the diff
    note: str = ""  # what else is not part of the diff


def collect(
    folder: Path, env: Mapping[str, str], *, base: str | None = None, staged: bool = False
) -> GitChange:
    """The change in the repository around `folder`.

    `base`: HEAD since it branched off `base`. `staged`: the index against HEAD. Neither: the working tree against
    HEAD, or if they are the same, HEAD since it branched off the default branch.
    """
    root = gitignore.repository(Path(os.path.realpath(folder)))
    if root is None:
        raise NotFound(
            f"{folder} is not in a git repository of yours.",
            hint="Run it in a repository, or pass a diff: `git diff | counsel review --diff -`.",
        )
    with _Repository.opened(root, env) as repository:
        if base is not None:
            return repository.since(base)
        if staged:
            return repository.change("staged changes", repository.staged())
        return repository.default()


class _Repository:
    def __init__(self, root: Path, own: Path, env: dict[str, str], clean: dict[str, str]) -> None:
        self.root = root
        self._own = own  # our git folder
        self._env = env  # for resolving names in the repository itself
        self._clean = clean  # for everything else
        self.head = self._resolve("HEAD")

    @classmethod
    @contextlib.contextmanager
    def opened(cls, root: Path, env: Mapping[str, str]) -> Iterator[_Repository]:
        base = _environment(env)
        folders = _git(
            ["rev-parse", "--absolute-git-dir", "--git-common-dir", "--show-object-format"], root, base
        )
        lines = folders.rstrip("\n").split("\n")
        git_dir, common = Path(lines[0]), Path(os.path.realpath(root / lines[1]))
        _check_git_folder(root, git_dir)
        with tempfile.TemporaryDirectory(prefix="counsel-git-") as temporary:
            own = Path(temporary)
            _own_git_folder(own, git_dir, lines[2], _conversions(root, base))
            clean = {
                **base,
                "HOME": temporary,
                "XDG_CONFIG_HOME": temporary,
                "GIT_CONFIG_GLOBAL": os.devnull,
                "GIT_DIR": temporary,
                "GIT_WORK_TREE": str(root),
                "GIT_OBJECT_DIRECTORY": str(common / "objects"),
                "GIT_INDEX_FILE": str(git_dir / "index"),
            }
            if (shallow := common / "shallow").exists():
                clean["GIT_SHALLOW_FILE"] = str(shallow)
            yield cls(root, own, base, clean)

    # ── comparisons ──

    def default(self) -> GitChange:
        diff = self.working_tree()
        if diff or self.head is None:
            return self.change("working tree against HEAD", diff)
        name, default = self._default_branch()
        if default is None or default == self.head:
            note = "There is no branch main or master to compare HEAD with: name a BASE."
            return self.change("working tree against HEAD", "", "" if default else note)
        return self._since(name, default)

    def since(self, base: str) -> GitChange:
        if base.startswith("-") or "\0" in base or "\n" in base:
            raise InvalidArgument(f"{base!r} is not a commit.", hint="Name a branch, a tag or a commit.")
        commit = self._resolve(base)
        if commit is None:
            raise InvalidArgument(
                f"There is no commit {base!r} in this repository.",
                hint="Name a branch, a tag or a commit; a CI checkout may have to fetch it first (fetch-depth: 0).",
            )
        if self.head is None:
            raise InvalidArgument("The repository has no commits yet.", hint="Run `counsel review --staged`.")
        return self._since(base, commit)

    def _since(self, name: str, commit: str) -> GitChange:
        assert self.head is not None  # both callers have checked
        try:
            fork = self._run(["merge-base", "--end-of-options", commit, self.head]).split()[0]
        except (NotFound, IndexError):
            raise InvalidArgument(
                f"{name} and HEAD have no common commit here.",
                hint="A shallow clone lacks it: fetch more history (fetch-depth: 0), or pass a diff with --diff.",
            ) from None
        text = self._diff([_NO_WORK_TREE, fork, self.head])
        dirty = "Uncommitted changes are not included." if self.working_tree(brief=True) else ""
        return self.change(f"HEAD since it branched off {name} ({fork[:10]})", text, dirty)

    def change(self, about: str, text: str, note: str = "") -> GitChange:
        return GitChange(self.root, about, text, tuple(self._untracked()), note)

    def staged(self) -> str:
        return self._diff([_NO_WORK_TREE, "--cached", self.head or self._empty_tree()])

    def working_tree(self, *, brief: bool = False) -> str:
        against = [_NO_SUBMODULES, *([self.head] if self.head else ["--cached", self._empty_tree()])]
        return self._run(["diff", *_SAFE, "--name-only", *against]) if brief else self._diff(against)

    # ── git ──

    def _diff(self, against: list[str]) -> str:
        for context in (WHOLE_FILES, _LESS):
            text = self._run(["diff", *_SAFE, f"--unified={context}", *against, "--"], LARGEST)
            if len(text) < LARGEST:
                return text
        raise InvalidArgument(
            f"The change is larger than {LARGEST // 2**20} MiB.",
            hint="Nothing was sent. Review a part of it: name a later BASE, or pass a diff with --diff.",
        )

    def _untracked(self) -> list[str]:
        names = self._run(["ls-files", "--others", "--exclude-standard", "-z"]).split("\0")
        return [name for name in names if name][:_MOST_UNTRACKED]

    def _empty_tree(self) -> str:
        return self._run(["hash-object", "-t", "tree", "--stdin"]).strip()

    def _default_branch(self) -> tuple[str, str | None]:
        for name in _DEFAULT_BRANCHES:
            if commit := self._resolve(name):
                return name.removeprefix("refs/remotes/").removeprefix("refs/heads/"), commit
        return "", None

    def _resolve(self, name: str) -> str | None:
        """The commit of this name. Asks the repository itself, as git stores branches in several ways."""
        arguments = ["rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}"]
        try:
            return _git(arguments, self.root, self._env).strip() or None
        except NotFound:
            return None

    def _run(self, arguments: list[str], max_bytes: int = LARGEST) -> str:
        return _git(arguments, self._own, self._clean, max_bytes)


# ── safety ───────────────────────────────────────────────────────────────────────────────────────────

_SAFE = (
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--submodule=short",
    "--find-renames",
    "--src-prefix=a/",
    "--dst-prefix=b/",
)
# A submodule's new commit is listed. Comparing it with the working tree would read the submodule's own git folder.
_NO_WORK_TREE = "--ignore-submodules=dirty"
_NO_SUBMODULES = "--ignore-submodules=all"
_VARIABLES = ("PATH", "HOME", "XDG_CONFIG_HOME", "TMPDIR", "SYSTEMROOT")


def _environment(env: Mapping[str, str]) -> dict[str, str]:
    """git's own variables are not passed on: GIT_EXTERNAL_DIFF, GIT_DIR and others may come from a hook."""
    basics = {name: value for name, value in untrusted.absolute_paths(env).items() if name in _VARIABLES}
    return {
        **basics,
        "LC_ALL": "C",
        "GIT_ALLOW_PROTOCOL": "none",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_LITERAL_PATHSPECS": "1",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_PAGER": "cat",
        "GIT_TERMINAL_PROMPT": "0",
    }


_ALWAYS = ("-c", "core.fsmonitor=false", "-c", "core.quotePath=false", "-c", "protocol.allow=never")


def _git(arguments: list[str], folder: Path, env: Mapping[str, str], max_bytes: int = 1 << 20) -> str:
    """git's output, up to `max_bytes`. Raises `NotFound` if git fails."""
    program = shutil.which("git", path=env.get("PATH"))
    if program is None:
        raise NotFound("git was not found.", hint="Install git, or pass a diff with --diff.")
    try:
        with subprocess.Popen(
            [program, "--no-pager", *_ALWAYS, *arguments],
            cwd=folder,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as process:
            data = _read(process, max_bytes)
    except OSError as error:
        raise NotFound(f"git cannot be started: {error.strerror}.", hint="Pass a diff with --diff.") from None
    if process.returncode and len(data) < max_bytes:
        raise NotFound(
            f"git {arguments[0]} failed in {folder}.",
            hint="Run `git status` there to see why. A repository of another user needs git's safe.directory.",
        )
    return data.decode("utf-8", "replace")


def _read(process: subprocess.Popen[bytes], max_bytes: int) -> bytes:
    """Output with limits on bytes and time: a pattern in .gitattributes can keep git busy for years."""
    timer = threading.Timer(_SECONDS, process.kill)
    timer.start()
    try:
        assert process.stdout is not None
        data = process.stdout.read(max_bytes)
        if len(data) == max_bytes:
            process.kill()
        process.wait()
    finally:
        timer.cancel()
        process.kill()
    return data


_SWITCH = {"true", "false", "yes", "no", "on", "off", "1", "0"}
_VALUES = {
    "autocrlf": {*_SWITCH, "input"},
    "eol": {"lf", "crlf", "native"},
    "filemode": _SWITCH,
    "symlinks": _SWITCH,
}


def _conversions(root: Path, env: Mapping[str, str]) -> dict[str, str]:
    """The values of the user's and the repository's config that decide whether a file is changed, and run nothing.

    Without them, every line of a CRLF file would count as changed, and every file on a file system without modes.
    """
    names = "|".join(_VALUES)
    try:
        rows = _git(["config", "-z", "--get-regexp", rf"^core\.({names})$"], root, env).split("\0")
    except NotFound:  # git fails if none is set
        return {}
    pairs = (row.lower().removeprefix("core.").partition("\n") for row in rows)
    return {name: value for name, _, value in pairs if value in _VALUES.get(name, ())}


def _own_git_folder(own: Path, git_dir: Path, object_format: str, conversions: Mapping[str, str]) -> None:
    (own / "refs").mkdir()
    (own / "HEAD").write_text("ref: refs/heads/none\n")
    config = "[core]\n\trepositoryformatversion = 1\n\tbare = false\n"
    config += "".join(f"\t{name} = {value}\n" for name, value in conversions.items())
    if object_format in {"sha1", "sha256"}:
        config += f"[extensions]\n\tobjectFormat = {object_format}\n"
    (own / "config").write_text(config)
    with contextlib.suppress(OSError):  # only names of untracked files depend on it
        exclude = (git_dir / "info" / "exclude").read_bytes()[: 1 << 16]
        (own / "info").mkdir()
        (own / "info" / "exclude").write_bytes(exclude)
    for index in git_dir.glob("sharedindex.*"):
        (own / index.name).symlink_to(index)


def _check_git_folder(root: Path, git_dir: Path) -> None:
    """Refuse a `.git` that does not belong to this folder: it could lead to any other repository of the user."""
    real = Path(os.path.realpath(git_dir))
    if real.is_relative_to(root):
        return
    dot_git = root / ".git"
    if dot_git.is_file() and not dot_git.is_symlink():
        with contextlib.suppress(OSError):  # a linked worktree, which its git folder names
            if Path(os.path.realpath((real / "gitdir").read_text().strip())) == dot_git:
                return
        with contextlib.suppress(OSError):  # a submodule
            if "modules" in real.parts and _worktree_of(real) == root:
                return
    raise InvalidArgument(
        f"{dot_git} leads to another repository ({real}).",
        hint="Nothing was sent. Run counsel in that repository, or pass a diff with --diff.",
    )


def _worktree_of(git_dir: Path) -> Path | None:
    """`core.worktree` of a submodule's git folder, read without git."""
    for line in (git_dir / "config").read_text(errors="replace").splitlines():
        name, _, value = line.strip().partition("=")
        if name.strip().lower() == "worktree":
            return Path(os.path.realpath(git_dir / value.strip()))
    return None
