"""Which of a caller's environment variables are sent to the daemon, and which the daemon itself starts with.

A caller's variables apply to its own calls only, since clients with different keys share one daemon. Variables that are
not listed here are not sent. The daemon is started without any key.
"""

from __future__ import annotations

from counsel.untrusted import absolute_paths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

# Suffixes, prefixes and whole names of the variables that are sent, and why.
ENDINGS = (
    "_API_KEY",  # providers' keys
    "_KEY",  # keys of the user's own providers in config.toml
    "_TOKEN",
    "_BASE_URL",  # providers' addresses
    "_PROXY",
    "_proxy",
)
STARTS = (
    "COUNSEL_",  # our settings
    "CLAUDE_",  # the agents' own, for agents that counsel starts
    "CODEX_",
    "GEMINI_",
    "CURSOR_",
    "ANTHROPIC_",
    "OPENAI_",
    "GOOGLE_",
    "AWS_",  # agents that reach their models through a cloud
    "AZURE_",
    "VERTEX_",
    "XDG_",  # where programs look for their files
    "LC_",
)
NAMES = frozenset(
    {
        # settings that keep the names of converse, counsel's predecessor
        "REQUEST_TIMEOUT_MS",
        "MAX_MCP_OUTPUT_TOKENS",
        "MCP_TRANSPORT",
        "MCP_TOOL_TIMEOUT",  # Claude Code's limit for one tool call
        "ENABLE_RESPONSE_SUMMARIZATION",
        "SUMMARIZATION_MODEL",
        "CLIENT_CWD",
        "SESSION_ID",
        "PERMISSION_MODE",
        "LOG_LEVEL",
        # what a program needs to run at all
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "SHELL",
        "LANG",
        "LANGUAGE",
        "TZ",
        "TMPDIR",
        "TERM",
        "SSH_AUTH_SOCK",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "REQUESTS_CA_BUNDLE",
        "NODE_EXTRA_CA_CERTS",
        "OLLAMA_HOST",
    }
)
# The daemon's own variables: what it needs to run, and settings that belong to no caller. Never a key, and never a
# caller's certificates: OpenSSL would read SSL_CERT_FILE for all callers.
_DAEMON_NAMES = (
    NAMES
    - {"CLIENT_CWD", "SESSION_ID", "PERMISSION_MODE", "MCP_TOOL_TIMEOUT"}
    - {"SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"}
) | {
    "PYTHONPATH",
    "PYTHONHOME",
    "VIRTUAL_ENV",
    "COVERAGE_PROCESS_START",
    "COVERAGE_PROCESS_CONFIG",
}
_DAEMON_STARTS = ("COUNSEL_", "XDG_", "LC_")
_SECRET = ("_KEY", "_TOKEN")


def for_calls(env: Mapping[str, str]) -> dict[str, str]:
    """The caller's variables that its calls use in the daemon."""
    return {
        name: value
        for name, value in env.items()
        if name in NAMES or name.startswith(STARTS) or name.endswith(ENDINGS)
    }


# glibc returns freed megabytes to the system only with fixed thresholds: else a consensus of long answers stays in
# memory
_MEMORY = {"MALLOC_MMAP_THRESHOLD_": "131072", "MALLOC_TRIM_THRESHOLD_": "131072", "MALLOC_ARENA_MAX": "2"}


def for_daemon(env: Mapping[str, str]) -> dict[str, str]:
    """The variables that a daemon is started with. Relative paths are left out: its folder is another."""
    return _MEMORY | {
        name: value
        for name, value in absolute_paths(env).items()
        if (name in _DAEMON_NAMES or name.startswith(_DAEMON_STARTS)) and not name.endswith(_SECRET)
    }
