"""What counts as a secret by its name, location or content, and what does not."""

from __future__ import annotations

import base64
import json
import os
import textwrap
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from counsel import settings
from counsel.caller import Caller
from counsel.engine.context import build, secret_content, secret_files, uploads
from counsel.errors import FileNotAllowed
from counsel.requests import Question

BODY = base64.b64encode(bytes(range(7, 200)) * 3).decode()
PEM = (
    "-----BEGIN RSA PRIVATE KEY-----\n"
    + "\n".join(textwrap.wrap(BODY, 64))
    + "\n-----END RSA PRIVATE KEY-----\n"
)
CERTIFICATE = PEM.replace("RSA PRIVATE KEY", "CERTIFICATE")
PUBLIC = PEM.replace("RSA PRIVATE KEY", "PUBLIC KEY")
RANDOM = base64.b64encode(bytes(range(3, 250, 2))).decode().replace("+", "x").replace("/", "y")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "home" / "project"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def caller(project: Path) -> Callable[..., Caller]:
    def make(**env: str) -> Caller:
        home = {"HOME": str(project.parent), "COUNSEL_HOME": str(project.parent.parent / "counsel")}
        return Caller(cwd=project, settings=settings.load({**home, **env}))

    return make


def is_sent(caller: Caller, name: str) -> bool:
    try:
        build.build(Question(prompt="Why?", files=(name,)), caller)
    except FileNotAllowed:
        return False
    return True


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


# ── names ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "name",
    [
        ".env~",
        ".env.bak",
        "prod.env.bak",
        "prod.env.bak.old",
        "prod.env.1",
        "prod.env.2026-11-15",
        "prod.env copy",
        "prod.env (1)",
        "prod copy.env",
        "prod (2).env",
        "#.env#",
        "#prod.env#",
        ".#.env",
        "..env.swp",
        ".prod.env.swo",
        ".id_rsa.swp",
        "id_rsa.txt",
        "ID_RSA",
        "id_ed25519.old",
        "id_ed25519.dpkg-old",
        ".ENV.",
        ".env ",
        "\uff0eenv",  # a full stop of full width
        "prod.\uff45nv",
        ".streamlit/secrets.toml",
        "config/secrets.yml",
        "secrets.yaml.bak",
        ".dev.vars",
        "terraform.tfstate",
        "terraform.tfstate.backup",
        "prod.tfstate.1700000000",
        "credentials.json",
        "credentials copy.json",
        "service-account-prod.json",
        "config/master.key",
        ".vault_pass",
        ".ssh.bak/config",
        ".aws~/credentials",
        ".local/share/opencode/auth.json",
        ".bash_history",
        ".netrc.save",
        "store.p12.old",
    ],
)
def test_a_secret_and_its_copies_are_recognised_by_name(
    project: Path, caller: Callable[..., Caller], name: str
) -> None:
    path = project / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x\n")
    assert not is_sent(caller(), name)


@pytest.mark.parametrize(
    "name",
    [
        ".env.example",
        ".env.example~",
        ".env.sample.bak",
        "environment.py",
        "env.d.ts",
        "vite-env.d.ts",
        "id_rsa.pub",
        "id_rsa.pub.bak",
        "secrets.py",
        "secrets_test.go",
        "secrets.example.yaml",
        "credentials.py",
        "credentials.yml.enc",
        "credentials.example.json",
        "tokens.json",
        "main.tf",
        "master.keys.md",
        "history.md",
        "notes.txt",
        "copy.txt",
        "package.json",
        "README (1).md",
    ],
)
def test_other_names_are_not_secrets(project: Path, caller: Callable[..., Caller], name: str) -> None:
    (project / name).write_text("x\n")
    assert is_sent(caller(), name)


@pytest.mark.parametrize(
    ("name", "harmless", "secret"),
    [
        (
            ".git/config",
            "url = https://github.com/a/b.git\n",
            "url = https://me:hunter22@github.com/a/b.git\n",
        ),
        (".gitconfig", "[user]\nname = me\n", '[url "https://ghp_0123456789abc@github.com/"]\n'),
        ("prod.tfvars", 'region = "eu"\n', 'db_password = "hunter22"\n'),
        ("gradle.properties", "org.gradle.jvmargs=-Xmx2g\n", "signingPassword=hunter22\n"),
        (".m2/settings.xml", "<password>${env.PASS}</password>\n", "<password>hunter22</password>\n"),
        ("wp-config.php", "define('DB_PASSWORD', 'password_here');", "define('DB_PASSWORD', 'hunter22');"),
    ],
)
def test_some_files_are_secret_only_with_a_password(
    project: Path, caller: Callable[..., Caller], name: str, harmless: str, secret: str
) -> None:
    path = project / name
    path.parent.mkdir(exist_ok=True)
    for text, fine in ((harmless, True), (secret, False)):
        path.write_text(text)
        assert is_sent(caller(), name) is fine


