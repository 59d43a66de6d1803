"""Takes the few operations that qwenperf asks of GitHub out of GitHub's published OpenAPI description, for the tests.

npm pack @octokit/openapi && python tools/github_openapi.py octokit-openapi-*.tgz

Writes tests/forge/github_openapi.json: schemas without their prose, and the package's version and licence.
"""

from __future__ import annotations

import json
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

OUT = Path(__file__).resolve().parent.parent / "tests" / "forge" / "github_openapi.json"
DESCRIPTION, PACKAGE, LICENCE = "package/generated/api.github.com.json", "package/package.json", "package/LICENSE"

OPERATIONS = frozenset(
    {
        "actions/download-artifact",
        "actions/list-workflow-run-artifacts",
        "apps/create-installation-access-token",
        "apps/get-repo-installation",
        "checks/create",
        "checks/list-for-ref",
        "checks/update",
        "issues/create-comment",
        "issues/list-comments",
        "issues/update-comment",
        "pulls/get",
        "pulls/list",
        "repos/get",
    }
)
PROSE = frozenset(
    {"default", "deprecated", "description", "example", "examples", "externalDocs", "links", "summary", "title"}
)


def main(package: Path) -> None:
    """Write the operations of the package at ``package``."""
    with tarfile.open(package) as archive:
        whole, told, licence = (_member(archive, name) for name in (DESCRIPTION, PACKAGE, LICENCE))
    description, about = json.loads(whole), json.loads(told)
    paths: dict[str, Any] = {}
    for path, operations in description["paths"].items():
        for method, operation in operations.items():
            if operation.get("operationId") in OPERATIONS:
                paths.setdefault(path, {})[method] = without_prose(_kept(operation))
    found = {operation["operationId"] for one in paths.values() for operation in one.values()}
    if found != OPERATIONS:
        sys.exit(f"no such operation: {', '.join(sorted(OPERATIONS - found))}")
    components: dict[str, Any] = {}
    _collect(paths, description, components)
    document = {
        "source": f"{about['name']} {about['version']}",
        "licence": about["license"],
        "licence_text": licence.decode(),
        "paths": paths,
        "components": components,
    }
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    print(f"{OUT}: {len(paths)} paths of {document['source']}, {OUT.stat().st_size} bytes")


def _member(archive: tarfile.TarFile, name: str) -> bytes:
    file = archive.extractfile(name)
    if file is None:
        sys.exit(f"{name} is no file of the package")
    return file.read()


def _kept(operation: dict[str, Any]) -> dict[str, Any]:
    """Return what a request is checked with, and the answers of success."""
    kept = {name: operation[name] for name in ("operationId", "parameters", "requestBody") if name in operation}
    answers = {code: answer for code, answer in operation["responses"].items() if code[0] in "23" and code != "304"}
    return {**kept, "responses": answers}


def without_prose(node: Any, *, names: bool = False) -> Any:
    """Return a schema without what only people read; ``names``: the keys are names of properties, not words."""
    if isinstance(node, list):
        return [without_prose(one) for one in node]
    if not isinstance(node, dict):
        return node
    return {
        key: without_prose(value, names=key == "properties")
        for key, value in node.items()
        if names or not (key in PROSE or key.startswith("x-"))
    }


def _collect(node: Any, description: dict[str, Any], components: dict[str, Any]) -> None:
    """Add every component that ``node`` refers to, and theirs."""
    for reference in _references(node):
        kind, name = reference.removeprefix("#/components/").split("/")
        if name not in components.setdefault(kind, {}):
            components[kind][name] = without_prose(description["components"][kind][name])
            _collect(components[kind][name], description, components)


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        for value in node.values():
            yield from _references(value)
    elif isinstance(node, list):
        for value in node:
            yield from _references(value)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
