"""What is in ``deploy/`` starts a service: the very arguments, variables, ports and paths, on this machine."""

import json
import os
import re
import shlex
import socket
import subprocess
import sys
import time
import tomllib
from dataclasses import dataclass, field, replace

import httpx
import pytest
import yaml

from qwenperf.cli.db import command as db
from qwenperf.cli.serve import command as serve

PASSWORD = "p-w"
GITHUB = ("QWENPERF_GITHUB_APP_ID", "QWENPERF_GITHUB_APP_KEY_FILE", "QWENPERF_GITHUB_TOKEN")
KEY = "QWENPERF_GITHUB_APP_KEY_FILE"


@dataclass(frozen=True, kw_only=True)
class Started:
    """A container as it is started: what behind ``qwenperf``, with which variables, ports and probed paths."""

    arguments: tuple[str, ...]
    variables: dict = field(default_factory=dict)
    ports: tuple[int, ...] = ()
    probes: tuple[str, ...] = ()
    mounts: tuple[str, ...] = ()


def dockerfile(folder):
    """Return the instructions of the image, by name, each as its text."""
    text = (folder / "Dockerfile").read_text().replace("\\\n", " ")
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, _, rest = line.partition(" ")
            found.setdefault(name, []).append(rest)
    return found


def of_image(folder):
    """Return what the image starts by itself."""
    said = dockerfile(folder)
    command = (*json.loads(said["ENTRYPOINT"][0]), *json.loads(said["CMD"][0]))
    assert command[0] == "qwenperf"
    return {"serve": Started(arguments=command[1:], ports=(int(said["EXPOSE"][0]),))}


def filled_in(text):
    """Return a text of compose.yaml with its variables: those that the reader sets, and the defaults of the rest."""
    return re.sub(r"\$\{(\w+)(?::([-?])([^}]*))?\}", lambda found: found[3] if found[2] == "-" else PASSWORD, text)


def of_compose(folder):
    """Return the containers of compose.yaml that run qwenperf."""
    document = yaml.safe_load((folder / "compose.yaml").read_text())
    found = {}
    for name, one in document["services"].items():
        if one.get("image") != "qwenperf-service":
            continue
        assert (folder / one["build"]["context"] / one["build"]["dockerfile"]).is_file()
        found["serve" if name == "service" else name] = Started(
            arguments=tuple(filled_in(str(word)) for word in one["command"]),
            variables={key: filled_in(value) for key, value in one["environment"].items()},
            ports=tuple(int(port.rpartition(":")[2]) for port in one.get("ports", ())),
            probes=tuple(re.findall(r"http://[^/]+(/\w+)", " ".join(one.get("healthcheck", {}).get("test", ())))),
            mounts=tuple(volume.partition(":")[2] for volume in one.get("volumes", ())),
        )
    return found


def of_kubernetes(folder):
    """Return the containers of the pods of kubernetes.yaml."""
    documents = list(yaml.safe_load_all((folder / "kubernetes.yaml").read_text()))
    kinds = {one["kind"]: one for one in documents}
    (inside,) = kinds["Service"]["spec"]["ports"]
    spec = kinds["Deployment"]["spec"]["template"]["spec"]
    assert kinds["Service"]["spec"]["selector"] == kinds["Deployment"]["spec"]["selector"]["matchLabels"]
    found = {}
    for one in (*spec["initContainers"], *spec["containers"]):
        probes = [one[kind]["httpGet"] for kind in ("livenessProbe", "readinessProbe") if kind in one]
        asked = {probe["port"] for probe in probes} | {inside["targetPort"]} if probes else set()
        found["serve" if one["name"] == "service" else one["name"]] = Started(
            arguments=tuple(one["args"]),
            variables={
                variable["name"]: variable.get("value", f"postgresql://qwenperf:{PASSWORD}@database/qwenperf")
                for variable in one["env"]
            },
            ports=tuple(asked | {port["containerPort"] for port in one.get("ports", ())}),
            probes=tuple(probe["path"] for probe in probes),
        )
    assert spec["securityContext"]["runAsUser"] == int(dockerfile(folder)["USER"][0])
    return found


KINDS = {"image": of_image, "compose": of_compose, "kubernetes": of_kubernetes}


@pytest.fixture(params=KINDS)
def started(request, repository):
    """The containers of one deployment by what they do."""
    return KINDS[request.param](repository / "deploy")


