"""Names → models and endpoints, for one caller with that caller's keys and addresses.

A name is one of the user's aliases (config.toml's `[aliases]`), a model's id or alias, FAMILY-latest, or
`provider/model` for any id that the provider has, listed or not. Any other name is refused, with the nearest names as a
hint: counsel never guesses which vendor to send to. The agents' names (`claude`, `codex` …) are not models: the engine
calls `agent_named` first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from counsel.agents.definitions import ASKABLE
from counsel.errors import AgentUnavailable, ModelNotFound, ProviderUnavailable
from counsel.lazy_dataclass import dataclass
from counsel.models import catalog_rows
from counsel.models.catalog_rows import Rows, UserAlias, fold
from counsel.models.connections import proxies
from counsel.records import Record
from counsel.settings import Settings
from counsel.settings.values import env_name
from counsel.text import did_you_mean
from counsel.types import Endpoint, Model, Provider

if TYPE_CHECKING:
    from counsel.models.team import TeamCatalog


@dataclass(frozen=True, slots=True)
class Target:
    """A model and the endpoint at which this caller reaches it."""

    model: Model
    endpoint: Endpoint

    def searching(self) -> Target:
        """The target for a web search: some providers search on another wire."""
        wire = self.endpoint.provider.options.get("web_search_wire")
        if not wire or not self.model.web_search:
            return self
        style = "reasoning" if self.model.effort_style == "reasoning_effort" else self.model.effort_style
        provider = replace(self.endpoint.provider, wire=wire)
        return Target(replace(self.model, effort_style=style), replace(self.endpoint, provider=provider))


class ModelRow(Record):
    """A model in `counsel models`."""

    model: Model
    available: bool
    reason: str  # why not, and what to do; empty when available
    names: tuple[str, ...] = ()  # its aliases: the user's first, then the catalog's, then FAMILY-latest
    superseded_by: str = ""


class ProviderRow(Record):
    """A provider in `counsel doctor`. Does not hold the key."""

    provider: Provider
    available: bool
    reason: str
    base_url: str
    base_url_source: str
    key_source: str  # the variable and where it is set; empty: no key is set
    key_well_formed: bool
    team: str = ""  # the team's server, which is asked instead


def agent_named(name: str) -> str | None:
    """The agent that a model name means: `codex`, or `codex/anything`."""
    head = name.strip().lower().partition("/")[0]
    return head if head in ASKABLE else None


class Catalog:
    def __init__(self, rows: Rows, settings: Settings) -> None:
        self._settings = settings
        self._team: TeamCatalog | None = None
        if settings.team:
            from counsel.models import team  # few homes have joined one

            rows = team.with_offered(rows, settings.team)
            self._team = team.TeamCatalog(settings.team, settings)
        self._rows = rows
        self._endpoints = {name: _CallerEndpoint(rows, settings, name) for name in rows.providers}
        problems = [
            f"{endpoint.problem.rstrip('.')}; {endpoint.provider.label} is not available."
            for endpoint in self._endpoints.values()
            if endpoint.problem
        ]
        self.problems: tuple[str, ...] = (
            *rows.problems,
            *problems,
            *self._alias_problems(),
            *self._panel_problems(),
            *self._unknown_names(),
            *self._unknown_budgets(),
        )

    @classmethod
    def load(cls, settings: Settings) -> Catalog:
        return cls(catalog_rows.with_user_tables(settings.tables), settings)

    def lookup(self, name: str) -> Model:
        """The model with this name, available or not."""
        self._refuse_agent(name)
        if alias := self._rows.aliases.get(fold(name)):
            return self._of_alias(alias)
        return self._model_named(name) or self._not_found(name)

    def _model_named(self, name: str) -> Model | None:
        identity = self._rows.names.get(fold(name))
        if identity is None and fold(name).endswith("-latest"):
            identity = self._rows.families().latest.get(fold(name))
        return self._rows.models[identity] if identity else self._of_provider(name)

    def resolve(self, name: str) -> Target:
        """The model with this name, and the caller's endpoint for it."""
        return self.target(self.lookup(name))

    def target(self, model: Model) -> Target:
        provider = self._endpoints[model.provider].provider
        if self._team and self._team.takes(provider):
            if reason := self._team.reason(model, provider):
                raise ProviderUnavailable(
                    f"{model.id} is not available.", hint=reason, provider=model.provider, model=model.id
                )
            return Target(model, replace(self._team.endpoint(provider), model_name=self._team.name_of(model)))
        return Target(model, self.endpoint(model.provider))

    def own_target(self, model: Model) -> Target | None:
        """The model with this machine's own key, for a member of a team who is offline; None without a key."""
        endpoint = self._endpoints[model.provider]
        if endpoint.reason or endpoint.provider.wire == "counsel":
            return None
        return Target(model, endpoint.own())

    def endpoint(self, provider: str) -> Endpoint:
        """The caller's own endpoint, even for a member of a team. `target` has the endpoint that is asked."""
        endpoint = self._endpoints[provider]
        if endpoint.reason:
            label = endpoint.provider.label
            raise ProviderUnavailable(f"{label} is not available.", hint=endpoint.reason, provider=provider)
        return endpoint.own()

    def successor(self, model: Model) -> Target | None:
        """The model to ask when the vendor has retired this one."""
        name = model.options.get("successor")
        if not name:
            return None
        return self.resolve(name if fold(name) in self._rows.names else f"{model.provider}/{name}")

    def models(self, provider: str | None = None) -> list[ModelRow]:
        return [self.row(model) for model in self._rows.models.values() if provider in {None, model.provider}]

    def free_models(self) -> Iterator[Model]:
        """Listed models that cost nothing and whose server is set up: those of Ollama or LM Studio on this machine."""
        rows = self._rows.models.values()
        return (
            model for model in rows if model.input_price == 0 == model.output_price and not self.reason(model)
        )

    def counts(self) -> tuple[int, int]:
        """How many models are listed, and how many of them are available. (`models` takes 6 ms.)"""
        models = self._rows.models.values()
        return len(models), sum(not self.reason(model) for model in models)

    def unlisted_by_alias(self) -> list[ModelRow]:
        """Models that the user's aliases name and the catalog does not list."""
        models = {}
        for alias in self.aliases:
            with suppress(ModelNotFound):
                model = self._of_alias(alias)
                if not model.listed:
                    models[model.id] = model
        return [self.row(model) for model in models.values()]

    def row(self, model: Model) -> ModelRow:
        reason = self.reason(model)
        superseded_by = self._rows.families().superseded.get(model.id, "")
        return ModelRow(model, not reason, reason, self._names_of(model), superseded_by)

    def _names_of(self, model: Model) -> tuple[str, ...]:
        user_aliases = [alias.name for alias in self.aliases if self._target_id(alias) == model.id]
        catalog_aliases = [alias for alias in model.aliases if fold(alias) not in self._rows.aliases]
        latest_names = [
            name
            for name, identity in self._rows.families().latest.items()
            if identity == model.id and name not in self._rows.names and name not in self._rows.aliases
        ]
        return (*user_aliases, *catalog_aliases, *latest_names)

    def reason(self, model: Model) -> str:
        """Why this model is not available; empty if it is."""
        endpoint = self._endpoints[model.provider]
        if self._team and self._team.takes(endpoint.provider):
            return self._team.reason(model, endpoint.provider)
        return endpoint.reason

    def providers(self) -> list[ProviderRow]:
        return [self._provider_row(endpoint) for endpoint in self._endpoints.values()]

    def _provider_row(self, endpoint: _CallerEndpoint) -> ProviderRow:
        row = endpoint.row()
        if self._team and self._team.takes(endpoint.provider):
            reason = self._team.provider_reason(endpoint.provider)
            return row.replaced(available=not reason, reason=reason, team=self._team.login.url)
        return row

    @property
    def team(self) -> str:
        """The host of the team's server; "" without a team."""
        return self._team.login.host if self._team else ""

    @property
    def aliases(self) -> list[UserAlias]:
        """The user's aliases, in the order of config.toml."""
        return list(self._rows.aliases.values())

    def is_alias(self, name: str) -> bool:
        """Whether the user has defined this name."""
        return fold(name) in self._rows.aliases

    def _target_id(self, alias: UserAlias) -> str:
        try:
            return self._of_alias(alias).id
        except ModelNotFound:
            return ""

    def _of_alias(self, alias: UserAlias) -> Model:
        """The model of a user's alias, which may name another alias. Raises `ModelNotFound`."""
        chain = [alias]
        while next_alias := self._rows.aliases.get(fold(chain[-1].target)):
            if next_alias in chain:
                names = " → ".join(entry.name for entry in (*chain, next_alias))
                raise self._bad_alias(alias, f"leads back to itself ({names})")
            chain.append(next_alias)
        last = chain[-1]
        if last.problem:
            raise self._bad_alias(alias, f"cannot be used: {last.problem}")
        if agent := agent_named(last.target):
            raise self._bad_alias(alias, f"names {ASKABLE[agent].label}, which is an agent")
        if model := self._model_named(last.target):
            return model
        nearest = self.nearest(last.target)
        raise self._bad_alias(alias, f"names {last.target[:100]!r}, which is not a model", nearest)

    def _bad_alias(self, alias: UserAlias, problem: str, nearest: Sequence[str] = ()) -> ModelNotFound:
        suggestion = f"{did_you_mean(nearest)} " if nearest else ""
        file = self._settings.home / "config.toml"
        return ModelNotFound(
            f"The alias {alias.name!r} {problem}.",
            hint=f"{suggestion}Correct it below [aliases] in {file}; `counsel models` lists the names.",
            nearest=list(nearest),
        )

    def _alias_problems(self) -> Iterator[str]:
        for alias in self.aliases:
            try:
                if not alias.problem:  # `Rows.problems` has those
                    self._of_alias(alias)
            except ModelNotFound as error:
                yield f"config.toml [aliases]: {error.message[0].lower()}{error.message[1:]}"

    def _panel_problems(self) -> Iterator[str]:
        if tables := self._settings.tables.get("panels"):
            from counsel.models import panels  # few homes have some

            yield from panels.problems(tables)

    def _panel_models(self) -> Iterator[tuple[str, str]]:
        """The models of the user's panels: where each is named, and its name."""
        if not self._settings.tables.get("panels"):
            return
        from counsel.models import panels

        for panel, entries in panels.usable(self._settings).items():
            for entry in entries:
                yield f"config.toml [panels] {panel}", panels.name_of(entry)

    def _unknown_names(self) -> Iterator[str]:
        """Settings that name a model that does not exist: every question without a model would fail."""
        settings = self._settings
        references = [("default_model", name.strip()) for name in settings.default_model.split(",")]
        references += [("consensus_models", name) for name in settings.consensus_models]
        references += self._panel_models()
        for setting, name in references:
            if name.startswith("@"):
                if name[1:] not in settings.tables.get("panels", {}):
                    yield f"{setting}: there is no panel {name}."
                continue
            if name.strip().lower() in {"", "auto"} or agent_named(name.partition(":")[0]):
                continue
            try:
                self.lookup(name)
            except ModelNotFound as error:
                nearest = " or ".join(self.nearest(name))
                yield f"{setting}: {error.message[0].lower()}{error.message[1:]}" + (
                    f" Did you mean {nearest}?" if nearest else ""
                )

    def _unknown_budgets(self) -> Iterator[str]:
        """Budgets of providers that do not exist: they limit nothing."""
        provider_names = {env_name(name) for name in self._rows.providers}
        for budget in self._settings.provider_budgets:
            if env_name(budget.provider) not in provider_names:
                yield f"{budget.source}: there is no provider {budget.provider!r}."

    def has_provider(self, name: str) -> bool:
        return name.strip().lower() in self._rows.providers

    def unlisted(self, provider: str, identity: str, **facts: object) -> Model:
        """A model that the catalog does not list, with its provider's defaults."""
        model = Model(id=f"{provider}/{identity}", provider=provider, wire_id=identity, listed=False)
        return replace(model, **{**self._rows.default_fields(provider), **facts})

    def discovered(self, provider: str, identity: str, **facts: object) -> Model:
        """A model that its provider's server lists."""
        return self._listed_at(provider, identity) or self.unlisted(provider, identity, **facts)

    def _refuse_agent(self, name: str) -> None:
        if agent := agent_named(name):
            label = ASKABLE[agent].label
            raise AgentUnavailable(
                f"{label} is an agent, and agents cannot be asked here.",
                hint="Name a model instead; `counsel models` lists them.",
                agent=agent,
            )

    def _of_provider(self, name: str) -> Model | None:
        head, slash, identity = name.strip().partition("/")
        provider, identity = head.strip().lower(), identity.strip()
        if not slash or not identity or provider not in self._rows.providers:
            return None
        if (model := self._listed_at(provider, identity)) is not None:
            return model
        return self.unlisted(provider, identity) if self._rows.providers[provider].open_models else None

    def _listed_at(self, provider: str, identity: str) -> Model | None:
        """A row of this provider, by id, alias or wire id."""
        model = self._rows.models.get(self._rows.names.get(fold(identity), ""))
        if model is not None and model.provider == provider:
            return model
        rows = self._rows.models.values()
        return next((row for row in rows if (row.provider, row.wire_id) == (provider, identity)), None)

    def _not_found(self, name: str) -> Model:
        if name.strip().startswith("@"):
            raise ModelNotFound(
                f"{name.strip()[:100]} is a panel, and one model is needed here.",
                hint="A consensus and a review can ask a panel: `counsel consensus -m @NAME`.",
                nearest=[],
            )
        nearest = self.nearest(name)
        suggestion = f"{did_you_mean(nearest)} " if nearest else ""
        head, slash, _ = name.strip().partition("/")
        advice = "Write PROVIDER/MODEL for one that is not listed."
        if slash and not self.has_provider(head):
            providers = ", ".join(self._rows.providers)
            advice = f"Unknown provider {head[:40]!r} (known: {providers}); config.toml can add one."
        raise ModelNotFound(
            f"Model not found: {name.strip()[:100]!r}.",
            hint=f"{suggestion}`counsel models` lists them. {advice}",
            nearest=nearest,
        )

    def nearest(self, name: str, count: int = 3) -> list[str]:
        """Similar names, best first."""
        import difflib  # only a mistyped name needs it

        names = {fold(candidate): candidate for candidate in self.names()}
        query = fold(name)
        close = difflib.get_close_matches(query, names, n=count, cutoff=0.6)
        containing = [
            candidate
            for candidate in names
            if len(query) > 2 and query in candidate and candidate not in close
        ]
        return [names[candidate] for candidate in [*close, *containing][:count]]

    def names(self) -> Iterator[str]:
        """Every name of a listed model."""
        for model in self._rows.models.values():
            yield model.id
            yield from model.aliases
        yield from self._rows.families().latest
        yield from (alias.name for alias in self.aliases)


