"""The vendors' formats as a table: `WIRES[provider.wire]`.

A wire is pure: a call in, a body out; SSE events in, our events out. The rows of models and providers say what differs
between those of one wire:

`Provider.wire`: openai_responses, openai_chat, anthropic, gemini (the modules' names).

`Provider.base_url` and the caller's override, as the vendors' own variables have it:
    openai_responses, openai_chat   with the version: https://api.openai.com/v1
    anthropic                       without: https://api.anthropic.com
    gemini                          without: https://generativelanguage.googleapis.com

`Model.temperature`: the accepted range (other values are clamped), None if the vendor refuses the setting.
Anthropic refuses it with thinking, so there it is sent only without.

`Model.effort_style` is the form in which effort is sent, `Model.efforts` the value for each of our five levels. A level
that is missing there is not sent, and is named in `left_out`.
    none              no wire           the model does not reason, or has no such setting
    reasoning         openai_responses  {"reasoning": {"effort": V}}
    reasoning         openai_chat       the same object (OpenRouter)
    reasoning_effort  openai_chat       {"reasoning_effort": V}
    thinking_type     openai_chat       {"thinking": {"type": V}} (DeepSeek: enabled, disabled)
    budget            anthropic         {"thinking": {"type": "enabled", "budget_tokens": V}}; V = 0: no thinking
    budget_effort     anthropic         the same, and {"output_config": {"effort": low, medium or high}} (Opus 4.5)
    adaptive          anthropic         {"thinking": {"type": "adaptive"}, "output_config": {"effort": V}}
    thinking_level    gemini            {"thinkingConfig": {"thinkingLevel": V}}
    thinking_budget   gemini            {"thinkingConfig": {"thinkingBudget": V}}

`options` (a model's win over its provider's):
    web_search_tool    all              the built-in tool's type: web_search (openai_responses, the default there),
                                        web_search_20250305 (anthropic, default) or _20260209, googleSearch (gemini,
                                        default), openrouter:web_search (openai_chat: no default, it cannot search)
    search_with_tools  gemini           whether search works beside function tools (from Gemini 3); default false
    search_refuses     all (model)      values of effort that the vendor refuses with a search: the next higher is sent
    thinking_range     gemini (model)   the smallest and the largest thinking budget, besides 0
    always_thinks      gemini (model)   whether a budget of 0 is refused; default false
    reasoning_summary  openai_responses auto, concise or detailed; default: none is requested
    max_tokens_field   openai_chat      the name of the output limit; default max_tokens
    stream_usage       openai_chat      whether stream_options.include_usage is accepted; default true
    system_role        openai_chat      system (default) or developer
    encrypted          openai_responses whether encrypted reasoning is requested, which a tool loop without storage
                                        needs; default: when effort_style is not none
    api_version        anthropic        the anthropic-version header; default: 2026-10-21, and 2023-06-01 for a request
                                        with a temperature, which the newer version refuses
    thinking_display   anthropic        summarized or omitted; default: summarized when adaptive, else the model's own
    headers            all              more headers
    body               all              fields merged over the finished body, for everything else
    consensus_output   openai_chat      tokens of each answer in a consensus; default: no limit of its own

A model whose `web_search` is true can search through its wire. xAI answers `search_parameters` on Chat Completions with
410 since 2026: its search is the Responses API's `web_search` tool (`Target.searching` in catalog.py changes the wire).
"""

from __future__ import annotations

from counsel.models.wires.anthropic import Anthropic
from counsel.models.wires.counsel import Counsel
from counsel.models.wires.gemini import Gemini
from counsel.models.wires.openai_chat import OpenAIChat
from counsel.models.wires.openai_responses import OpenAIResponses
from counsel.types import Wire

WIRES: dict[str, Wire] = {
    "openai_responses": OpenAIResponses(),
    "openai_chat": OpenAIChat(),
    "anthropic": Anthropic(),
    "gemini": Gemini(),
}
# With a team's server, which no row of a table names.
ALL_WIRES: dict[str, Wire] = {**WIRES, "counsel": Counsel()}
