"""How often one may ask, whose address is believed, and what an operator's settings change about cookies."""

import importlib.util
from dataclasses import replace
from pathlib import Path

import httpx

from qwenperf.service.settings import ServiceSettings


def beside(name):
    """Load a module that lies beside the tests."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


running = beside("running")
Clock, serving = running.Clock, running.serving


def test_too_many_requests_are_turned_away_with_the_time_to_wait(tmp_path):
    settings = ServiceSettings(data=tmp_path, anonymous_per_s=0.01, anonymous_burst=3, rate_burst=1000, sweep_s=0)
    with serving(settings, Clock()) as found:
        answers = [found.ask("GET", "/api/v1/projects") for _ in range(5)]
        assert [one.status_code for one in answers] == [200, 200, 200, 429, 429]
        assert int(answers[-1].headers["Retry-After"]) >= 1
        assert "Content-Security-Policy" in answers[-1].headers
        # Another caller, and probes, are served.
        assert found.ask("GET", "/api/v1/projects", found.admin).status_code == 200
        assert found.ask("GET", "/healthz").status_code == 200


def test_invented_cookies_are_no_way_around_the_limit(tmp_path):
    """Only a credential that was found good has a rate of its own."""
    settings = ServiceSettings(data=tmp_path, anonymous_per_s=0.01, anonymous_burst=3, rate_burst=1000, sweep_s=0)
    with serving(settings, Clock()) as found:
        answers = []
        for number in range(5):
            with httpx.Client(
                base_url=found.url, verify=False, cookies={"qwenperf_session": f"invented{number}"}
            ) as stranger:
                answers.append(stranger.get("/api/v1/projects").status_code)
        assert answers == [200, 200, 200, 429, 429]
    with serving(replace(settings, data=tmp_path / "other"), Clock()) as found:
        assert {found.ask("GET", "/api/v1/projects", found.admin).status_code for _ in range(8)} == {200}


def test_whoever_tries_tokens_is_turned_away_and_those_with_good_ones_are_not(tmp_path):
    with serving(ServiceSettings(data=tmp_path, sweep_s=0), Clock()) as found:
        tried = [
            found.ask("GET", "/api/v1/whoami", f"qpf_{number:012x}_{'x' * 43}").status_code for number in range(40)
        ]
        assert tried[0] == 401
        assert tried[-1] == 429
        assert found.ask("GET", "/api/v1/whoami", found.admin).status_code == 200


def test_a_forwarded_address_is_believed_only_where_the_operator_says_so(tmp_path):
    for trusted in (False, True):
        settings = ServiceSettings(
            data=tmp_path / str(trusted), anonymous_burst=1, anonymous_per_s=0.01, trust_forwarded=trusted, sweep_s=0
        )
        with serving(settings, Clock()) as found:
            asked = [
                found.ask("GET", "/", headers={"X-Forwarded-For": f"1.1.1.1, 10.0.0.{number}"}).status_code
                for number in range(3)
            ]
            assert (429 in asked) is not trusted


def test_over_https_cookies_are_for_https_and_browsers_are_told_to_stay(tmp_path):
    settings = ServiceSettings(data=tmp_path, public_url="https://perf.example.org", sweep_s=0)
    with serving(settings, Clock()) as found:
        answer = found.ask("GET", "/login")
        assert answer.headers["Set-Cookie"].startswith("__Host-")
        assert "Secure" in answer.headers["Set-Cookie"]
        assert "max-age" in answer.headers["Strict-Transport-Security"]


def test_the_service_listens_to_this_machine_only_by_default(tmp_path):
    assert ServiceSettings(data=tmp_path).host == "127.0.0.1"
