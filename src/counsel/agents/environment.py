"""The environment that an agent gets: the caller's, never the daemon's own.

Left out: relative entries of search paths, by which `#!/usr/bin/env node` would run the project's `node`; what counsel
keeps for itself (its `.env`, its token), and the marks by which an agent tells its own
children that they run inside it. Claude Code refuses to start inside itself, and a marked child would write
into its parent's session. Nor empty variables: an agent's entry hands on names that may have no value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from counsel import untrusted
from counsel.caller import Caller

_MARKS = re.compile(
    r"CLAUDECODE|CLAUDE_PROJECT_DIR|CLAUDE_PID|CLAUDE_AGENT_SDK_VERSION|CLAUDE_EFFORT|AI_AGENT"
    r"|CLAUDE_CODE_(?:ENTRYPOINT|SESSION_ID|SSE_PORT|EXECPATH|TMPDIR|CHILD_SESSION\w*|REMOTE\w*)"
    r"|CODEX_(?:SANDBOX|SANDBOX_NETWORK_DISABLED|THREAD_ID|CI|INTERNAL_\w+)|GEMINI_CLI|GEMINI_CLI_NO_RELAUNCH"
    r"|CURSOR_(?:AGENT|TRACE_ID|CLI)|AGENT|OPENCODE|OPENCODE_(?:PID|CLIENT|SERVER_PASSWORD|SERVER_USERNAME)|COUNSEL_TOKEN|CLIENT_CWD|SESSION_ID|PERMISSION_MODE"
).fullmatch

CHAIN = "COUNSEL_CHAIN"  # who asked whom, for a counsel that the agent starts in its turn


def of(caller: Caller, agent: str, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    own = untrusted.absolute_paths(caller.own_env)
    env = {name: value for name, value in own.items() if value and not _MARKS(name)}
    return {"NO_COLOR": "1", **env, **(extra or {}), CHAIN: ",".join((*caller.lineage, agent))}
