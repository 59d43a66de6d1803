"""Which cases are measured is decided, and mistyped names are found, before anything runs."""

import json

import pytest
from click.testing import CliRunner

from qwenperf.cli import main
from qwenperf.cli.select import AdHoc, matching, select
from qwenperf.errors import NothingMeasuredError, QwenperfError
from qwenperf.settings import from_flags, merge
from qwenperf.workloads.models import PRESETS
from qwenperf.workloads.setting import SETTINGS
from qwenperf.workloads.suites import SUITES


def ids(flags=None, ad_hoc=None, filters=()):
    return [case.id for case in select(merge(from_flags(flags or {})), ad_hoc or AdHoc(), filters)[1]]


def test_smoke_is_the_default():
    """Without flags the whole smoke suite is measured."""
    assert ids() == [case.id for case in SUITES["smoke"].cases]


@pytest.mark.parametrize(
    ("glob", "count"),
    [("cached", 2), ("4x128", 6), ("4x128/cached*", 3), ("b1-p32-*", 1), ("4x128/naive/b1-p16-n16-f32", 1)],
)
def test_a_filter_matches_an_id_or_a_part_of_it(glob, count):
    """A glob is for the whole id, or for its model, engine or workload."""
    assert len(ids(filters=(glob,))) == count


def test_several_filters_add_up():
    """Each filter lets more cases through; the order is the suite's."""
    assert ids({"suite": "quick"}, filters=("cached", "naive")) == ids({"suite": "quick"})


def test_a_filter_that_leaves_nothing_offers_the_nearest_case():
    """Nothing to measure is never green: its own exit code, and the known cases."""
    with pytest.raises(NothingMeasuredError, match="Did you mean '4x128/cached/b1-p16-n12-f32'") as caught:
        matching(SUITES["quick"].cases, ("4x128/cahced/b1-p16-n12-f32",))
    assert caught.value.exit_code == 5


def test_flags_overrule_trials_and_limit_of_every_case():
    """Numbers that were given hold for all cases, others stay as the suite has them."""
    _, cases = select(merge(from_flags({"trials": 2, "time_limit_s": 9})), AdHoc(), ())
    assert {(case.trials, case.time_limit_s) for case in cases} == {(2, 9.0)}


def test_an_ad_hoc_case_is_described_by_flags():
    """One case an engine, each once, in the order given."""
    ad_hoc = AdHoc(model="tiny", engines=("cached", "naive", "cached"), prompt_length=5, new_tokens=6, dtype="bf16")
    assert ids(ad_hoc=ad_hoc) == ["tiny/cached/b1-p5-n6-bf16", "tiny/naive/b1-p5-n6-bf16"]


def test_a_model_may_be_a_folder_or_a_hub_id(tmp_path):
    """What only JAX can check later is let through."""
    for model in (str(tmp_path), "Qwen/Qwen2.5-0.5B-Instruct"):
        assert ids(ad_hoc=AdHoc(model=model)) == [f"{model}/cached/b1-p32-n32-f32"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--suite", "quik"], 2, "unknown suite 'quik' (--suite). Did you mean 'quick'?"),
        (["--engine", "cahced"], 2, "unknown engine 'cahced'. Did you mean 'cached'?"),
        (["--model", "tiyn"], 2, "unknown model 'tiyn'. Did you mean 'tiny'?"),
        (["--model", "/no/such/folder"], 2, "model '/no/such/folder': no such folder or file."),
        (["--model", ""], 2, "the name of a model is empty."),
        (["--model", "x" * 5000], 2, "unknown model"),
        (["--model", "./" + "x" * 300], 2, "no such folder or file"),
        (["--model", "~nobody-of-that-name/y"], 2, "no such folder or file"),
        (["--model", "tiny", "--prompt-length", "1000"], 2, "need 1032 positions; model 'tiny' has 1024."),
        (["--batch", str(10**20)], 2, "batch is 1e+20, which no device counts to."),
        (["--dtype", "bf15"], 2, "unknown dtype 'bf15'. Did you mean 'bf16'?"),
        (["--new-tokens", "1"], 2, "workload new_tokens is 1, which is not a whole number of at least 2."),
        (["--prompt-length", "0"], 2, "workload prompt_length is 0"),
        (["--batch", "many"], 2, "'many' is not a valid integer"),
        (["--suite", "quick", "--engine", "cached"], 2, "exclude each other"),
        (["--trials", "0"], 2, "--trials is 0: expected a whole number of at least 1."),
        (["--time-limit", "-3"], 2, "--time-limit is -3.0"),
        (["--inconclusive", "maybe"], 2, "--inconclusive is 'maybe'"),
        (["--filter", "nothing"], 5, "no case matches 'nothing'."),
    ],
)
def test_what_is_mistyped_is_one_clear_line(arguments, code, message):
    """No traceback, the exit code that says what kind of mistake, and the nearest name."""
    result = CliRunner().invoke(main, ["run", "--dry-run", *arguments])
    assert (result.exit_code, result.stdout) == (code, "")
    assert result.stderr.startswith("qwenperf: error: ")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_suite_that_is_not_needed_has_to_exist_too():
    """A mistyped variable is found also where flags describe the case."""
    result = CliRunner(env={"QWENPERF_SUITE": "qick"}).invoke(main, ["run", "--dry-run", "--model", "tiny"])
    assert result.exit_code == 2
    assert "QWENPERF_SUITE" in result.stderr
    assert "Did you mean 'quick'" in result.stderr


