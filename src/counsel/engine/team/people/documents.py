"""People, tokens and the audit log as JSON, for both the API and `counsel people --json`."""

from __future__ import annotations

from counsel.engine import results
from counsel.engine.store.audit import AuditRecord
from counsel.engine.store.people import PersonRecord, PersonUsage, TokenRecord
from counsel.engine.team.people.directory import NewToken
from counsel.types import Json


def person(record: PersonRecord) -> Json:
    return {
        "id": record.person.id,
        "name": record.person.name,
        "role": record.person.role,
        "groups": list(record.person.groups),
        "created_at": results.iso(record.created),
        "disabled_at": _moment(record.disabled),
        "tokens": [token(row) for row in record.tokens],
    }


def token(record: TokenRecord) -> Json:
    return {
        "id": record.id,
        "label": record.label,
        "created_at": results.iso(record.created),
        "expires_at": _moment(record.expires),
        "used_at": _moment(record.used),
    }


def new_token(new: NewToken) -> Json:
    """A new token with its secret, which no other document contains."""
    return {
        "id": new.person.id,
        "name": new.person.name,
        "role": new.person.role,
        "groups": list(new.person.groups),
        "token_id": new.token.id,
        "expires_at": _moment(new.token.expires),
        "token": new.secret,
    }


def audited(record: AuditRecord) -> Json:
    return {
        "at": results.iso(record.at),
        "person": record.person,
        "name": record.name,
        "token": record.token,
        "address": record.address,
        "action": record.action,
        "object": record.object,
        "detail": record.detail,
    }


def used(row: PersonUsage) -> Json:
    return {
        "person": row.person,
        "name": row.name,
        "calls": row.calls,
        "failed": row.failed,
        "input_tokens": row.input,
        "output_tokens": row.output,
        "cost_usd": round(row.cost, 6),
        "cost_complete": not row.unpriced,
        "last_at": results.iso(row.last),
    }


def _moment(at: float | None) -> str | None:
    return None if at is None else results.iso(at)
