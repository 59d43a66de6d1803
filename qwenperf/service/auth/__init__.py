"""Who may do what: tokens, GitHub's identities of jobs, sessions of people, rate limits, headers and the audit log."""

from __future__ import annotations

from qwenperf.service.auth.access import admitted, require
from qwenperf.service.auth.audit_log import audit
from qwenperf.service.auth.credentials import identify, is_identified, still_good
from qwenperf.service.auth.first import first_token, new_admin_token
from qwenperf.service.auth.identity import Identity
from qwenperf.service.auth.middleware import middleware
from qwenperf.service.auth.routes import routes
from qwenperf.service.auth.storage import sweep

__all__ = [
    "Identity", "admitted", "audit", "first_token", "identify", "is_identified", "middleware", "new_admin_token",
    "require", "routes", "still_good", "sweep",
]  # fmt: skip