def test_the_number_of_names_of_a_copy_is_limited() -> None:
    assert len(secret_files.names(".bak~" * 50)) <= 10
    assert ".env" in secret_files.names("#.env.bak~#")


# ── places ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("secret", ["token", ".env", "config.toml", "run/deep/er", "backups/1/x"])
def test_a_hard_link_to_one_of_counsels_files_is_refused(
    project: Path, caller: Callable[..., Caller], secret: str
) -> None:
    path = project.parent.parent / "counsel" / secret
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x\n")
    (project / "notes.txt").hardlink_to(path)
    assert not is_sent(caller(), "notes.txt")
    assert is_sent(caller(COUNSEL_ALLOWED_SECRET_FILES=str(project / "notes.txt")), "notes.txt")


@pytest.mark.parametrize(
    "secret",
    [".ssh/my_key", ".aws/credentials", ".netrc", ".codex/auth.json", ".claude.json", ".config/gh/hosts.yml"],
)
def test_a_hard_link_to_a_secret_of_the_home_folder_is_refused(
    project: Path, caller: Callable[..., Caller], secret: str
) -> None:
    path = project.parent / secret
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x\n")
    (project / "notes.txt").hardlink_to(path)
    assert not is_sent(caller(), "notes.txt")


def test_an_upload_in_counsels_folder_is_no_hard_link_to_itself(caller: Callable[..., Caller]) -> None:
    upload = uploads.copy(caller().settings.home, "notes.txt", b"text")
    assert is_sent(replace(caller(), consented_files=(upload,)), str(upload))


def test_other_hard_links_are_sent(project: Path, caller: Callable[..., Caller]) -> None:
    (project / "a.txt").write_text("x\n")
    (project / "b.txt").hardlink_to(project / "a.txt")
    assert is_sent(caller(), "b.txt")


@pytest.mark.parametrize("link", ["symlink", "hard link"])
def test_images_are_checked_by_the_same_names(
    project: Path, caller: Callable[..., Caller], link: str
) -> None:
    secret = project.parent.parent / "counsel" / "token"
    secret.parent.mkdir()
    secret.write_bytes(b"\x89PNG\r\n\x1a\n")
    if link == "symlink":
        (project / "a.png").symlink_to(secret)
    else:
        (project / "a.png").hardlink_to(secret)
    with pytest.raises(FileNotAllowed):
        build.build(Question(prompt="Why?", images=("a.png",)), caller())


# ── content ──────────────────────────────────────────────────────────────────────────────────────────

