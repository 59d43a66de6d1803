"""Fills a service through its API: a history with a step in it, a comparison, alerts, and hostile names."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from sqlalchemy import insert, select

from qwenperf.schema.codec import dumps
from qwenperf.schema.records import metric
from qwenperf.service.db.tables import alerts, projects, runs, series

HOSTILE = "<script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">'\"&"
RUNS, STEP_AT = 40, 25
METRIC = "decode_tokens_per_s"


def make_project(service, name, **more):
    """Make a project."""
    answer = service.ask("POST", "/api/v1/projects", service.admin, json={"project": name} | more)
    assert answer.status_code == 201, answer.text


def push(service, project, record, kind="runs"):
    """Send a record and return its name."""
    answer = service.ask("POST", f"/api/v1/projects/{project}/{kind}", service.admin, content=dumps(record))
    assert answer.status_code == 201, answer.text
    return answer.json()["records"][0]["id"]


def measured(samples, number, *, started, name="run", case=None, environment=None, branch="main"):
    """Return run ``number`` of a history: steady, then a tenth slower."""
    when = started + timedelta(hours=6 * number)
    speed = (800.0 if number < STEP_AT else 720.0) + 4 * ((number * 7) % 5 - 2)
    numbers = {
        METRIC: metric(METRIC, speed, samples=(speed - 3, speed, speed + 3), interval=(speed - 6, speed + 6)),
        "tpot_s": metric("tpot_s", 1 / speed, interval=(0.99 / speed, 1.01 / speed)),
        "mbu": metric("mbu", 0.4 * speed / 800),
        "compiles_steady": metric("compiles_steady", 0),
    }
    one = case or samples.case()
    return replace(
        samples.run(replace(one, metrics=numbers)),
        id=f"{name}-{number:03d}",
        created_at=when.isoformat().replace("+00:00", "Z"),
        commit={"sha": f"{number:02x}" + "c" * 38, "branch": branch},
        environment=samples.ENVIRONMENT | (environment or {}),
    )


def fill(service, samples, project="demo"):
    """Send a history to a new public project, with a change that is found in it, and two comparisons."""
    make_project(service, project, public=True, title="Demo of decoding", repository="owner/name", owner="Ada")
    started = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=6 * RUNS)
    for number in range(RUNS):
        push(service, project, measured(samples, number, started=started))
    old = samples.case(samples.OTHER, trace=False)
    push(service, project, measured(samples, 0, started=started - timedelta(days=20), name="old", case=old))
    push(service, project, measured(samples, 3, started=started, name="other", environment={"cpu_model": "Other"}))
    push(service, project, samples.comparison(), "comparisons")
    service.service.database.write(lambda connection: _alert(connection, project))


def _alert(connection, project):
    number = connection.execute(select(projects.c.id).where(projects.c.name == project)).scalar_one()
    for name, state, summary in ((METRIC, "confirmed", "10% slower than before"), ("tpot_s", "open", "may be slower")):
        row = connection.execute(select(series).where(series.c.metric == name, series.c.project_id == number)).first()
        run = connection.execute(
            select(runs).where(runs.c.project_id == number, runs.c.name == f"run-{STEP_AT:03d}")
        ).one()
        values = {
            "project_id": number, "series_id": row.id, "run_id": run.id, "kind": "change", "state": state,
            "family": "one cause", "owner": "Ada", "at": run.at, "before": 800.0, "after": 720.0, "ratio": 0.9,
            "summary": summary, "created_at": run.at, "updated_at": run.at,
        }  # fmt: skip
        connection.execute(insert(alerts).values(values))


def fill_hostile(service, samples):
    """Send a project in which every text that somebody can choose is a page's worst."""
    make_project(service, "hostile", public=True, title=HOSTILE, owner=HOSTILE, repository=HOSTILE)
    started = datetime.now(UTC) - timedelta(days=1)
    name = f"{HOSTILE}/{HOSTILE}/{HOSTILE}"
    record = measured(samples, 1, started=started, name="hostile", case=samples.case(name), branch=HOSTILE)
    bad = replace(samples.broken(HOSTILE), error=HOSTILE)
    record = replace(record, suite=HOSTILE, cases=(*record.cases, bad), environment={HOSTILE: HOSTILE, "jax": HOSTILE})
    push(service, "hostile", record)
    compared = samples.comparison(samples.compared(name))
    sides = {side: replace(getattr(compared, side), label=HOSTILE) for side in ("base", "head")}
    push(service, "hostile", replace(compared, id="hostile", **sides), "comparisons")
    service.token("read", "hostile")
    service.service.database.write(_hostile_rows)


def _hostile_rows(connection):
    number = connection.execute(select(projects.c.id).where(projects.c.name == "hostile")).scalar_one()
    row = connection.execute(select(series).where(series.c.project_id == number)).first()
    run = connection.execute(select(runs).where(runs.c.project_id == number)).first()
    values = {
        "project_id": number, "series_id": row.id, "run_id": run.id, "kind": "change", "state": "open",
        "family": HOSTILE, "owner": HOSTILE, "at": run.at, "summary": HOSTILE, "created_at": run.at,
        "updated_at": run.at,
    }  # fmt: skip
    connection.execute(insert(alerts).values(values))
