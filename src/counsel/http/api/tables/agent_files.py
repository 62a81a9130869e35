"""Routes for the agents' MCP servers and skills."""

from __future__ import annotations

from counsel.http.api import servers, skills
from counsel.http.api.documents import servers as server
from counsel.http.api.endpoint import PROJECT, ApiRoute, names, switch, text

AGENT = names("agent", "Only these agents; several times, or separated by commas.")
SCOPE = names("scope", "Only these scopes; several times, or separated by commas.")
SERVERS = (
    names("agents", "Only these agents, separated by commas."),
    text("scope", "Only this scope."),
    PROJECT,
)
DRY_RUN = switch("dry_run", "Write nothing; show the differences.")

ROWS: tuple[ApiRoute, ...] = (
    # MCP servers
    ApiRoute(
        "GET",
        "/api/servers",
        servers.list_servers,
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
        "/api/servers:change",
        servers.change,
        "Change, remove, rename, copy, enable or disable a server whose name cannot be part of a path (`..`, an empty one).",
        body=server.ChangeServer,
        answers={200: server.ServerChange},
    ),
    ApiRoute(
        "POST",
        "/api/servers:check",
        servers.check_servers,
        "Connect to servers and list their tools.",
        body=server.CheckServers,
        answers={200: server.ServerChecks},
    ),
    ApiRoute(
        "POST",
        "/api/servers:reveal",
        servers.reveal,
        "One value of a server, unmasked; all other responses mask secrets.",
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
        servers.show,
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
        query=(text("q", "Only skills that contain all these words."), AGENT, SCOPE, PROJECT),
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
        "Links and copies that sharing created and that can be undone.",
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
        "Remove what sharing a skill created.",
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
)
