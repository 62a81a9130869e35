"""The routes below `/api`, one row each. All of them require the token or the console's session.

A row has the method, the path, the handler, what it is for, and the types of its request and its answers. `openapi.py`
describes the rows; tests compare every answer with them.
"""

from __future__ import annotations

from pathlib import Path

from starlette.routing import BaseRoute, Route

from counsel.front.json_messages import LARGEST_MESSAGE
from counsel.http.api import (
    conversations,
    embedded_model,
    event_stream,
    files,
    images,
    jobs,
    keys,
    models,
    openapi,
    servers,
    session,
    settings,
    skills,
    submit,
    usage,
)
from counsel.http.api.documents import events as event
from counsel.http.api.documents import jobs as job
from counsel.http.api.documents import machine
from counsel.http.api.documents import servers as server
from counsel.http.api.endpoint import (
    METHODS,
    ApiRoute,
    Binary,
    Context,
    Empty,
    Events,
    OneOf,
    Parameter,
    choice,
    names,
    not_found,
    number,
    starlette_route,
    switch,
    text,
)
from counsel.mcp.identity import ClientIdentity
from counsel.models.embedded_process import EmbeddedModel
from counsel.requests import Engine
from counsel.settings import Settings

STATES = ("processing", "completed", "failed", "cancelled", "completed_with_errors")
TOOLS = ("chat", "consensus", "askModel")
CENTURY = 100 * 366 * 86400  # seconds
IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")

CURSOR = text("cursor", "`next` of the previous page.")
PROJECT = text("project", "A project's folder. Default: where the server was started.")
AGENT = names("agent", "Only these agents; several times, or separated by commas.")
SCOPE = names("scope", "Only these scopes; several times, or separated by commas.")
LAST_EVENT = Parameter("Last-Event-ID", "The id of the last event that was received.", {"type": "string"})
AFTER = text("after", "The same as the header `Last-Event-ID`, where a client cannot set headers.")
SERVERS = (
    names("agents", "Only these agents, separated by commas."),
    text("scope", "Only this scope."),
    PROJECT,
)
DRY_RUN = switch("dry_run", "Write nothing; show the differences.")

