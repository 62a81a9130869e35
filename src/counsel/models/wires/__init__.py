"""The vendors' formats as a table: `WIRES[provider.wire]`.

A wire is pure: a call in, a body out; SSE events in, our events out. What differs between the models and the
providers of one wire is said in their rows, in this vocabulary:

`Provider.wire`: openai_responses, openai_chat, anthropic, gemini (the modules' names).

`Provider.base_url` and the caller's override, as the vendors' own variables have it:
    openai_responses, openai_chat   with the version: https://api.openai.com/v1
    anthropic                       without: https://api.anthropic.com
    gemini                          without: https://generativelanguage.googleapis.com

`Model.temperature`: the range that is accepted (a wish outside is clamped), None when the vendor refuses the
setting. Anthropic refuses it while thinking, so there it is sent only when no thinking is.

`Model.effort_style` says how effort is written, `Model.efforts` what each of our five levels becomes; a level that
is missing there is not sent and named in `left_out`.
    none              no wire           the model does not reason, or cannot be told how much
    reasoning         openai_responses  {"reasoning": {"effort": V}}
    reasoning         openai_chat       the same object (OpenRouter)
    reasoning_effort  openai_chat       {"reasoning_effort": V}
    thinking_type     openai_chat       {"thinking": {"type": V}} (DeepSeek: enabled, disabled)
    budget            anthropic         {"thinking": {"type": "enabled", "budget_tokens": V}}; V = 0: no thinking
    budget_effort     anthropic         the same, and {"output_config": {"effort": our level, at most high}}
    adaptive          anthropic         {"thinking": {"type": "adaptive"}, "output_config": {"effort": V}}
    thinking_level    gemini            {"thinkingConfig": {"thinkingLevel": V}}
    thinking_budget   gemini            {"thinkingConfig": {"thinkingBudget": V}}

`options` (a model's win over its provider's):
    max_tokens_field  openai_chat       the name of the output limit; default max_tokens
    stream_usage      openai_chat       whether stream_options.include_usage is accepted; default true
    system_role       openai_chat       system (default) or developer
    web_search        openai_chat       how a search is asked for: plugin (OpenRouter), search_parameters (xAI Live
                                        Search), web_search_options (OpenAI's search models); default: it cannot be
    web_search_tool   the others        the built-in tool's type; defaults web_search, web_search_20250305, googleSearch
    store             openai_responses  whether `store: false` is sent; default true (it is sent)
    encrypted         openai_responses  whether reasoning.encrypted_content may be included; default: it is for models
                                        that reason
    body              all               fields merged over the finished body, for what no word here can say
"""

from __future__ import annotations

from counsel.types import Wire

WIRES: dict[str, Wire] = {}
