"""Names of spans and their attributes: OpenTelemetry's conventions for HTTP and GenAI, and counsel's own `counsel.…`.

https://opentelemetry.io/docs/specs/semconv/gen-ai/ is still in development: if a name changes there, change it here.
"""

from __future__ import annotations

# HTTP servers
HTTP_METHOD = "http.request.method"
HTTP_STATUS = "http.response.status_code"
URL_PATH = "url.path"

# GenAI
OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
REQUEST_MODEL = "gen_ai.request.model"
RESPONSE_MODEL = "gen_ai.response.model"
FINISH_REASONS = "gen_ai.response.finish_reasons"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CONVERSATION = "gen_ai.conversation.id"
AGENT = "gen_ai.agent.name"
# Only if OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT asks for them.
SYSTEM = "gen_ai.system_instructions"
INPUT = "gen_ai.input.messages"
OUTPUT = "gen_ai.output.messages"
CONTENT_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
CONTENT_VALUES = frozenset({"true", "1", "span_only", "span_and_event"})

CHAT = "chat"
INVOKE_AGENT = "invoke_agent"
# The conventions' names for some providers; others keep counsel's name.
PROVIDERS = {
    "anthropic": "anthropic",
    "bedrock": "aws.bedrock",
    "deepseek": "deepseek",
    "google": "gcp.gemini",
    "gemini": "gcp.gemini",
    "groq": "groq",
    "mistral": "mistral_ai",
    "openai": "openai",
    "perplexity": "perplexity",
    "xai": "x_ai",
}

ERROR = "error.type"
JOB = "counsel.job.id"
TOOL = "counsel.job.tool"
ATTEMPT = "counsel.job.attempt"
REQUEST = "counsel.request.id"
PERSON = "enduser.id"
COST = "counsel.cost_usd"