SECRETS = {
    "pem": PEM,
    "indented": "tls:\n  key: |\n" + textwrap.indent(PEM, "      "),
    "short lines": "-----BEGIN PRIVATE KEY-----\n" + "\n".join(textwrap.wrap(BODY, 12)),
    "code": "key = (\n" + "".join(f'    "{line}\\n"\n' for line in PEM.splitlines()) + ")\n",
    "json": json.dumps({"type": "service_account", "private_key": PEM}),
    "pgp": PEM.replace("RSA PRIVATE KEY", "PGP PRIVATE KEY BLOCK").replace(
        "-----\n", "-----\nVersion: 1\n\n", 1
    ),
    "ssh2": "---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----\nComment: x\n" + "\n".join(textwrap.wrap(BODY, 70)),
    "base64": f"KEY={b64(PEM)}\n",
    "base64 twice": f"KEY: {b64(b64(PEM))}\n",
    "base64 in lines": "data:\n  k: |\n"
    + textwrap.indent("\n".join(textwrap.wrap(b64(PEM), 76)), "    ")
    + "\n",
    "base64 of an environment file": f"blob: {b64('A=1' + chr(10) + 'KEY=' + json.dumps(PEM))}\n",
    "base64 after a path": f"x/{b64(PEM)}\n",
    "base64 for URLs": f"k={base64.urlsafe_b64encode(PEM.encode()).decode()}\n",
    "data URI": f"url(data:text/plain;base64,{b64(CERTIFICATE + PEM)})\n",
    "kubernetes": f"apiVersion: v1\nkind: Secret\nmetadata:\n  name: x\ndata:\n  password: {b64('hunter22')}\n",
    "kubernetes string": "kind: Secret\nstringData:\n  a.b: hunter22\n",
    "kubernetes block": "kind: Secret\nmetadata:\n  name: x\nstringData:\n  conf: |\n    password=1\n",
    "kubernetes json": json.dumps({"kind": "Secret", "data": {"password": b64("hunter22")}}),
    "kubernetes pretty": json.dumps({"kind": "Secret", "data": {"password": b64("hunter22")}}, indent=2),
    "age": "# created\nAGE-SECRET-KEY-1QYQSZQGPQYQSZQGPQYQSZQGPQYQSZQGPQYQSZQGPQYQSZQGPQYQS7ZDMC\n",
    "minisign": "untrusted comment: minisign encrypted secret key\nRWRTY0Iy" + BODY[:200] + "\n",
    "wireguard": "[Interface]\nPrivateKey = " + RANDOM[:43] + "=\n",
    "jwk": json.dumps({"kty": "EC", "crv": "P-256", "x": RANDOM[:43], "d": RANDOM[:43]}),
    "aws": "[default]\naws_secret_access_key = " + RANDOM[:40] + "\n",
    "aws json": json.dumps({"SecretAccessKey": 1, "aws_secret_access_key": RANDOM[:40]}),
    "github": f"token: ghp_{RANDOM[:36]}\n",
    "anthropic": f'KEY="sk-ant-api03-{RANDOM[:90]}"\n',
    "openai": f"sk-proj-{RANDOM[:40]}T3BlbkFJ{RANDOM[40:80]}\n",
    "slack": f"xoxb-12345678901-{RANDOM[:24]}\n",
    "stripe": f"sk_live_{RANDOM[:24]}\n",
    "gitlab": f"glpat-{RANDOM[:20]}\n",
    "npm": f"npm_{RANDOM[:36]}\n",
    "cookies": "# Netscape HTTP Cookie File\n.example.com\tTRUE\t/\tTRUE\t0\tsid\tabc\n",
}


@pytest.mark.parametrize("form", SECRETS)
def test_a_secret_is_recognised_by_its_form(project: Path, caller: Callable[..., Caller], form: str) -> None:
    (project / "notes.txt").write_text(f"first\n{SECRETS[form]}" if form != "cookies" else SECRETS[form])
    assert not is_sent(caller(), "notes.txt")
    (project / "notes.txt").write_text(SECRETS[form], encoding="utf-16")
    assert not is_sent(caller(), "notes.txt")


MENTIONS = {
    "pattern": r'KEY = re.compile(r"-----BEGIN (?:[A-Z]+ )?PRIVATE KEY-----[\s\S]+?-----END")' + "\n",
    "check": 'if text.startswith("-----BEGIN PRIVATE KEY-----"):\n    raise ValueError("private keys are refused")\n',
    "manual": "A key begins with -----BEGIN PRIVATE KEY----- and ends with -----END PRIVATE KEY-----. "
    "Configuration management documentation describes certificate verification responsibilities.\n",
    "placeholder": "-----BEGIN PRIVATE KEY-----\n<your key here>\n-----END PRIVATE KEY-----\n",
    "dots": "-----BEGIN PRIVATE KEY-----\nMIIE...\n-----END PRIVATE KEY-----\n",
    "certificate": CERTIFICATE,
    "public key": PUBLIC,
    "base64 certificate": f"caData: {b64(CERTIFICATE)}\n",
    "picture": f"<img src='data:image/png;base64,{base64.b64encode(os.urandom(9000)).decode()}'>\n",
    "ssh public key": f"ssh-ed25519 {BODY[:68]} me@here\n",
    "lock file": "\n".join(f"sha512-{b64(str(n) * 40)[:86]}==" for n in range(50)),
    "jwk, public": json.dumps({"kty": "EC", "crv": "P-256", "x": RANDOM[:43], "y": RANDOM[:43]}),
    "kubernetes template": "kind: Secret\nmetadata:\n  name: x\ndata:\n  password: {{ .Values.password | b64enc }}\n",
    "kubernetes reference": "kind: Deployment\nspec:\n  secretKeyRef:\n    name: x\n",
    "sealed": f"kind: SealedSecret\nspec:\n  encryptedData:\n    password: {RANDOM}\n",
    "empty secret": "kind: Secret\nmetadata:\n  name: x\ntype: Opaque\n",
    "config map": "kind: ConfigMap\ndata:\n  colour: blue-and-green\n",
    "aws manual": "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY\n",
    "aws variable": "aws_secret_access_key = var.secret_access_key_of_the_account_here\n",
    "tokens of a manual": "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx sk-ant-api03-... xoxb-your-token-here sk_live_...\n",
    "token patterns": r'PATTERNS = [r"ghp_[A-Za-z0-9]{36}", r"AGE-SECRET-KEY-1[A-Z0-9]{58}", r"xox[baprs]-"]'
    "\n",
    "wireguard template": "[Interface]\nPrivateKey = <your key>\n",
    "age recipient": "age1qyqszqgpqyqszqgpqyqszqgpqyqszqgpqyqszqgpqyqszqgpqyqs3290gq\n",
}


