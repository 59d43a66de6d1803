"""``qwenperf upgrade`` under two real versions of JAX, each in an environment of its own, on a Python that it takes."""

import pytest

from qwenperf.schema.upgrade import upgrade_loads

OLD, NEW, NONE = "0.10.2", "0.12.0", "9.9.9"
CASE = "tiny/cached/b1-p4-n8-f32"
SMALL = ("--model", "tiny", "--engine", "cached", "--prompt-length", 4, "--new-tokens", 8)
SHORT = ("--runs", 0, "--looks", 6, "--rounds", 1, "--trial", 0.02)


@pytest.mark.slow
def test_a_table_and_a_record_say_what_another_jax_changes_and_which_version_is_not_there(cli, jax_is_had, tmp_path):
    """Compile seconds, tokens a second, memory, tokens, programs here and on a TPU: each under its own JAX."""
    jax_is_had(OLD, NEW)
    command, _, run = cli
    asked = command("upgrade", "--jax", f"{OLD},{NEW},{NONE}", *SMALL, *SHORT, "--target", "v5e-1", "--out", "out")
    # Byte code may be written: a new environment has none, and each of its processes would make that of all JAX anew.
    done = run(asked, tmp_path, QWENPERF_CACHE=str(tmp_path / "cache"), PYTHONDONTWRITEBYTECODE="")
    assert done.returncode == 5, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    (file,) = (tmp_path / "out").glob("upgrade-*/upgrade.json")
    record = upgrade_loads(file.read_text(), str(file))
    old, new, none = record.versions
    assert record.base == old.label == f"jax {OLD}"
    assert (none.python, none.cases, none.exit_code) == (None, {}, 5)
    assert f"jax=={NONE}" in none.error
    for version, wanted in ((old, OLD), (new, NEW)):
        assert version.error is None
        assert version.environment["jax"] == wanted
        assert version.environment["python"] == version.python
        measured = version.cases[CASE].metrics
        assert {"compile_s", "decode_tokens_per_s", "peak_rss_bytes"} <= {*measured}
        assert all(one.value > 0 for one in (measured[name] for name in ("compile_s", "decode_tokens_per_s")))
        assert {"decode_step", "generate"} <= {*version.cases[CASE].programs}
        assert (file.parent / version.compiled).is_file()
    assert (old.cases[CASE].verdicts, old.exit_code) == ((), 0)
    gates = {one.gate: one.outcome for one in new.cases[CASE].verdicts}
    assert gates["tokens"] == "pass"
    assert {"programs", "speed"} <= {*gates}
    assert len(new.programs) == 2
    assert (file.parent / new.comparison / "comparison.json").is_file()
    outcomes = {one.outcome for one in new.cases[CASE].verdicts} | {
        one.outcome for each in new.programs.values() for one in each
    }
    assert new.exit_code == ("fail" in outcomes)

    said = " ".join(done.stdout.split())
    assert f"jax {OLD} jax {NEW} compile_s" in said
    assert f"{NONE}: " in said
    for row in (
        "decode_tokens_per_s",
        "peak_rss_bytes",
        "request time",
        "tokens - same",
        "programs - ",
        "verdict base",
    ):
        assert row in said
    assert f"jax {NEW}: " in said
    assert "programs compiled for other chips are the same" in said
    assert f"record: {file.relative_to(tmp_path)}" in done.stdout
