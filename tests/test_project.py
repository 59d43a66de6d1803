"""The files around the package: what they promise is there."""

import re
import subprocess
import sys
import zipfile

import pytest

PINNED = re.compile(r"uses: [\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+(\.\d+)*$")
# Written in parts, so that this file does not mention what no file may mention.
FORBIDDEN_PARTS = (
    ("py", "pi.org"),
    ("files.python", "hosted"),
    ("registry.npm", "js"),
    ("/work", "/scratch"),
    ("/work", "/main"),
    ("/work", "/shared"),
    ("../", "shared/"),
)
FORBIDDEN = [re.compile(re.escape("".join(parts)), re.IGNORECASE) for parts in FORBIDDEN_PARTS]


def committed(repository, *patterns: str) -> list[str]:
    done = subprocess.run(
        ["git", "ls-files", "-z", *patterns], cwd=repository, capture_output=True, text=True, check=True
    )
    return [name for name in done.stdout.split("\0") if name and (repository / name).is_file()]


def commands_in(text: str, program: str) -> set[str]:
    """What follows ``program`` at the start of a code span, or of a line inside a fence."""
    fenced = "\n".join(re.findall(r"^```\w*\n(.*?)^```", text, re.DOTALL | re.MULTILINE))
    spans = re.findall(r"(?<!`)`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE))
    lines = [*fenced.splitlines(), *spans]
    found = (re.match(rf"\s*(?:\$ )?(?:\S*/)?{program}((?: [a-z][a-z-]*)+)", line) for line in lines)
    return {match.group(1).split()[0] for match in found if match}


def documents(repository) -> list[str]:
    return committed(repository, "*.md")


def test_no_file_names_a_place_that_others_do_not_have(repository):
    """Addresses of registries and folders of one machine belong in no file."""
    seen = []
    for name in committed(repository):
        text = (repository / name).read_bytes().decode("utf-8", "replace")
        seen += [f"{name}: {pattern.pattern}" for pattern in FORBIDDEN if pattern.search(text)]
    assert seen == []


def test_the_lock_has_hashes_and_no_addresses(repository):
    """Whatever index is configured, what is installed is what was locked."""
    text = (repository / "requirements/lock.txt").read_text()
    assert "://" not in text
    assert "--index-url" not in text
    requirements = re.split(r"\n(?=[A-Za-z0-9])", text.strip())
    assert len(requirements) > 50
    assert [entry.split()[0] for entry in requirements if "--hash=sha256:" not in entry] == []


def test_actions_are_pinned_by_commit(repository):
    """Actions are pinned by 40 hexadecimal digits, version beside them; by default nothing is permitted."""
    workflows = committed(repository, ".github/**/*.yml", ".github/*/*.yml")
    assert workflows
    for name in workflows:
        text = (repository / name).read_text()
        uses = [line.strip().removeprefix("- ") for line in text.splitlines() if "uses:" in line]
        assert uses
        assert [line for line in uses if not PINNED.fullmatch(line)] == []
        # An action has what the job that uses it has.
        assert "\npermissions: {}\n" in text or "/actions/" in name


def test_documented_make_targets_exist(repository):
    """Nobody is told to make what cannot be made."""
    targets = set(re.findall(r"^([a-z-]+):.*##", (repository / "Makefile").read_text(), re.MULTILINE))
    told = {
        (name, target)
        for name in documents(repository)
        for target in commands_in((repository / name).read_text(), "make")
    }
    assert targets >= {"setup", "run", "test", "lint", "perf", "slow", "ci", "lock", "docs"}
    assert {(name, target) for name, target in told if target not in targets} == set()


def test_documented_commands_exist(repository):
    """Every ``qwenperf <command>`` in the documents is a command."""
    from qwenperf.cli.group import COMMANDS

    told = {
        (name, command)
        for name in documents(repository)
        for command in commands_in((repository / name).read_text(), "qwenperf")
    }
    assert told
    assert {(name, command) for name, command in told if command not in COMMANDS} == set()


def test_links_between_documents_lead_somewhere(repository):
    """A relative link names a file that is there."""
    link = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
    broken = [
        (name, target)
        for name in documents(repository)
        for target in link.findall((repository / name).read_text())
        if "://" not in target and not (repository / name).parent.joinpath(target).exists()
    ]
    assert broken == []


def test_contributing_is_short(repository):
    """Somebody who wants to help reads 60 lines at most."""
    assert len((repository / "CONTRIBUTING.md").read_text().splitlines()) <= 60


def test_ignored_rules_carry_a_reason(repository):
    """Each rule that ruff is told to ignore says why."""
    section = (repository / "pyproject.toml").read_text().split("[tool.ruff.lint]")[1].split("[tool.ruff.lint.pyd")[0]
    rules = [line for line in section.splitlines() if re.match(r'\s+"[A-Z]', line)]
    assert len(rules) > 10
    assert [line for line in rules if not re.search(r"# \S+ \S+", line)] == []


@pytest.fixture(scope="session")
def wheel_files(repository, tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=repository,
        check=True,
        capture_output=True,
    )
    (wheel,) = folder.glob("*.whl")
    return set(zipfile.ZipFile(wheel).namelist())


def test_the_wheel_carries_what_is_not_python(wheel_files, repository):
    """The marker of inline types, the published schema and the pages' templates are installed with the package."""
    assert {"qwenperf/py.typed", "qwenperf/schema/run.v1.json"} <= wheel_files
    templates = committed(repository, "qwenperf/report/templates/*")
    assert templates
    assert set(templates) <= wheel_files


def test_the_wheel_carries_nothing_else(wheel_files):
    """Tests, benchmarks and tools stay at home."""
    assert {name.split("/")[0] for name in wheel_files if not name.startswith("qwenperf")} == set()