class _CallerEndpoint:
    """One provider for one caller: the address, the key, and why it is not available."""

    def __init__(self, rows: Rows, settings: Settings, name: str) -> None:
        self.provider = rows.providers[name]
        self.problem = ""
        self.base_url, self.base_url_source = self._address(settings)
        self.key, self.key_source = self._key(settings, rows.keys.get(name))
        self.network = proxies.network(settings.env, self.base_url)
        self.reason = self._reason()

    def _address(self, settings: Settings) -> tuple[str, str]:
        row, variable = self.provider, self.provider.base_url_env
        value = settings.env.get(variable, "").strip() if variable else ""
        if not value:
            return row.base_url, "default"
        try:
            return _with_path(catalog_rows.address(value), row.base_url), settings.source(variable)
        except ValueError as error:
            self.problem = f"{variable} {error}."
            return "", settings.source(variable)

    def _key(self, settings: Settings, from_config: str | None) -> tuple[str | None, str]:
        for variable in self.provider.key_envs:
            if value := settings.env.get(variable, "").strip():
                return value, f"{variable} ({settings.source(variable)})"
        return (from_config, str(settings.home / "config.toml")) if from_config else (None, "")

    def _reason(self) -> str:
        row = self.provider
        if self.problem:
            return self.problem
        if not self.base_url:
            return f"{row.base_url_env} is not set. `counsel demo --keep` starts the model and prints the variable."
        if row.key_required and not self.key:
            key_page = f" (keys: {row.key_url})" if row.key_url else ""
            alternative = f", or run `counsel keys set {row.name}`" if row.key_envs else ""
            return f"Set {' or '.join(row.key_envs) or 'api_key in its config.toml table'}{alternative}{key_page}."
        return ""

    def own(self) -> Endpoint:
        return Endpoint(self.provider, self.base_url, self.key, self.network)

    def row(self) -> ProviderRow:
        pattern = self.provider.key_pattern
        well_formed = not self.key or not pattern or bool(re.search(pattern, self.key))
        return ProviderRow(
            self.provider,
            not self.reason,
            self.reason,
            self.base_url,
            self.base_url_source,
            self.key_source,
            well_formed,
        )


def _with_path(address: str, default: str) -> str:
    """An address without a path gets the default's path, so that `http://host:1` and `http://host:1/v1` both work."""
    return address if urlsplit(address).path else address + urlsplit(default).path
