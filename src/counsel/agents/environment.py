"""The environment that an agent gets: the caller's, never the daemon's own.

Left out are: relative entries of search paths, through which `#!/usr/bin/env node` would run the project's `node`;
counsel's own variables (its `.env`, its token); and the variables with which an agent marks its children: Claude Code
refuses to start inside itself, and a marked child would write into its parent's session. Empty variables are left out,
too: an agent's entry passes on names that may have no value.
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
    r"|CURSOR_(?:AGENT|TRACE_ID|CLI)|AGENT|OPENCODE|OPENCODE_(?:PID|CLIENT|SERVER_PASSWORD|SERVER_USERNAME)|COUNSEL_(?:TOKEN|DATABASE|SECRET_KEY(?:_OLD)?|OIDC_CLIENT_SECRET)|CLIENT_CWD|SESSION_ID|PERMISSION_MODE"
).fullmatch

CHAIN = "COUNSEL_CHAIN"  # who asked whom, for a counsel that the agent starts


def for_agent(caller: Caller, agent: str, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    own = untrusted.absolute_paths(caller.own_env)
    env = {name: value for name, value in own.items() if value and not _MARKS(name)}
    return {"NO_COLOR": "1", **env, **(extra or {}), CHAIN: ",".join((*caller.agent_chain, agent))}
