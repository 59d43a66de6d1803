"""Forms on the budgets of a project."""

from __future__ import annotations

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import Response

from qwenperf.service import budgets
from qwenperf.service.auth.tokens import Scope
from qwenperf.service.context import service_of
from qwenperf.service.problems import FieldError
from qwenperf.service.web.admin import here, kept
from qwenperf.service.web.pages import back, field, line, opened

_MOST_CASES, _MOST_TEXT, _MOST_REASON = 300, 20_000, 500


@kept("budget", "cases", "limits", "reason")
def set_budget(request: Request, sent: FormData) -> Response:
    """Set the budget of some cases."""
    identity, project = opened(request, Scope.ADMIN)
    cases, text = line(sent, "cases", _MOST_CASES), field(sent, "limits")
    if len(text) > _MOST_TEXT:
        raise FieldError("limits", f"The limits have {len(text)} characters; {_MOST_TEXT} are taken.")
    reason = line(sent, "reason", _MOST_REASON)
    budgets.set_budget(service_of(request), identity, project, cases=cases, text=text, reason=reason)
    return back(here(project, "budgets"))


def remove_budget(request: Request, sent: FormData) -> Response:
    """Remove the budget of some cases."""
    identity, project = opened(request, Scope.ADMIN)
    # As they were set, by the API, too: with whatever spaces.
    cases, environment = (str(sent.get(name, "")) for name in ("cases", "environment"))
    reason = line(sent, "reason", _MOST_REASON)
    budgets.remove_budget(service_of(request), identity, project, cases=cases, environment=environment, reason=reason)
    return back(here(project, "budgets"))