@pytest.fixture
def settings_of(monkeypatch, tmp_path):
    """Run ``qwenperf serve`` up to where it listens, and return what it would serve."""

    def parsed(container):
        monkeypatch.chdir(tmp_path)
        for name in ("QWENPERF_DATABASE", "QWENPERF_FILES", *GITHUB):
            monkeypatch.delenv(name, raising=False)
        for name, value in container.variables.items():
            monkeypatch.setenv(name, value)
        seen = []
        monkeypatch.setattr("qwenperf.service.serving.serve", lambda settings, _ready: seen.append(settings))
        monkeypatch.setattr("qwenperf.cli.serve.make_folder", lambda _: None)
        name, *arguments = container.arguments
        assert name == "serve"
        assert serve.main(arguments, standalone_mode=False) == 0
        return seen[0]

    return parsed


def test_a_container_serves_where_it_is_looked_for(started, settings_of):
    """On all interfaces of the container, at the port that is published and probed, with the variables that are set."""
    container = started["serve"]
    settings = settings_of(container)
    assert settings.host == "0.0.0.0"
    assert set(container.ports) == {settings.port}
    assert settings.files == container.variables.get("QWENPERF_FILES", "")
    assert settings.database == container.variables.get("QWENPERF_DATABASE", "")
    assert settings.database_url.startswith("postgresql+psycopg://" if settings.database else "sqlite:///")
    # SQLite has one writer.
    assert settings.workers == 1 or settings.database


def test_the_probes_of_a_container_are_answered(started, settings_of, tmp_path):
    """By a service with its settings, on SQLite and a folder: ready, and with the address that people use."""
    from qwenperf.service.app import create_app, make_service

    container = started["serve"]
    place = replace(
        settings_of(container), data=tmp_path / "data", database="", files="", workers=1, sweep_s=0, judge=False
    )
    service = make_service(place)
    with httpx.Client(transport=Asking(create_app(place, service)), base_url="http://probe") as http:
        for path in (*container.probes, "/readyz", "/login"):
            answer = http.get(path)
            assert answer.status_code == 200, path
        cookie = answer.headers["set-cookie"]
    service.database.close()
    assert ("secure" in cookie.lower()) == place.public_url.startswith("https://")


class Asking(httpx.BaseTransport):
    """Asks an application in this process."""

    def __init__(self, app):
        from starlette.testclient import TestClient

        self._client = TestClient(app)

    def handle_request(self, request):
        """Return its answer."""
        answer = self._client.request(request.method, str(request.url), headers=dict(request.headers))
        return httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)


