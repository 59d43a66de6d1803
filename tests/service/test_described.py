"""Every answer is one that the published description knows, whatever is asked; and nothing that is sent is a 5xx."""

import copy
import json

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.checks import CHECKS

pytestmark = pytest.mark.slow

NAMES = ("not_a_server_error", "status_code_conformance", "content_type_conformance", "response_schema_conformance")
KNOWN = {"project": "described", "run": "run-000001", "comparison": "compare-1", "path": "a.pb"}


@pytest.fixture(scope="module")
def described(shared, documents):
    """A project with a run, a file and a comparison."""
    with shared.client() as http:
        if http.post("/api/v1/projects", json={"project": "described"}).status_code == 201:
            http.post("/api/v1/projects/described/runs", json=documents.run(1)).raise_for_status()
            http.post("/api/v1/projects/described/comparisons", json=documents.comparison()).raise_for_status()
    return shared


def test_every_answer_is_described(described):
    """Requests made from the description, half of them about what is really there."""
    schema = schemathesis.openapi.from_url(f"{described.url}/api/v1/openapi.json")
    checks = CHECKS.get_by_names(NAMES)
    headers = {"Authorization": f"Bearer {described.admin}"}
    operations = [found.ok() for found in schema.get_all_operations()]
    assert len(operations) > 30
    for operation in operations:

        @settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
        @given(case=operation.as_strategy(), known=st.booleans())
        def ask(case, known):
            if known:
                case.path_parameters.update({name: KNOWN[name] for name in KNOWN if name in case.path_parameters})
            case.call_and_validate(headers=headers, checks=checks, timeout=30)

        ask()


SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20),
    st.sampled_from(["\x00", "\ud800", "<script>", "' OR 1=1 --", 10**400, -0.0, "../x", "2026-01-01"]),
)  # fmt: skip
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=5,
)


def places(data, path=()):
    """Yield the path of everything in JSON data."""
    yield path
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in items:
        yield from places(value, (*path, key))


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(data=st.data())
def test_a_record_with_anything_in_any_place_is_taken_or_refused(described, documents, data):
    """One place of a good record is replaced by anything that JSON and less careful writers can hold."""
    kind = data.draw(st.sampled_from(["runs", "comparisons"]))
    document = documents.run(data.draw(st.integers(2, 10**6))) if kind == "runs" else documents.comparison("other")
    changed = copy.deepcopy(document)
    *way, last = data.draw(st.sampled_from([path for path in places(document) if path]))
    part = changed
    for step in way:
        part = part[step]
    part[last] = data.draw(VALUES)
    answer = httpx.post(
        f"{described.url}/api/v1/projects/described/{kind}", content=json.dumps(changed), timeout=30,
        headers={"Authorization": f"Bearer {described.admin}"},
    )  # fmt: skip
    assert answer.status_code in {200, 201, 409, 413, 422}, answer.text
    if answer.status_code > 201:
        assert set(answer.json()) == {"error", "advice"}
