"""Pages for people, rendered here and readable without JavaScript. They show; rules are elsewhere."""

from __future__ import annotations

from qwenperf.service.web.routes import problem_page, routes

__all__ = ["problem_page", "routes"]
