"""The webhook of a project, which hears of its alerts, and the log of what was sent to it. No answer has its secret."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Row
from starlette.requests import Request
from starlette.responses import Response

from qwenperf.service import outward
from qwenperf.service.api import shapes
from qwenperf.service.api.asked import field_of, object_of
from qwenperf.service.api.managed import for_admin, listing, putting, removing, showing
from qwenperf.service.context import Service
from qwenperf.service.db import notices
from qwenperf.service.notify_sending import shown
from qwenperf.service.times import iso

_FIELDS = ("url", "secret")


def _put(request: Request, data: bytes) -> Response:
    """Set the webhook of a project; the secret that was made for it is in this answer, and in no other."""
    service, identity, project = for_admin(request)
    document = object_of(data, _FIELDS)
    url, secret = field_of(document, "url", str), field_of(document, "secret", str, None)
    row, made = outward.set_webhook(service, identity, project, url=url, secret=secret)
    return shapes.answer(_told(service, project, row) | {"secret": made})


def _told(_service: Service, _project: Row[Any], row: Row[Any]) -> dict[str, Any]:
    """Return a webhook without the rest of its address, which may be a secret."""
    return {"address": shown(row.url), "created_at": iso(row.created_at), "created_by": row.created_by}


def _delivery(row: Row[Any]) -> dict[str, Any]:
    waits = row.state == notices.WAITING
    return {
        "delivery": row.name,
        "event": row.event,
        "state": row.state,
        "tries": row.tries,
        "problem": row.problem,
        "next_at": iso(row.next_at) if waits else None,
        "created_at": iso(row.created_at),
        "updated_at": iso(row.updated_at),
    }


show = showing(notices.webhook, _told, lacks="has no webhook", advice="PUT one with its url.")
put = putting(_put)
remove = removing(outward.remove_webhook)
deliveries = listing("deliveries", notices.recent, _delivery)
