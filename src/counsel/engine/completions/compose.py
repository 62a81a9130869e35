"""Turns a client's completion into a call for one model. Refuses what the model cannot take before sending anything."""

from __future__ import annotations

from collections.abc import Iterator

from counsel.engine.consult import prompts
from counsel.engine.consult.routes import Route
from counsel.engine.context import tokens
from counsel.errors import InvalidArgument
from counsel.lazy_dataclass import replace
from counsel.models.auto import Needs
from counsel.requests import CompletionRequest
from counsel.text import is_blank
from counsel.types import Call, Image, Model, ModelSettings, ToolResult, Turn

_NO_FETCH = frozenset({"gemini"})  # wires whose vendor fetches no image from a URL
# Wires without a field for a tool's failure.
_NO_FAILED_RESULTS = frozenset({"openai_chat", "openai_responses"})
# Tokens. A client's header, or a model that is not listed, may allow more than the catalog says.
_LARGEST_WINDOW = 1_000_000


def check(request: CompletionRequest, route: Route) -> None:
    """Raise `InvalidArgument`, naming everything in the request that `route` cannot take."""
    problems = list(_problems(request, route))
    if problems:
        raise InvalidArgument(
            f"{route.name} cannot answer this request: {'; '.join(problems)}.",
            hint="Nothing was sent. Ask another model, or leave out what this one does not support.",
            model=route.name,
        )


def _problems(request: CompletionRequest, route: Route) -> list[str]:
    is_native = _is_native(request, route)
    problems = []
    if request.untranslated and not is_native:
        problems.append(f"it does not take {', '.join(request.untranslated)}")
    if route.model is None:
        return [*problems, *_problems_of_agent(request)]
    if request.tools and not route.model.tools:
        problems.append("it cannot use tools")
    searches = request.web_search and not request.tools and not request.as_counsel
    if searches and not (route.model.web_search or is_native):
        problems.append("it cannot search the web")
    if not is_native and not any(map(has_content, request.turns)):
        problems.append("its messages are empty")
    images = _images(request)
    if images and not route.model.vision:
        problems.append("it cannot see images")
    if route.wire in _NO_FETCH and any(image.url for image in images):
        problems.append("it does not fetch images from URLs (send the image itself, as a data URL)")
    return problems


def _problems_of_agent(request: CompletionRequest) -> Iterator[str]:
    if request.tools or request.web_search:
        yield "it is an agent with its own tools, and does not call a client's tools"
    if _images(request):
        yield "an agent does not take images from an API"
    if request.turns and request.turns[-1].role != "user":
        yield "its last message must be the user's"
    elif request.turns and is_blank(request.turns[-1].text):
        yield "its last message is empty"


def _is_native(request: CompletionRequest, route: Route) -> bool:
    """Whether the client's own body is passed on."""
    return request.exact.native is not None and request.exact.native.wire == route.wire


def has_content(turn: Turn) -> bool:
    return bool(turn.images or turn.tool_calls or turn.tool_results or not is_blank(turn.text))


def _images(request: CompletionRequest) -> list[Image]:
    return [
        image
        for turn in request.turns
        for image in (*turn.images, *(image for result in turn.tool_results for image in result.images))
    ]


def needs(request: CompletionRequest) -> Needs:
    """What the models that `auto` chooses must be able to do."""
    sizes = (tokens.estimate(turn.text) for turn in request.turns)
    results = (tokens.estimate(result.text) for turn in request.turns for result in turn.tool_results)
    total = sum(sizes) + sum(results) + tokens.estimate(request.system or "")
    return Needs(vision=bool(_images(request)), tools=bool(request.tools), tokens=total)


def compose(request: CompletionRequest, route: Route) -> Call:
    check(request, route)
    is_native = _is_native(request, route)
    exact = request.exact if is_native else replace(request.exact, left_out=_left_out(request, route))
    call = Call(
        turns=_with_error_text(request.turns) if route.wire in _NO_FAILED_RESULTS else request.turns,
        system=request.system,
        model_settings=ModelSettings(
            request.temperature,
            request.reasoning_effort,
            request.verbosity,
            request.web_search,
            request.media_resolution,
        ),
        max_output=request.max_output,
        tools=request.tools,
        schema=request.schema,
        exact=None if request.as_counsel else exact,
        output_limit=request.output_limit,
        streams_tools=request.is_streamed,
    )
    if route.model is None:
        return _for_agent(call)
    call = replace(call, tokens=tokens.estimate_call(call, route.model))
    _check_window(call, route.model)
    return call


def _left_out(request: CompletionRequest, route: Route) -> tuple[str, ...]:
    is_agent = route.model is None
    calls = is_agent and any(turn.tool_calls or turn.tool_results for turn in request.turns)
    return (*request.offered, "messages.tool_calls") if calls else request.offered


def _check_window(call: Call, model: Model) -> None:
    """Refuse what certainly does not fit. Near the limit the vendor decides: its clients count with its own numbers,
    and the estimate may be 50% too high.
    """
    if call.tokens * 2 > max(model.context, _LARGEST_WINDOW) * 3:
        tokens.check_window(call, model)


def _with_error_text(turns: tuple[Turn, ...]) -> tuple[Turn, ...]:
    """The turns with each tool's failure stated in the text of its result."""
    if not any(result.is_error for turn in turns for result in turn.tool_results):
        return turns
    return tuple(
        replace(turn, tool_results=tuple(map(_with_error_prefix, turn.tool_results))) for turn in turns
    )


def _with_error_prefix(result: ToolResult) -> ToolResult:
    if not result.is_error or result.text.lower().startswith("error"):
        return result
    return replace(result, text=f"Error: {result.text}")


def _for_agent(call: Call) -> Call:
    """The call as a single question, as agents need it, with the earlier turns before it."""
    *earlier, last = call.turns
    texts = [(turn.role, turn.text) for turn in earlier if turn.text and turn.role != "tool"]
    text = (prompts.earlier(texts) if texts else "") + last.text
    return replace(call, turns=(Turn("user", text),))
