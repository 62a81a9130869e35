"""Routes for this machine: models, agents, usage, settings, keys, doctor, and the console's session."""

from __future__ import annotations

from counsel.engine.history import documents as history
from counsel.http.api import embedded_model, keys, models, session, settings, usage
from counsel.http.api.documents import machine
from counsel.http.api.endpoint import PROJECT, ApiRoute, Empty, choice, number, switch, text

CENTURY = 100 * 366 * 86400  # seconds

ROWS: tuple[ApiRoute, ...] = (
    # this machine
    ApiRoute(
        "GET",
        "/api/models",
        models.models,
        "All models, and whether they can be asked now, like `counsel models --json`.",
        query=(text("provider", "Only models of this provider."),),
        answers={200: machine.Models},
        team="person",
    ),
    ApiRoute(
        "GET",
        "/api/embedded-model",
        embedded_model.show,
        "The state of the tiny model that runs on this machine without a key.",
        answers={200: machine.EmbeddedModel},
    ),
    ApiRoute(
        "POST",
        "/api/embedded-model",
        embedded_model.install,
        "Start the tiny model, after downloading it if necessary, like `counsel demo`.",
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
        answers={200: history.UsageReport},
        team="person",
    ),
    ApiRoute(
        "GET",
        "/api/usage/series",
        usage.series,
        "Usage over time, in intervals of equal length, for charts.",
        query=(
            number("seconds", usage.WEEK, CENTURY, "How far back."),
            choice("by", usage.SERIES, "provider", "What the calls are grouped by."),
            number("buckets", usage.BUCKETS, usage.MOST_BUCKETS, "Number of intervals."),
        ),
        answers={200: history.UsageSeries},
        team="person",
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
        "Define an alias for a model, like `counsel config set aliases.NAME MODEL`.",
        body=machine.SetAlias,
        answers={200: machine.ChangedAlias},
    ),
    ApiRoute(
        "DELETE",
        "/api/aliases/{name:path}",
        settings.remove_alias,
        "Remove an alias, like `counsel config unset aliases.NAME`.",
        answers={200: machine.ChangedAlias},
    ),
    ApiRoute(
        "PUT",
        "/api/panels/{name:path}",
        settings.set_panel,
        "Define a panel, a name for models that are asked together, like `counsel config set panels.NAME MODEL,MODEL`.",
        body=machine.SetPanel,
        answers={200: machine.ChangedPanel},
    ),
    ApiRoute(
        "DELETE",
        "/api/panels/{name:path}",
        settings.remove_panel,
        "Remove a panel, like `counsel config unset panels.NAME`.",
        answers={200: machine.ChangedPanel},
    ),
    ApiRoute(
        "GET",
        "/api/keys",
        keys.list_keys,
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
    # the console
    ApiRoute(
        "POST",
        "/api/session",
        session.sign_in,
        "Sign the console in with a one-time link's key or the token; sets the cookie.",
        body=machine.SignIn,
        answers={204: Empty()},
        team="person",
    ),
    ApiRoute(
        "GET",
        "/api/session",
        session.show,
        "The console's session and the server that it is signed in to.",
        answers={200: machine.ConsoleSession},
        team="person",
    ),
    ApiRoute(
        "DELETE",
        "/api/session",
        session.sign_out,
        "Sign the console out.",
        answers={204: Empty()},
        team="person",
    ),
)
