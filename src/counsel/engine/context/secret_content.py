"""Text that must not be sent, whatever the file's name: keys and tokens, recognised by their form.

Each rule begins with fixed words, which are quick to find, and checks a bounded stretch after them: a pattern such as
`\\s*` after `^` would take an hour for a megabyte of empty lines. A value has to look random: code, tests and manuals
that merely mention such a form contain no secret.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator

_DEPTH = 3  # levels of base64 in base64


def reasons(text: str) -> Iterator[str]:
    """The reasons not to send this text, if any."""
    yield from (why for why, matches in RULES if matches(text))


# ── keys between lines of dashes ─────────────────────────────────────────────────────────────────────

_HEADER = re.compile(
    r"-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----|---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----"
)
_SOLID = re.compile(r"[A-Za-z0-9+/]{32}")
_PIECE = re.compile(r"[A-Za-z0-9+/]{8,}={0,2}")


def private_key(text: str) -> bool:
    """Whether a header is followed by a body, in one piece or short ones, indented, quoted or escaped. A header without
    a body is only a mention."""
    for header in _HEADER.finditer(text):
        body = text[header.end() : header.end() + 2_000].partition("-----")[0]
        body = re.sub(r"\\[nrt]", "\n", body)
        if _SOLID.search(body[:464]):
            return True
        key = "".join(_PIECE.findall(body))
        if len(key) >= 64 and _random(key):
            return True
    return False


def _random(value: str) -> bool:
    """Whether a value looks random: not a word, a path or a repeated letter."""
    kinds = (str.isdigit, str.isupper, str.islower)
    return (
        len(set(value)) >= 10
        and sum(any(map(kind, value)) for kind in kinds) >= 2
        and "EXAMPLE" not in value.upper()
    )


# ── the same inside base64 ───────────────────────────────────────────────────────────────────────────

_RUN = re.compile(r"[A-Za-z0-9+/_-]{40,}")
_LINE = re.compile(r"[A-Za-z0-9+/_-]{16,}={0,2}")
_AROUND = " \t\r\"',;\\"  # characters around a line that is part of a longer text


def encoded_key(text: str, depth: int = _DEPTH) -> bool:
    """Whether there is a key in base64, as in a Kubernetes Secret, a CI variable or a data URI: wrapped or not, even
    encoded twice."""
    return any(_decoded_key(candidate, depth) for candidate in _runs(text))


def _runs(text: str) -> Iterator[str]:
    """Strings that may be base64: in one piece, or wrapped into lines."""
    yield from (match[0] for match in _RUN.finditer(text))
    pieces: list[str] = []
    for line in text.replace("\\n", "\n").split("\n"):
        if _LINE.fullmatch(piece := line.strip(_AROUND)):
            pieces.append(piece.rstrip("="))
            continue
        if len(pieces) > 1:
            yield "".join(pieces)
        pieces.clear()
    if len(pieces) > 1:
        yield "".join(pieces)


def _decoded_key(candidate: str, depth: int) -> bool:
    plain = candidate.replace("-", "+").replace("_", "/").encode()
    for start in range(4):  # base64 may begin later: after a path, or before the start of what was read
        piece = plain[start:]
        try:
            data = base64.b64decode(piece[: len(piece) // 4 * 4])
        except binascii.Error:  # impossible with these characters and this length
            continue
        if b"PRIVATE KEY" in data or b"AGE-SECRET-KEY-" in data:
            inner_text = data.decode("latin-1")
            if private_key(inner_text) or _age(inner_text):
                return True
        inner = re.match(rb"[A-Za-z0-9+/_=\s-]{40,}", data) if depth > 1 else None
        if inner and encoded_key(inner[0].decode("latin-1"), depth - 1):
            return True
    return False


# ── other forms ──────────────────────────────────────────────────────────────────────────────────────


def _valued(words: tuple[str, ...], pattern: str, flags: int = 0) -> Callable[[str], bool]:
    """A rule that matches text of this form if the first group looks random.

    Searching for the `words` first is more than twenty times as fast as the pattern alone (2 ms instead of 50 for a
    megabyte).
    """
    expression = re.compile(pattern, re.ASCII | flags)

    def matches(text: str) -> bool:
        if not any(word in text for word in words):
            return False
        return any(_random(match[1] or match[0]) for match in expression.finditer(text))

    return matches


def _form(pattern: str, flags: int = 0) -> Callable[[str], bool]:
    expression = re.compile(pattern, re.ASCII | flags)
    return lambda text: expression.search(text) is not None


_age = _valued(
    ("AGE-SECRET-KEY-", "age-secret-key-"), r"AGE-SECRET-KEY-(?:PQ-)?1([A-Z0-9]{40,})", re.IGNORECASE
)
_d_of_a_jwk = _valued(('"d"', '"k"'), r'"(?:d|k)"[ \t]{0,9}:\s{0,9}"([A-Za-z0-9_-]{32,})"')
_SECRET_KIND = re.compile(
    r"""^(?:[ \t]{0,8}"?kind"?[ \t]{0,9}:[ \t]{0,9}["']?Secret["']?,?[ \t]{0,9})$""", re.MULTILINE
)
_SECRET_DATA = re.compile(
    r"""^[ \t]{0,8}"?(?:data|stringData)"?[ \t]{0,9}:[ \t]{0,9}\{?[ \t]{0,9}\r?\n(?:[ \t].{0,500}\r?\n){0,50}?[ \t]{1,40}"""
    r"""["']?[\w.-]{1,253}["']?[ \t]{0,9}:[ \t]{0,9}(?:[|>][-+]?[ \t]{0,9}\r?\n[ \t]{1,40})?["']?(?![{<$\s]|ENC\[)[^\s"']{4,}""",
    re.MULTILINE,
)


def _jwk(text: str) -> bool:
    return '"kty"' in text and _d_of_a_jwk(text)


def _kubernetes(text: str) -> bool:
    """Whether this is a manifest of kind Secret with a value. A template's `{{ … }}`, sealed and encrypted values do
    not count."""
    if "Secret" not in text:
        return False
    kind = _SECRET_KIND.search(text) or re.search(r'"kind"\s{0,9}:\s{0,9}"Secret"', text)
    compact = r'"(?:data|stringData)"\s{0,9}:\s{0,9}\{\s{0,40}"[\w.-]{1,253}"\s{0,9}:\s{0,9}"(?![{<$]|ENC\[)[^"]{4,}"'
    return bool(kind and (_SECRET_DATA.search(text) or re.search(compact, text)))


RULES: tuple[tuple[str, Callable[[str], bool]], ...] = (
    ("it contains a private key", private_key),
    ("it contains a private key in base64", encoded_key),
    ("it is a PuTTY private key", _form(r"\APuTTY-User-Key-File-\d")),
    ("it contains a cluster's client key", _form(r'client-key-data"?:[ \t]*"?[A-Za-z0-9+/]{32}')),
    ("it contains a Kubernetes Secret", _kubernetes),
    ("it contains an age key", _age),
    ("it contains a minisign or signify secret key", _form(r"comment:[^\n]{0,80}secret key[^\n]{0,80}\r?\nRW[A-Za-z0-9+/]{40}")),
    ("it contains a WireGuard key", _valued(("PrivateKey", "PresharedKey"), r"(?:PrivateKey|PresharedKey)[ \t]{0,20}=[ \t]{0,20}([A-Za-z0-9+/]{42,43}=)")),
    ("it contains a private JSON Web Key", _jwk),
    ("it contains an AWS secret key", _valued(("ecret_access_key", "ecretAccessKey", "ecretaccesskey", "SECRET_ACCESS_KEY"), r"aws_?secret_?access_?key[\"']?[ \t]{0,20}[=:][ \t]{0,20}[\"']?([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+])", re.IGNORECASE)),
    ("it contains a Google refresh token", _valued(("1//",), r"\"refresh_token\"\s{0,9}:\s{0,9}\"(1//[\w-]{20,})\"")),
    ("it contains a GitHub token", _valued(("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"), r"\b(?:gh[pousr]_([A-Za-z0-9]{36,})|github_pat_[A-Za-z0-9_]{60,})")),
    ("it contains a GitLab token", _valued(("glpat-",), r"\bglpat-([\w-]{20,})")),
    ("it contains an Anthropic API key", _valued(("sk-ant-",), r"\bsk-ant-[a-z]{2,6}\d\d-([\w-]{60,})")),
    ("it contains an OpenAI API key", _valued(("T3BlbkFJ",), r"\bsk-((?:proj-|svcacct-|admin-)?[\w-]{8,200}T3BlbkFJ[\w-]{8,})")),
    ("it contains a Slack token", _valued(("xox", "xapp-"), r"\bx(?:ox[abeprs]|app)-([0-9A-Za-z-]{24,})")),
    ("it contains a live Stripe key", _valued(("k_live_",), r"\b[sr]k_live_([0-9A-Za-z]{24,})")),
    ("it contains a package registry's token", _valued(("npm_", "pypi-AgE"), r"\b(?:npm_([A-Za-z0-9]{36})\b|pypi-AgE[\w-]{50,})")),
    ("it contains a Hugging Face token", _valued(("hf_",), r"\bhf_([A-Za-z0-9]{34,})")),
    ("it contains a Google OAuth client secret", _valued(("GOCSPX-",), r"\bGOCSPX-([\w-]{28})")),
    ("it contains a SendGrid key", _valued(("SG.",), r"\bSG\.([\w-]{22}\.[\w-]{43})")),
    ("it contains a Vault token", _valued(("hvs.",), r"\bhvs\.([\w-]{60,})")),
    ("it contains a browser's cookies", _form(r"\A# (?:Netscape )?HTTP Cookie File")),
)  # fmt: skip