ROUTES: tuple[ApiRoute, ...] = (
    # jobs
    ApiRoute(
        "POST",
        "/api/jobs",
        submit.submit,
        "Ask one model (`model`), or several (`models`), who then refine their answers.",
        body=OneOf(submit.SCHEMAS),
        headers=(submit.IDEMPOTENCY,),
        answers={200: OneOf((job.Answer, job.Consensus, Events())), 202: job.Job},
        largest=LARGEST_MESSAGE,
    ),
    ApiRoute(
        "GET",
        "/api/jobs",
        jobs.page,
        "Jobs, newest first.",
        query=(
            number("limit", 10, 1_000, "Most jobs of a page."),
            CURSOR,
            choice("status", STATES, None, "Only jobs of this status."),
            choice("tool", TOOLS, None, "Only jobs of this tool."),
            text("model", "Only jobs that asked this model, as it was named in the request."),
            text("conversation", "Only jobs of this conversation."),
            text("q", "Only jobs with all these words in their title, summary, models or ids."),
        ),
        answers={200: job.Jobs},
    ),
    ApiRoute(
        "GET",
        "/api/jobs/{id}",
        jobs.show,
        "A job: its progress, text so far, and result.",
        query=(
            switch("history", "Also the conversation."),
            switch("question", "Also what was asked."),
        ),
        answers={200: job.Job},
    ),
    ApiRoute(
        "GET",
        "/api/jobs/{id}/events",
        jobs.events,
        "The job's events, from its start or behind the last one received, until it ends.",
        query=(AFTER,),
        headers=(LAST_EVENT,),
        answers={200: Events()},
    ),
    ApiRoute(
        "GET",
        "/api/jobs/{id}/timeline",
        jobs.timeline,
        "When what happened to a job: waits, rounds, first words, retries, tool calls.",
        answers={200: job.Timeline},
    ),
    ApiRoute(
        "POST",
        "/api/jobs/{id}/cancel",
        jobs.cancel,
        "Stop a job and its calls, or one model of a consensus.",
        body=job.CancelJob,
        answers={200: job.Cancelled},
    ),
    ApiRoute(
        "DELETE",
        "/api/jobs/{id}",
        jobs.delete,
        "Delete a job that has ended. Its turn stays in its conversation.",
        answers={200: job.Deleted},
    ),
    ApiRoute(
        "GET",
        "/api/events",
        event_stream.show,
        "Events of several jobs, and changes of the list of jobs, as one stream.",
        query=(
            names("job", "`ID~CURSOR`: a job, and the `cursor` of the last event that was received of it."),
            switch("jobs", "Also the newest jobs, then those that are new or have changed."),
        ),
        answers={200: Events(event.STREAM)},
    ),
    # conversations
    ApiRoute(
        "GET",
        "/api/conversations",
        conversations.page,
        "Conversations, last used first.",
        query=(
            number("limit", 20, 1_000, "Most conversations of a page."),
            CURSOR,
            text("q", "Only conversations that contain all these words."),
        ),
        answers={200: job.Conversations},
    ),
    ApiRoute(
        "GET",
        "/api/conversations/{id}",
        conversations.show,
        "A conversation with its messages.",
        answers={200: job.Conversation},
    ),
    ApiRoute(
        "GET",
        "/api/conversations/{id}/export",
        conversations.export,
        "The folder that `counsel conversations export` writes, as a ZIP file.",
        answers={200: Binary(("application/zip",))},
    ),
    ApiRoute(
        "DELETE",
        "/api/conversations/{id}",
        conversations.delete,
        "Delete a conversation and its finished jobs. This cannot be undone.",
        answers={200: job.Deleted},
    ),
    # files and images
    ApiRoute(
        "POST",
        "/api/files",
        files.add,
        "Store a file for a day; its path is for `files` of a question.",
        query=(text("name", "The file's name, with its ending."),),
        body=Binary(("application/octet-stream",)),
        answers={200: machine.StoredFile},
    ),
    ApiRoute(
        "POST",
        "/api/images",
        images.add,
        "Check an image and store it in the project.",
        query=(PROJECT,),
        body=Binary(IMAGES),
        answers={200: machine.StoredImage},
    ),
    ApiRoute(
        "GET",
        "/api/images/{id}",
        conversations.image,
        "An image of a conversation (`image_ids` of its messages).",
        answers={200: Binary(IMAGES)},
    ),
    # this machine
    ApiRoute(
        "GET",
        "/api/models",
        models.models,
        "The models that can be asked, like `counsel models --json`.",
        query=(text("provider", "Only this provider's."),),
        answers={200: machine.Models},
    ),
    ApiRoute(
        "GET",
        "/api/embedded-model",
        embedded_model.show,
        "The state of the tiny model that can run on this machine without a key.",
        answers={200: machine.EmbeddedModel},
    ),
    ApiRoute(
        "POST",
        "/api/embedded-model",
        embedded_model.install,
        "Download it, like `counsel demo`, unless it is present, and start it.",
        answers={200: machine.EmbeddedModel},
    ),
    ApiRoute(
        "GET",
        "/api/agents",
        models.agents,
        "The agents on this machine, like `counsel agents --json`.",
        query=(PROJECT,),
        answers={200: machine.Agents},
    ),
    ApiRoute(
        "GET",
        "/api/usage",
        usage.usage,
        "Calls, tokens, cost and times, like `counsel usage --json`.",
        query=(
            number("seconds", usage.WEEK, CENTURY, "How far back."),
            choice("by", usage.GROUPINGS, "model", "What the calls are grouped by."),
        ),
        answers={200: machine.UsageReport},
    ),
    ApiRoute(
        "GET",
        "/api/usage/series",
        usage.series,
        "The same over time, in parts of equal length, for charts.",
        query=(
            number("seconds", usage.WEEK, CENTURY, "How far back."),
            choice("by", usage.SERIES, "provider", "What the calls are grouped by."),
            number("buckets", usage.BUCKETS, usage.MOST_BUCKETS, "How many parts."),
        ),
        answers={200: machine.UsageSeries},
    ),
    ApiRoute(
        "GET",
        "/api/settings",
        settings.show,
        "All settings with their values and sources; keys by name only.",
        answers={200: machine.Settings},
    ),
    ApiRoute(
        "PUT",
        "/api/settings",
        settings.change,
        "Set one setting in config.toml, like `counsel config set`; secrets are refused.",
        body=machine.ChangeSetting,
        answers={200: machine.ChangedSetting},
    ),
    ApiRoute(
        "PUT",
        "/api/aliases/{name:path}",
        settings.set_alias,
        "Give a model a name of your own, like `counsel config set aliases.NAME MODEL`.",
        body=machine.SetAlias,
        answers={200: machine.ChangedAlias},
    ),
    ApiRoute(
        "DELETE",
        "/api/aliases/{name:path}",
        settings.remove_alias,
        "Remove a name of your own, like `counsel config unset aliases.NAME`.",
        answers={200: machine.ChangedAlias},
    ),
    ApiRoute(
        "GET",
        "/api/keys",
        keys.listed,
        "The providers that take a key, and whether they have one; keys are never shown.",
        answers={200: list[machine.KeyRow]},
    ),
    ApiRoute(
        "PUT",
        "/api/keys/{provider}",
        keys.store,
        "Store a provider's key, like `counsel keys set`.",
        body=machine.StoreKey,
        answers={200: machine.StoredKey},
    ),
    ApiRoute(
        "DELETE",
        "/api/keys/{provider}",
        keys.remove,
        "Remove a provider's stored key, like `counsel keys remove`.",
        answers={200: machine.RemovedKey},
    ),
    ApiRoute(
        "GET",
        "/api/doctor",
        models.doctor,
        "What is set up and what is wrong, like `counsel doctor --json`.",
        query=(switch("online", "Also connect to the providers and test the keys."),),
        answers={200: machine.Doctor},
    ),
    # MCP servers
    ApiRoute(
        "GET",
        "/api/servers",
        servers.listed,
        "The agents' MCP servers.",
        query=SERVERS,
        answers={200: server.Servers},
    ),
    ApiRoute(
        "POST",
        "/api/servers",
        servers.add,
        "Add a server to agents, by fields or by pasting an agent's JSON or TOML.",
        body=server.AddServer,
        answers={200: server.ServerChange},
    ),
    ApiRoute(
        "POST",
        "/api/servers:check",
        servers.checked,
        "Connect to servers and list their tools.",
        body=server.CheckServers,
        answers={200: server.ServerChecks},
    ),
    ApiRoute(
        "POST",
        "/api/servers:reveal",
        servers.reveal,
        "One value of a server without its mask; all other answers mask secrets.",
        body=server.RevealSecret,
        answers={200: server.RevealedSecret},
    ),
    ApiRoute(
        "GET",
        "/api/servers:history",
        servers.history,
        "Changes that can be undone.",
        query=SERVERS,
        answers={200: server.ServerHistory},
    ),
    ApiRoute(
        "POST",
        "/api/servers:undo",
        servers.undo,
        "Undo a change.",
        body=server.UndoServers,
        answers={200: server.ServerUndo},
    ),
    ApiRoute(
        "POST",
        "/api/servers/{name:path}/copy",
        servers.copy,
        "Copy a server to other agents or scopes.",
        body=server.CopyServer,
        answers={200: server.ServerChange},
    ),
    ApiRoute(
        "POST",
        "/api/servers/{name:path}/rename",
        servers.rename,
        "Rename a server.",
        body=server.RenameServer,
        answers={200: server.ServerChange},
    ),
    ApiRoute(
        "POST",
        "/api/servers/{name:path}/enable",
        servers.enable,
        "Enable a server.",
        body=server.ServerSelection,
        answers={200: server.ServerChange},
    ),
    ApiRoute(
        "POST",
        "/api/servers/{name:path}/disable",
        servers.disable,
        "Disable a server.",
        body=server.ServerSelection,
        answers={200: server.ServerChange},
    ),
    ApiRoute(
        "GET",
        "/api/servers/{name:path}",
        servers.shown,
        "The entries of one server.",
        query=SERVERS,
        answers={200: server.FoundServers},
    ),
    ApiRoute(
        "PATCH",
        "/api/servers/{name:path}",
        servers.update,
        "Change fields of a server.",
        body=server.UpdateServer,
        answers={200: server.ServerChange},
    ),
    ApiRoute(
        "DELETE",
        "/api/servers/{name:path}",
        servers.remove,
        "Remove a server.",
        query=(*SERVERS, DRY_RUN),
        answers={200: server.ServerChange},
    ),
    # skills
    ApiRoute(
        "GET",
        "/api/skills",
        skills.skills,
        "The agents' skills.",
        query=(text("q", "Only skills with all these words."), AGENT, SCOPE, PROJECT),
        answers={200: server.Skills},
    ),
    ApiRoute(
        "GET",
        "/api/skills/matrix",
        skills.matrix,
        "Which agent has which skill.",
        query=(PROJECT,),
        answers={200: server.SkillMatrix},
    ),
    ApiRoute(
        "GET",
        "/api/skills/show",
        skills.show,
        "A skill with its text and each agent's verdict.",
        query=(text("name", "Its name, command, folder or path."), AGENT, SCOPE, PROJECT),
        answers={200: server.SkillDetail},
    ),
    ApiRoute(
        "GET",
        "/api/skills/shared",
        skills.shared,
        "Links and copies that sharing has created and that can be undone.",
        answers={200: server.SharedSkills},
    ),
    ApiRoute(
        "POST",
        "/api/skills/share",
        skills.share,
        "Share a skill with other agents.",
        body=server.ShareSkill,
        answers={200: server.Sharing},
    ),
    ApiRoute(
        "POST",
        "/api/skills/unshare",
        skills.unshare,
        "Remove what sharing a skill has created.",
        body=server.UnshareSkill,
        answers={200: server.Sharing},
    ),
    ApiRoute(
        "POST",
        "/api/skills/undo",
        skills.undo,
        "Undo the sharing of a skill.",
        body=server.UndoSharing,
        answers={200: server.Sharing},
    ),
    # the console
    ApiRoute(
        "POST",
        "/api/session",
        session.sign_in,
        "Sign the console in with a one-time link's key or the token; sets the cookie.",
        body=machine.SignIn,
        answers={204: Empty()},
    ),
    ApiRoute(
        "GET",
        "/api/session",
        session.show,
        "The console's session and the server that it is signed in to.",
        answers={200: machine.ConsoleSession},
    ),
    ApiRoute(
        "DELETE",
        "/api/session",
        session.sign_out,
        "Sign the console out.",
        answers={204: Empty()},
    ),
    # this document
    ApiRoute(
        "GET",
        "/api/openapi.json",
        openapi.show,
        "This API as an OpenAPI 3.1 document.",
        answers={200: dict[str, object]},
    ),
)


def routes(engine: Engine, settings: Settings, identity: ClientIdentity | None = None) -> list[BaseRoute]:
    identity = identity or ClientIdentity(env=settings.own_env, cwd=Path.cwd())
    context = Context(engine, identity, EmbeddedModel(settings.home))
    listed = [starlette_route(row, context) for row in ROUTES]
    return [*listed, Route("/api/{rest:path}", not_found, methods=METHODS)]