def test_a_volume_is_of_who_writes_to_it(repository):
    """A volume on a folder that the image lacks belongs to root, and the service could keep no file."""
    folder = repository / "deploy"
    said = dockerfile(folder)
    (made,) = (line for line in said["RUN"] if line.startswith("install -d"))
    words = shlex.split(made)
    assert words[words.index("-o") + 1] in " ".join(line for line in said["RUN"] if "useradd" in line)
    data = json.loads(said["CMD"][0])
    wanted = {*of_compose(folder)["serve"].mounts, data[data.index("--data") + 1]}
    assert wanted <= set(words)
    for address in {one.variables["QWENPERF_FILES"] for one in of_compose(folder).values()}:
        assert address.removeprefix("file://") in wanted


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["compose", "kubernetes"])
def test_the_large_form_starts_as_it_is_written(kind, repository, tmp_path, cluster):
    """The tables are made by one command, then the workers answer: only the addresses are of this machine."""
    found = KINDS[kind](repository / "deploy")
    name = f"deploy_{kind}"
    cluster.run(f"CREATE DATABASE {name}")
    places = {"QWENPERF_DATABASE": cluster.url(name), "QWENPERF_FILES": (tmp_path / "files").as_uri()}
    for container in found.values():
        assert set(container.variables) == set(places)
    program = [sys.executable, "-m", "qwenperf"]
    more = {"env": os.environ | places, "cwd": tmp_path}
    subprocess.run([*program, *found["upgrade"].arguments], check=True, **more)
    arguments = list(found["serve"].arguments)
    arguments[arguments.index("--host") + 1] = "127.0.0.1"
    # It tells the public URL, so that a port that it chose would stay unknown.
    port = free_port()
    command = [*program, *arguments, "--port", str(port), "--json"]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **more)
    try:
        told = json.loads(running.stdout.readline())
        assert told["url"] == arguments[arguments.index("--public-url") + 1]
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as http:
            for path in (*found["serve"].probes, "/readyz"):
                assert answered(http, path) == 200
            headers = {"Authorization": f"Bearer {told['token']}"}
            assert http.post("/api/v1/projects", json={"project": "demo"}, headers=headers).status_code == 201
    finally:
        running.terminate()
        running.communicate(timeout=60)
        cluster.run(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


def free_port():
    """Return a port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


def answered(http, path):
    """Ask until workers have started."""
    ends = time.monotonic() + 60
    while True:
        try:
            return http.get(path).status_code
        except httpx.TransportError:
            if time.monotonic() > ends:
                raise
            time.sleep(0.2)


def secrets_of_compose(folder):
    """Return the variables of the service once what is commented out is not, and the paths at which secrets lie."""
    text = re.sub(r"(?m)^( *)#(?! \S)", r"\1", (folder / "compose.yaml").read_text())
    document = yaml.safe_load(text)
    service = document["services"]["service"]
    assert set(service["secrets"]) == set(document["secrets"])
    variables = {name: filled_in(value) for name, value in service["environment"].items()}
    return variables, {f"/run/secrets/{name}" for name in service["secrets"]}


def secrets_of_kubernetes(folder):
    """Return the variables that the commands in its head give the service, and the paths at which secrets lie."""
    text = (folder / "kubernetes.yaml").read_text()
    document = next(yaml.safe_load_all(text))
    spec = document["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    (given,), (mount,), (volume,) = container["envFrom"], container["volumeMounts"], spec["volumes"]
    assert given["secretRef"]["optional"]
    assert volume["secret"]["optional"]
    assert mount["name"] == volume["name"]
    for name in (given["secretRef"]["name"], volume["secret"]["secretName"]):
        assert f"secret generic {name} " in text
    variables = dict(re.findall(r"--from-literal=(QWENPERF_GITHUB\w+)=(\S+)", text))
    return variables, {f"{mount['mountPath']}/{name}" for name in re.findall(r"--from-file=(\S+)", text)}


@pytest.mark.parametrize("kind", ["compose", "kubernetes"])
def test_what_github_needs_is_an_optional_secret(kind, repository, tmp_path, settings_of):
    """The variables are those that the command reads, and the key lies where they say; without them it starts, too."""
    folder = repository / "deploy"
    container = KINDS[kind](folder)["serve"]
    assert not set(GITHUB) & set(container.variables)
    variables, places = {"compose": secrets_of_compose, "kubernetes": secrets_of_kubernetes}[kind](folder)
    assert variables[KEY] in places
    (tmp_path / "app.pem").write_text("key")
    settings = settings_of(replace(container, variables=variables | {KEY: str(tmp_path / "app.pem")}))
    assert settings.github_app_id == variables["QWENPERF_GITHUB_APP_ID"]
    assert settings.github_app_key == str(tmp_path / "app.pem")
    assert settings.github_token == variables["QWENPERF_GITHUB_TOKEN"]


def test_the_image_is_made_of_the_package_and_of_nothing_else_that_lies_there(repository):
    """A layer of an image keeps what was copied into it, keys and data of a service too."""
    said = [line for line in (repository / ".dockerignore").read_text().splitlines() if line and line[0] != "#"]
    assert said[0] == "*"
    project = tomllib.loads((repository / "pyproject.toml").read_text())
    needed = {"pyproject.toml", project["project"]["readme"], *project["project"]["license-files"]}
    needed |= set(project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"])
    assert {line[1:] for line in said if line.startswith("!")} == needed


def test_the_database_is_asked_where_the_service_asks_it(repository):
    """While it is made, its socket answers and nobody can connect: what starts then has to find it gone again."""
    (asked,) = (one["healthcheck"]["test"][1] for one in services(repository) if "postgres" in one.get("image", ""))
    words = shlex.split(asked)
    assert words[0] == "pg_isready"
    assert words[words.index("-h") + 1] == "127.0.0.1"


def services(repository):
    return yaml.safe_load(filled_in((repository / "deploy" / "compose.yaml").read_text()))["services"].values()


def test_deployments_use_variables_that_exist(repository):
    """A variable that nobody reads would be found out by whoever deploys it."""
    parameters = [*serve.params, *(one for command in db.commands.values() for one in command.params)]
    # The token is no option: others see a command line.
    variables = {one.envvar for one in parameters if one.envvar} | {"QWENPERF_GITHUB_TOKEN"}
    for file in (repository / "deploy").iterdir():
        assert set(re.findall(r"QWENPERF_[A-Z_]+", file.read_text())) <= variables
