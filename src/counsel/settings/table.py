"""The settings: a row each, with its variable, default, limits and description."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from counsel.lazy_dataclass import dataclass
from counsel.settings.values import ProviderBudget
from counsel.types import EFFORTS

if TYPE_CHECKING:
    from counsel.team_login import TeamLogin


def _setting(
    env: str,
    default: object,
    description: str,
    *,
    choices: tuple[str, ...] = (),
    minimum: float | None = None,
    maximum: float | None = None,
    secret: bool = False,
    unit: str = "",
) -> Any:
    metadata = {
        "env": env,
        "description": description,
        "choices": choices,
        "min": minimum,
        "max": maximum,
        "secret": secret,
        "unit": unit,
    }
    return field(default=default, metadata=metadata, repr=not secret)


@dataclass(frozen=True, slots=True)
class Settings:
    # calls
    request_timeout_ms: int = _setting(
        "REQUEST_TIMEOUT_MS", 300_000, "Time limit of one call, with all its retries.", minimum=1
    )
    connect_timeout_ms: int = _setting(
        "COUNSEL_CONNECT_TIMEOUT_MS", 10_000, "Time limit for connecting to a provider.", minimum=1
    )
    first_event_timeout_ms: int = _setting(
        "COUNSEL_FIRST_EVENT_TIMEOUT_MS",
        240_000,
        "Time limit from sending a request to the first word of its answer.",
        minimum=1,
    )
    idle_timeout_ms: int = _setting(
        "COUNSEL_IDLE_TIMEOUT_MS", 120_000, "Time limit for a pause within an answer.", minimum=1
    )
    max_attempts: int = _setting("COUNSEL_MAX_ATTEMPTS", 3, "Attempts per call.", minimum=1, maximum=3)
    default_model: str = _setting(
        "COUNSEL_DEFAULT_MODEL",
        "auto",
        "Model of `counsel ask` and `chat` when none is named; several, separated by commas, are tried in order.",
    )
    default_effort: str = _setting(
        "COUNSEL_DEFAULT_EFFORT",
        "",
        "Reasoning effort of `counsel ask`, `chat` and `consensus` when none is given; empty: the model's own.",
        choices=EFFORTS,
    )
    consensus_models: tuple[str, ...] = _setting(
        "COUNSEL_CONSENSUS_MODELS",
        (),
        "Models of a consensus that names none, or only `auto`; empty: some from different vendors.",
    )
    panel_size: int = _setting(
        "COUNSEL_PANEL_SIZE",
        3,
        "Number of models that `auto` alone stands for in a consensus, if that many vendors are available.",
        minimum=2,
        maximum=20,
    )
    judge: str = _setting(
        "COUNSEL_JUDGE",
        "none",
        "Model that compares the answers of `counsel consensus`: a model that is not a member, `auto` or `none`.",
    )
    auto_order: tuple[str, ...] = _setting(
        "COUNSEL_AUTO_ORDER", (), "Models that `auto` tries, in this order; empty: the catalog's order."
    )
    max_concurrent: int = _setting(
        "COUNSEL_MAX_CONCURRENT", 256, "Calls at the same time, in total.", minimum=1
    )
    max_concurrent_per_provider: int = _setting(
        "COUNSEL_MAX_CONCURRENT_PER_PROVIDER", 64, "Calls at the same time to one provider.", minimum=1
    )
    max_answer_bytes: int = _setting(
        "COUNSEL_MAX_ANSWER_BYTES",
        16 * 1024 * 1024,
        "Largest answer. A longer one is cut there, with a notice.",
        minimum=1024,
        maximum=256 * 1024 * 1024,
    )
    max_prompt_bytes: int = _setting(
        "COUNSEL_MAX_PROMPT_BYTES",
        16 * 1024 * 1024,
        "Largest prompt, not counting files. A larger one is refused.",
        minimum=1024,
        maximum=256 * 1024 * 1024,
    )
    budget_day: str = _setting(
        "COUNSEL_BUDGET_DAY",
        "",
        "Maximum cost of all calls per calendar day, in US dollars (this machine's time zone); empty: no budget, 0: nothing.",
        unit="usd",
    )
    budget_month: str = _setting(
        "COUNSEL_BUDGET_MONTH",
        "",
        "Maximum cost of all calls per calendar month, in US dollars (this machine's time zone); empty: no budget, 0: nothing.",
        unit="usd",
    )
    cache_seconds: int = _setting(
        "COUNSEL_CACHE_SECONDS",
        0,
        "Seconds for which an answer is reused for identical requests; 0: off.",
        minimum=0,
    )
    # files and images
    allowed_dirs: tuple[str, ...] = _setting(
        "COUNSEL_ALLOWED_DIRS", (), "Folders from which files may be sent, in addition to the caller's."
    )
    allowed_secret_files: tuple[str, ...] = _setting(
        "COUNSEL_ALLOWED_SECRET_FILES", (), "Files that may be sent although they look like secrets."
    )
    max_files: int = _setting("COUNSEL_MAX_FILES", 100, "Maximum number of files in one request.", minimum=1)
    max_images: int = _setting(
        "COUNSEL_MAX_IMAGES", 20, "Maximum number of images in one request.", minimum=1
    )
    max_file_bytes: int = _setting(
        "COUNSEL_MAX_FILE_BYTES", 1024 * 1024, "Largest text file, or range of lines of one.", minimum=1
    )
    max_pdf_bytes: int = _setting(
        "COUNSEL_MAX_PDF_BYTES",
        32 * 1024 * 1024,
        "Largest PDF. Its text is limited by COUNSEL_MAX_FILE_BYTES.",
        minimum=1,
        maximum=256 * 1024 * 1024,
    )
    max_pdf_pages: int = _setting(
        "COUNSEL_MAX_PDF_PAGES", 500, "Maximum number of pages read from a PDF.", minimum=1, maximum=10_000
    )
    max_image_bytes: int = _setting("COUNSEL_MAX_IMAGE_BYTES", 10 * 1024 * 1024, "Largest image.", minimum=1)
    max_image_pixels: int = _setting(
        "COUNSEL_MAX_IMAGE_PIXELS", 50_000_000, "Largest image area, in pixels.", minimum=1
    )
    client_cwd: str = _setting("CLIENT_CWD", "", "The caller's folder, if the client does not name one.")
    # conversations and jobs
    conversation_days: int = _setting(
        "COUNSEL_CONVERSATION_DAYS", 30, "Days for which a conversation is kept.", minimum=1
    )
    job_days: int = _setting("COUNSEL_JOB_DAYS", 3, "Days for which a finished job is kept.", minimum=1)
    max_database_bytes: int = _setting(
        "COUNSEL_MAX_DATABASE_BYTES",
        4 * 1024**3,
        "Largest database, such as `500 MB`. Beyond it the oldest finished jobs are deleted, then the oldest conversations; 0: no limit.",
        minimum=0,
        unit="bytes",
    )
    database: str = _setting(
        "COUNSEL_DATABASE",
        "",
        "URL of a PostgreSQL database that several servers share; empty: a file in COUNSEL_HOME.",
        secret=True,
    )
    team_offline: str = _setting(
        "COUNSEL_TEAM_OFFLINE",
        "error",
        "When the team server that `counsel login` joined cannot be reached: `error`, or `local` to use this machine's own keys.",
        choices=("error", "local"),
    )
    concurrency: int = _setting(
        "COUNSEL_CONCURRENCY",
        64,
        "Jobs that one server or worker of a team runs at the same time; 0: none, so that others run them.",
        minimum=0,
    )
    drain_seconds: int = _setting(
        "COUNSEL_DRAIN_SECONDS",
        30,
        "Seconds that a server or worker of a team lets its jobs finish after SIGTERM, before others continue them.",
        minimum=0,
    )
    client_limit_seconds: int = _setting(
        "COUNSEL_CLIENT_LIMIT_SECONDS",
        0,
        "The MCP client's time limit for one tool call; 0: from its settings or the table of known clients.",
        minimum=0,
    )
    keep_abandoned: bool = _setting(
        "COUNSEL_KEEP_ABANDONED", False, "Continue a synchronous call after its client has disconnected."
    )
    model_limit_seconds: int = _setting(
        "COUNSEL_MODEL_LIMIT_SECONDS", 300, "Time limit of one model in one round of a consensus.", minimum=1
    )
    summaries: bool = _setting(
        "ENABLE_RESPONSE_SUMMARIZATION", False, "Let a model write titles and summaries of conversations."
    )
    summary_model: str = _setting(
        "SUMMARIZATION_MODEL", "gpt-5-nano", "The model that writes titles and summaries."
    )
    # interfaces
    transport: str = _setting(
        "MCP_TRANSPORT", "http", "Transport of `counsel serve`.", choices=("http", "stdio")
    )
    host: str = _setting("COUNSEL_HOST", "127.0.0.1", "Address on which `counsel serve` listens.")
    port: int = _setting(
        "COUNSEL_PORT", 3157, "Port on which `counsel serve` listens.", minimum=0, maximum=65535
    )
    token: str = _setting(
        "COUNSEL_TOKEN", "", "Token for HTTP clients; empty: created at the first start.", secret=True
    )
    public_url: str = _setting(
        "COUNSEL_PUBLIC_URL",
        "",
        "Address under which people reach `counsel serve` through a proxy, such as `https://counsel.example`.",
        unit="url",
    )
    trusted_proxies: tuple[str, ...] = _setting(
        "COUNSEL_TRUSTED_PROXIES",
        (),
        "Addresses or networks of proxies whose X-Forwarded-For and X-Forwarded-Proto count, such as `10.0.0.0/8`.",
    )
    cors_origins: tuple[str, ...] = _setting(
        "COUNSEL_CORS_ORIGINS", (), "Web origins that may call `counsel serve`."
    )
    ready_queue_seconds: int = _setting(
        "COUNSEL_READY_QUEUE_SECONDS",
        300,
        "`/ready` names a job that has waited this long for a free server; 0: never.",
        minimum=0,
    )
    metrics_token: str = _setting(
        "COUNSEL_METRICS_TOKEN", "", "Token that reads `/metrics` and nothing else; empty: none.", secret=True
    )
    metrics_people: bool = _setting(
        "COUNSEL_METRICS_PEOPLE", False, "Add calls, tokens, cost and errors of each person to `/metrics`."
    )
    probe_port: int = _setting(
        "COUNSEL_PROBE_PORT",
        0,
        "Port on which `counsel worker` answers `/health`, `/ready` and `/metrics`; 0: none.",
        minimum=0,
        maximum=65535,
    )
    max_connections: int = _setting(
        "COUNSEL_MAX_CONNECTIONS", 1_000, "Maximum number of open connections of `counsel serve`.", minimum=8
    )
    max_output_tokens: int = _setting(
        "MAX_MCP_OUTPUT_TOKENS", 25_000, "Largest tool result.", minimum=1_000, maximum=200_000
    )
    daemon_idle_seconds: int = _setting(
        "COUNSEL_DAEMON_IDLE_SECONDS",
        900,
        "The daemon exits after this many seconds without a client or a job.",
        minimum=1,
    )
    # a team's server
    team_agents: bool = _setting(
        "COUNSEL_TEAM_AGENTS",
        False,
        "Let people of a team ask coding agents that run on the server, as the server's user.",
    )
    audit_days: int = _setting(
        "COUNSEL_AUDIT_DAYS",
        400,
        "Days for which a team's audit log keeps a record.",
        minimum=1,
        maximum=3650,
    )
    audit_prompts: bool = _setting(
        "COUNSEL_AUDIT_PROMPTS", False, "Store prompts in a team's audit log, which admins read."
    )
    # sign-in to a team's server
    oidc_issuer: str = _setting(
        "COUNSEL_OIDC_ISSUER",
        "",
        "OpenID Connect issuer with which people sign in to a team's console; empty: with their tokens only.",
    )
    oidc_client_id: str = _setting("COUNSEL_OIDC_CLIENT_ID", "", "The console's client id at the issuer.")
    oidc_client_secret: str = _setting(
        "COUNSEL_OIDC_CLIENT_SECRET", "", "The client's secret at the issuer, if it has one.", secret=True
    )
    oidc_scopes: str = _setting(
        "COUNSEL_OIDC_SCOPES",
        "openid email profile",
        "Scopes to request from the issuer, separated by spaces.",
    )
    oidc_hosts: tuple[str, ...] = _setting(
        "COUNSEL_OIDC_HOSTS",
        (),
        "Further hosts that the issuer's metadata may name for its token endpoint and keys; others are never contacted.",
    )
    oidc_allowed_domains: tuple[str, ...] = _setting(
        "COUNSEL_OIDC_ALLOWED_DOMAINS",
        (),
        "Domains of the verified e-mail addresses that may sign in; empty: any that the issuer accepts.",
    )
    oidc_create: str = _setting(
        "COUNSEL_OIDC_CREATE",
        "off",
        "People who sign in for the first time: `off` accepts only those whom an admin has added by e-mail address, `member` adds them as members.",
        choices=("off", "member"),
    )
    oidc_groups_claim: str = _setting(
        "COUNSEL_OIDC_GROUPS_CLAIM",
        "",
        "Claim with a person's groups; they replace the person's groups at each sign-in. Empty: groups are counsel's own.",
    )
    oidc_roles: tuple[str, ...] = _setting(
        "COUNSEL_OIDC_ROLES",
        (),
        "Roles by group, such as `ops=admin,guests=read-only`; the first match wins, at each sign-in.",
    )
    secret_key: str = _setting(
        "COUNSEL_SECRET_KEY",
        "",
        "Encrypts the provider keys that people of a team store; at least 32 characters, the same on all servers.",
        secret=True,
    )
    secret_key_old: str = _setting(
        "COUNSEL_SECRET_KEY_OLD",
        "",
        "The previous secret key, while people's keys are encrypted again (`counsel people keys reseal`).",
        secret=True,
    )
    # agents
    codex_sandbox_mode: str = _setting(
        "CODEX_SANDBOX_MODE",
        "read-only",
        "Sandbox for Codex.",
        choices=("read-only", "workspace-write", "danger-full-access"),
    )
    codex_skip_git_check: bool = _setting(
        "CODEX_SKIP_GIT_CHECK", True, "Let Codex work outside a git repository."
    )
    codex_approval_policy: str = _setting(
        "CODEX_APPROVAL_POLICY",
        "never",
        "When Codex asks for approval.",
        choices=("never", "untrusted", "on-failure", "on-request"),
    )
    codex_api_key: str = _setting(
        "CODEX_API_KEY", "", "API key for Codex, instead of its login.", secret=True
    )
    agent_sandbox: str = _setting(
        "COUNSEL_AGENT_SANDBOX",
        "read-only",
        "Sandbox for Claude, Gemini, Cursor and OpenCode.",
        choices=("read-only", "workspace-write", "danger-full-access"),
    )
    permission_mode: str = _setting(
        "PERMISSION_MODE", "", "Permission level of askModel; mapped to the agents' sandboxes."
    )
    session_id: str = _setting("SESSION_ID", "", "askModel's session, if the call names none.")
    max_depth: int = _setting(
        "COUNSEL_MAX_DEPTH", 2, "How many levels deep agents may ask other agents.", minimum=1, maximum=5
    )
    shared_tools: tuple[str, ...] = _setting(
        "COUNSEL_SHARED_TOOLS", (), "MCP servers that consulted models may use (`*`: all)."
    )
    shared_tools_write: bool = _setting(
        "COUNSEL_SHARED_TOOLS_WRITE", False, "Let consulted models use tools that are not read-only."
    )
    # logs
    log_level: str = _setting(
        "LOG_LEVEL", "info", "Lowest level that is logged.", choices=("debug", "info", "warning", "error")
    )
    log_format: str = _setting(
        "COUNSEL_LOG_FORMAT",
        "text",
        "Format of the log: lines for people, or one JSON object per line, with the request's id.",
        choices=("text", "json"),
    )
    traces: bool = _setting(
        "COUNSEL_TRACES",
        False,
        "Send traces of `counsel serve` and `counsel worker` as the OTEL_* variables say (`pip install 'counsel[otel]'`).",
    )
    log_content: bool = _setting(
        "COUNSEL_LOG_CONTENT", False, "Log prompts and answers (keys are never logged)."
    )

    # where the values come from
    home: Path = field(default=Path(), metadata={"env": "COUNSEL_HOME"})
    env: Mapping[str, str] = field(default_factory=dict, repr=False)  # .env under the caller's environment
    tables: Mapping[str, Any] = field(default_factory=dict, repr=False)  # `providers` … in config.toml
    provider_budgets: tuple[ProviderBudget, ...] = ()
    team: TeamLogin | None = field(default=None, repr=False)  # the server that `counsel login` joined
    sources: Mapping[str, str] = field(default_factory=dict, repr=False)
    problems: tuple[str, ...] = ()

    @property
    def own_env(self) -> dict[str, str]:
        """The caller's own environment, without the variables of COUNSEL_HOME/.env, which only counsel uses."""
        return {
            name: value for name, value in self.env.items() if self.source(name) in {"environment", "default"}
        }

    def source(self, name: str) -> str:
        """Where a setting's or an environment variable's value came from."""
        return self.sources.get(name, "default")


# The tables of config.toml, and what each looks like. The packages that use a table check its content.
TABLES = {
    "providers": "tables such as [providers.NAME]",
    "models": "tables such as [models.NAME]",
    "agents": "tables such as [agents.NAME]",
    "aliases": 'a table such as [aliases] with NAME = "MODEL"',
    "panels": 'a table such as [panels] with NAME = ["MODEL", "MODEL"]',
    "budgets": "tables such as [budgets.PROVIDER] with day = 5",
}


def rows() -> Iterator[dataclasses.Field[Any]]:
    """The settings, in the order of the class."""
    return (row for row in dataclasses.fields(Settings) if "description" in row.metadata)
