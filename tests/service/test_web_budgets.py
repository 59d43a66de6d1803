"""Budgets on a project's admin page: set and removed one at a time, with a reason that the audit log keeps."""

import html
import importlib.util
import json
import re
import tomllib
from pathlib import Path

import pytest

from qwenperf.service.db import projects
from qwenperf.service.writing_toml import lines


def beside(name):
    """Load a module that lies beside this one."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


browsing = beside("browsing")
service, browser, admin, checked = browsing.service, browsing.browser, browsing.admin, browsing.checked
PAGE, API = "/p/demo/admin", "/api/v1/projects/demo"
MARKUP = "<script>alert(1)</script>"
LIMITS = "compiles_steady = { max = 0 }\r\ndecode_tokens_per_s = { min = 900.5 }\r\n"
TABLE = {"compiles_steady": {"max": 0}, "decode_tokens_per_s": {"min": 900.5}}


@pytest.fixture(autouse=True)
def unset(service):
    """A project without budgets, whatever a test before left."""
    assert service.ask("PATCH", API, service.admin, json={"budgets": {}}).status_code == 200


def kept(service):
    """Return the budgets of the project."""
    with service.service.database.read() as connection:
        found = projects.by_name(connection, "demo").budgets
    return json.loads(found) if found else {}


def told(service):
    """Return the audit log, the newest first."""
    return [
        (one["action"], one["subject"], one["detail"])
        for one in service.ask("GET", f"{API}/audit", service.admin).json()["audit"]
    ]


def put(admin, cases, limits, reason="as agreed", status=303):
    return admin.send(PAGE, f"{PAGE}/budgets", status, cases=cases, limits=limits, reason=reason)


def remove(admin, cases, environment="", reason="too strict"):
    form = {"cases": cases, "environment": environment, "reason": reason}
    return admin.send(PAGE, f"{PAGE}/budgets/remove", **form)


def test_a_budget_that_is_set_on_the_page_judges_runs_until_it_is_removed(service, admin):
    """It is listed as people write it, and who changed what and why is told."""
    documents = beside("documents")
    assert "There is none: runs are judged" in admin.get(PAGE)
    sent = put(admin, "tiny/*", LIMITS)
    assert sent.headers["location"] == f"{PAGE}#budgets"
    assert kept(service) == {"tiny/*": TABLE}
    page = html.unescape(checked(admin.get(PAGE)))
    assert "compiles_steady = { max = 0 }\ndecode_tokens_per_s = { min = 900.5 }" in page
    for number, outcome in ((1, "fail"), (2, "pass")):
        run = documents.run(number, compiles_steady=3)
        assert service.ask("POST", f"{API}/runs", service.admin, json=run).status_code == 201
        found = service.ask("GET", f"{API}/runs/{run['id']}/verdicts", service.admin).json()
        assert found["outcome"] == outcome
        remove(admin, "tiny/*")
    assert kept(service) == {}
    # What was gone already is told once.
    assert told(service)[:2] == [
        ("budget.remove", "tiny/*", {"reason": "too strict"}),
        ("budget.set", "tiny/*", {"reason": "as agreed", "limits": LIMITS.strip().replace("\r", "")}),
    ]


def test_a_budget_is_changed_where_it_stands_and_others_stay(service, admin):
    """Those of other cases, of other machines, and what the API has set meanwhile."""
    here, there = 'environment = "cpu-*"\n', 'environment = "gpu-*"\n'
    for limits in (here + LIMITS, there + LIMITS, LIMITS):
        put(admin, "tiny/*", limits)
    assert [one.get("environment") for one in kept(service)["tiny/*"]] == ["cpu-*", "gpu-*", None]
    service.ask("PATCH", API, service.admin, json={"budgets": kept(service) | {"big/*": TABLE}})
    page = checked(admin.get(f"{PAGE}?budget=2"))
    shown = re.search(r'<textarea id="budget-limits" name="limits"[^>]*>\n([^<]*)</textarea>', page)[1]
    assert tomllib.loads(html.unescape(shown)) == {"environment": "gpu-*"} | TABLE
    assert re.search(r'<input id="budget-cases" name="cases" value="tiny/\*"', page)
    put(admin, "tiny/*", there + "compiles_steady = { max = 1 }")
    assert kept(service)["tiny/*"][1] == {"environment": "gpu-*", "compiles_steady": {"max": 1}}
    for environment in ("cpu-*", ""):
        remove(admin, "tiny/*", environment)
    assert kept(service) == {"big/*": TABLE, "tiny/*": {"environment": "gpu-*", "compiles_steady": {"max": 1}}}
    assert told(service)[1][2] == {"environment": "cpu-*", "reason": "too strict"}


def test_a_budget_that_is_there_already_is_no_change(service, admin):
    """Sending a form twice tells nothing twice."""
    put(admin, "tiny/*", LIMITS)
    before = told(service)
    put(admin, "tiny/*", LIMITS)
    assert told(service) == before


REFUSED = [
    ("limits", {"limits": "compiles_steady = {"}, "no TOML"),
    ("limits", {"limits": "compile_steady = { max = 0 }"}, "compiles_steady"),
    ("limits", {"limits": "decode_tokens_per_s = { max = 1.0 }"}, "higher is better"),
    ("limits", {"limits": "decode_tokens_per_s = { min = nan }"}, "finite"),
    ("limits", {"limits": "compiles_steady = { max = 2026-01-01 }"}, "finite"),
    ("limits", {"limits": f"compiles_steady = {'[' * 2000}"}, "no TOML"),
    ("limits", {"limits": 'environment = "cpu-*"'}, "no limit"),
    ("limits", {"limits": ""}, "no limit"),
    ("limits", {"limits": f"# {'x' * 20_000}"}, "20000"),
    ("cases", {"cases": ""}, "cases"),
    ("cases", {"cases": "x" * 301}, "300"),
    ("reason", {"reason": " "}, "reason"),
]


@pytest.mark.parametrize(("wrong", "form", "says"), REFUSED)
def test_what_is_no_budget_is_refused_beside_its_field(service, admin, wrong, form, says):
    """With what was typed; and nothing is kept."""
    before = told(service)
    typed = {"cases": f"tiny/{MARKUP}", "limits": f"{LIMITS}# {MARKUP}", "reason": "because"} | form
    sent = admin.send(PAGE, f"{PAGE}/budgets", 422, **typed)
    page = checked(sent.text)
    (marked,) = re.findall(r"<(?:input|textarea) [^>]*aria-invalid[^>]*>", page)
    assert f'name="{wrong}"' in marked
    described = re.search(r'aria-describedby="([^ "]+)', marked)[1]
    (why,) = re.findall(rf'<p class="wrong" role="alert" id="{described}">([^<]*)</p>', page)
    assert says in html.unescape(why)
    for name, value in typed.items():
        shown = html.escape(value.strip(), quote=False).replace("\r", "")
        assert name == wrong or shown in page.replace("\r", "")
    assert (kept(service), told(service)) == ({}, before)


def test_a_removal_without_a_reason_is_refused(service, admin):
    """The budget stays."""
    put(admin, "tiny/*", LIMITS)
    admin.send(PAGE, f"{PAGE}/budgets/remove", 422, cases="tiny/*", environment="", reason="")
    assert kept(service) == {"tiny/*": TABLE}


def test_names_that_somebody_chose_are_shown_and_do_nothing(service, admin):
    """In the list, in its forms, and in the form that changes one."""
    limits = f'environment = "{MARKUP}"\n{LIMITS}'
    put(admin, f"{MARKUP}\"'", limits, reason=MARKUP)
    for page in (PAGE, f"{PAGE}?budget=0", f"{PAGE}?budget=99"):
        assert MARKUP not in checked(admin.get(page))
    remove(admin, f"{MARKUP}\"'", MARKUP)
    assert kept(service) == {}


@pytest.mark.parametrize("scope", ["read", "push"])
def test_who_does_not_manage_a_project_changes_none_of_its_budgets(service, browser, scope):
    """Nor does a form of another session, whoever is signed in; who manages the project alone may."""
    browser.sign_in(service.token(scope, "demo"))
    for place, form in (("", {"limits": LIMITS}), ("/remove", {"environment": ""})):
        browser.send("/", f"{PAGE}/budgets{place}", 403, cases="tiny/*", reason="x", **form)
    browser.sign_in(service.token("admin", "demo"))
    form = {"cases": "tiny/*", "limits": LIMITS, "reason": "x"}
    for forged in ({}, {"csrf": "0" * 64}):
        assert browser.client.post(f"{PAGE}/budgets", data=form | forged).status_code == 403
    assert kept(service) == {}
    put(browser, "tiny/*", LIMITS)
    assert kept(service) == {"tiny/*": TABLE}


@pytest.mark.parametrize(
    "table",
    [
        {"compiles_steady": {"max": 0}, "min_times": {"rung": "naive", "factor": 4.0}, "min_roofline_share": 1e-7},
        {"kernels": ["*flash*", 'quoted " and \\'], "fits": False, "temp_bytes": {"max": 2_000_000}},
        {"environment": "caf\u00e9 \U0001f600 \x7f \u2028 ' \"", "a key": {"x.y": {}}, "": 1e300},
    ],
)
def test_a_table_that_is_shown_is_read_again_as_it_was(table):
    """Whatever characters somebody chose."""
    assert tomllib.loads(lines(table)) == table