def test_a_setting_of_the_environment_is_read(tmp_path, monkeypatch):
    """A variable chooses the suite, and a dry run shows where each value came from."""
    monkeypatch.chdir(tmp_path)
    result = CliRunner(env={"QWENPERF_SUITE": "quick"}).invoke(main, ["run", "--dry-run", "--json", "--trials", "2"])
    document = json.loads(result.stdout)
    assert document["suite"] == "quick"
    assert document["origins"]["suite"] == "QWENPERF_SUITE"
    assert {case["trials"] for case in document["cases"]} == {2}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("[tool.qwenperf]\ntrails = 3", "unknown setting"),
        ("[tool.qwenperf.budgets.'*']\ndecode_token_per_s = {min = 1}", "Did you mean 'decode_tokens_per_s'"),
        ("[tool.qwenperf", "cannot read"),
        ("[tool]\nqwenperf = 3", "is not a table"),
        ("[tool.qwenperf]\nbudgets = 3", "is not a table"),
    ],
)
def test_a_bad_project_file_is_named_before_anything_is_measured(tmp_path, monkeypatch, toml, message):
    """The file and the key are in the message, the nearest known key too."""
    (tmp_path / "pyproject.toml").write_text(toml)
    (tmp_path / "deep").mkdir()
    monkeypatch.chdir(tmp_path / "deep")
    result = CliRunner().invoke(main, ["run", "--dry-run"])
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
    assert str(tmp_path / "pyproject.toml") in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("more", [["--dry-run"], []])
def test_a_folder_that_cannot_be_written_is_found_before_measuring(tmp_path, more):
    """A file in the way of the output folder is one clear line."""
    (tmp_path / "file").touch()
    result = CliRunner().invoke(main, ["run", "--out", str(tmp_path / "file" / "runs"), *more])
    assert (result.exit_code, result.stdout) == (2, "")
    assert "cannot write" in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_list_shows_cases_and_suites():
    """--list is data: ids of the suite's cases, what each suite is for, and what else may be named."""
    result = CliRunner().invoke(main, ["run", "--list", "--suite", "quick"])
    assert result.exit_code == 0
    assert "4x128/naive/b1-p16-n12-f32" in result.stdout
    assert all(name in result.stdout for name in (*SUITES, *PRESETS, *SETTINGS))
    document = json.loads(CliRunner().invoke(main, ["run", "--list", "--suite", "quick", "--json"]).stdout)
    assert [case["engine"] for case in document["cases"]] == ["naive", "cached"]


def test_every_refusal_is_of_the_tree():
    """A refusal carries its exit code."""
    with pytest.raises(QwenperfError):
        AdHoc(model="nope").cases()


def test_an_engine_may_be_a_factory_of_one_s_own():
    """Only its process can import it; a name that cannot be one is found here."""
    assert ids(ad_hoc=AdHoc(engines=("my.module:make",))) == ["4x128/my.module:make/b1-p32-n32-f32"]
    with pytest.raises(QwenperfError, match=r"is no package\.module:factory"):
        ids(ad_hoc=AdHoc(engines=("my.module:make+weights=int8",)))


def test_the_best_engine_of_a_platform_is_a_rung():
    """It may have settings too."""
    found = ids(ad_hoc=AdHoc(engines=("best-cpu", "best-tpu+layers=scanned")))
    assert [case.split("/")[1] for case in found] == ["best-cpu", "best-tpu+layers=scanned"]
