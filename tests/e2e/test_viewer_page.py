"""XProf in a real browser, opened from a run's page: it draws the trace, and gets at nothing of the service."""

import hashlib
import importlib.util
from pathlib import Path

import pytest

pytest.importorskip("starlette")

from qwenperf.service.settings import ServiceSettings
from qwenperf.service.viewers.viewers import installed

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not installed(), reason="XProf is not installed")]


def beside(folder, name):
    """Load a module of other tests."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).parents[1] / folder / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


running, documents, xspaces = beside("service", "running"), beside("service", "documents"), beside("traces", "xspaces")


@pytest.fixture
def service(tmp_path):
    """A service with a private project, and a run with a trace."""
    steps = [(number * 100, 90) for number in range(5)]
    data = xspaces.space(xspaces.cpu(steps, [("dot.1", number * 100 + 10, 40) for number in range(5)]))
    settings = ServiceSettings(data=tmp_path, judge=False, sweep_s=0, anonymous_burst=100_000)
    with running.serving(settings) as found:
        found.ask("POST", "/api/v1/projects", found.admin, json={"project": "demo"})
        found.ask("POST", "/api/v1/projects/demo/runs", found.admin, json=documents.run(1))
        told = {"path": "plugins/profile/session/host.xplane.pb", "size": len(data)}
        told["sha256"] = hashlib.sha256(data).hexdigest()
        place = "/api/v1/projects/demo/runs/run-000001/files"
        upload = found.ask("POST", place, found.admin, json=told).json()["upload"]
        place, headers = f"/api/v1/projects/demo/uploads/{upload}", {"Upload-Offset": "0"}
        assert found.ask("PATCH", place, found.admin, content=data, headers=headers).json()["complete"]
        yield found


ASKED_FROM_THERE = """async () => {
  const asked = {};
  for (const path of ["/admin", "/p/demo", "/api/v1/projects/demo/runs"]) {
    try { asked[path] = (await (await fetch(path, {credentials: "include"})).text()).length; }
    catch (error) { asked[path] = error.name; }
  }
  return asked;
}"""


def test_xprof_draws_the_trace_and_gets_at_nothing_of_the_service(service, look):
    """Its own pages and data come; no cookie goes with a request, and no answer of the service can be read."""
    with look(f"{service.url}/login?next=/p/demo/runs/run-000001") as seen:
        page = seen.page
        page.get_by_label("Token").fill(service.admin)
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("button", name="Open the traces in XProf").click(timeout=120_000)
        page.wait_for_url("**/xprof/**", timeout=120_000)
        asked = []
        page.on("request", lambda request: asked.append(request))  # noqa: PLW0108  (Playwright marks what it calls)
        page.get_by_text("Sessions").wait_for(timeout=60_000)
        with page.expect_response(lambda answer: "/data?" in answer.url, timeout=60_000) as answered:
            page.goto(f"{page.url.partition('?')[0]}?run=session&tag=trace_viewer@&host=host")
        assert answered.value.status == 200
        # XProf's own frame, in which it draws the trace.
        page.frame_locator("iframe").get_by_text("tf_XLAEigen").first.wait_for(timeout=60_000)
        assert set(page.evaluate(ASKED_FROM_THERE).values()) == {"TypeError"}
        assert page.evaluate("document.cookie") == ""
        # The page itself is asked for by its address, as any link is; all else comes without.
        theirs = [one for one in asked if not (one.is_navigation_request() and one.frame == page.main_frame)]
        assert len(theirs) > 5
        assert [one.url for one in theirs if "cookie" in one.all_headers()] == []
