"""The table of MCP tools. A new tool is one small module here and one row in `TOOLS`."""

from __future__ import annotations

from counsel.mcp.tools import ask_model, cancel_job, chat, check_status, consensus
from counsel.mcp.tools.base import Tool

TOOLS: dict[str, Tool] = {
    tool.name: tool
    for tool in (chat.TOOL, consensus.TOOL, check_status.TOOL, cancel_job.TOOL, ask_model.TOOL)
}