@pytest.mark.parametrize("form", MENTIONS)
def test_text_that_only_mentions_a_secret_is_sent(
    project: Path, caller: Callable[..., Caller], form: str
) -> None:
    (project / "notes.txt").write_text(MENTIONS[form])
    assert is_sent(caller(), "notes.txt")


def test_this_projects_own_sources_contain_no_secrets() -> None:
    """Patterns, tests of redaction and manuals mention many forms of secrets."""
    root = Path(__file__).parents[3]
    exempt = {Path(__file__)}
    files = [path for kind in ("src/**/*.py", "docs/*.md") for path in root.glob(kind) if path not in exempt]
    assert len(files) > 100
    assert [str(path) for path in files if list(secret_content.reasons(path.read_text()))] == []


def test_a_file_that_holds_one_of_the_callers_own_keys_is_refused(
    project: Path, caller: Callable[..., Caller]
) -> None:
    (project / "main.py").write_text("client = Client('my-very-own-key-0001')\n")
    assert is_sent(caller(), "main.py")
    assert not is_sent(caller(OPENAI_API_KEY="my-very-own-key-0001"), "main.py")


def test_a_secret_across_the_pieces_of_a_large_file_is_found(
    project: Path, caller: Callable[..., Caller]
) -> None:
    for shift in range(-2000, 2000, 700):
        before = "x" * 99 + "\n"
        filler = (before * (1 + (1 << 20) // 100))[: (1 << 20) + shift]
        (project / "big.log").write_text(f"{filler}\nk: {b64(PEM)}\nend\n")
        assert not is_sent(caller(COUNSEL_MAX_FILE_BYTES="1000"), "big.log{999999:}")


@pytest.mark.parametrize(
    "text",
    [
        "A" * 999,
        "-----BEGIN PRIVATE KEY-----\n" + "ab cd ",
        "kind: Secret\ndata:\n  a: {\n",
        "data:\n  x\n",
        '"d": "',
        "aws_secret_access_key = ",
        "LS0tLS1CRUdJTi\n",
        "abcdefghijklmnopqrstuvwx\n",
        "sk-" + "a-" * 40 + "\n",
        "://a:",
        "PrivateKey =",
    ],
)
def test_no_hostile_text_takes_long(project: Path, caller: Callable[..., Caller], text: str) -> None:
    for name in ("big", ".gitconfig", "x.tfvars", "gradle.properties", "wp-config.php"):
        (project / name).write_text(text * (300_000 // len(text)))
        is_sent(caller(), name)


# ── what the user allows ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("entry", "allows"),
    [
        (".env", True),
        ("prod.env", False),
        ("{project}/.env", True),
        ("{project}/sub/../.env", True),
        ("{project}/other.txt", True),  # the same file through a hard link
        ("{project}/none/.env", False),
        ("~/project/.env", True),
        ("~/.env", False),
        ("project/.env", False),  # relative to what?
        ("./.env", False),
        ("prod.env:~/project/.env", True),
        ("~/.env:.env", True),
    ],
)
def test_a_secret_is_sent_if_the_user_allows_its_name_or_place(
    project: Path, caller: Callable[..., Caller], entry: str, allows: bool
) -> None:
    for name in (".env", "key.txt"):
        (project / name).write_text(PEM)
    (project / "sub").mkdir()
    (project / "other.txt").hardlink_to(project / ".env")
    who = caller(COUNSEL_ALLOWED_SECRET_FILES=entry.format(project=project))
    assert is_sent(who, ".env") is allows
    assert not is_sent(who, "key.txt"), "which it says nothing about"


def test_a_file_that_holds_a_secret_is_sent_if_the_user_allows_its_name(
    project: Path, caller: Callable[..., Caller]
) -> None:
    (project / "key.txt").write_text(PEM)
    assert not is_sent(caller(COUNSEL_ALLOWED_SECRET_FILES="other.txt"), "key.txt")
    assert is_sent(caller(COUNSEL_ALLOWED_SECRET_FILES="key.txt"), "key.txt")
