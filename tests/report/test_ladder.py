"""The tables of settings read at 80 columns, and say what is measured, beside what, and what is the same."""

import pytest

from qwenperf.report.ladder import ladder_report
from qwenperf.report.terminal import Places, render, run_report
from qwenperf.schema.records import CaseRecord, Divergence, Evidence, ProgramFacts, RunRecord, Status, metric
from qwenperf.workloads.suites import SUITES


def record(case, *, speed=1000.0, program="p", error=1e-6, **more):
    rates = ("decode_tokens_per_s", "prefill_tokens_per_s", "request_tokens_per_s")
    made = {
        name: metric(name, speed, interval=(0.95 * speed, 1.05 * speed), coverage=0.9375, samples=(speed,) * 5)
        for name in rates
    }
    sizes = {"weight_bytes": 4e6, "kv_cache_allocated_bytes": 1e6, "temp_bytes": 12345, "compile_s": 0.8123}
    made |= {name: metric(name, value) for name, value in {**sizes, "cold_tokens_per_s": speed / 10}.items()}
    seen = Divergence(equal=True, reference="uncached", max_logit_error=error, logit_tolerance=1e-4)
    evidence = Evidence(divergence=seen, program=ProgramFacts(name="decode_step", fingerprint=program))
    return CaseRecord(id=case.id, spec=case.to_json(), **{"metrics": made, "evidence": evidence, **more})


SPEEDS = {"cached+layers=scanned": 500.0, "cached+qkv=fused": 1500.0, "cached+weights=int8": 3000.0}


@pytest.fixture(scope="module")
def records():
    """Every case of the suite, three of them of another speed, most of one program."""
    made = {}
    for case in SUITES["ladder"].cases:
        program = {"cached+layers=scanned": "scan"}.get(case.engine, "p")
        made[case.engine] = record(case, speed=SPEEDS.get(case.engine, 1000.0), program=program, error=0.0123)
    gone = "cached+hooks=capture"
    made[gone] = record(SUITES["ladder"].cases[0], status=Status.FAILED, metrics={}, error=0.1)
    made[gone] = CaseRecord(id="x", spec={**made[gone].spec, "engine": gone}, status=Status.FAILED)
    return list(made.values())


@pytest.fixture(scope="module")
def text(records):
    return render(ladder_report("ladder", records))


def block(text, name):
    """Return the lines of one setting's table."""
    lines = text.splitlines()
    start = next(index for index, line in enumerate(lines) if line.startswith(f"{name} ("))
    return lines[start : lines.index("", start)]


def test_a_table_fits_80_columns(text):
    """Also the one with the longest value."""
    assert max(map(len, text.splitlines())) <= 80
    assert any("dot_product_attention" in line for line in text.splitlines())


def test_a_row_says_ratio_range_sizes_compile_time_and_tokens(text):
    """Half the speed, both readings known to 5%."""
    row = next(line for line in block(text, "layers") if line.startswith("scanned ")).split()
    assert row == "scanned 0.500x 0.45-0.55 0.500x 5.00 MB 12.3 kB 812 ms equal".split()


def test_the_base_stands_in_the_table(text):
    """With its own value of the setting, so that all values are seen."""
    assert any(line.split()[:2] == ["unrolled", "base"] for line in block(text, "layers"))


def test_the_same_program_is_told(text):
    """And only that: a scan is another program than what is written out."""
    assert "fused: the same decode step as separate." in block(text, "gate_up")
    assert not any("same decode step" in line for line in block(text, "layers"))


def test_an_approximate_value_shows_its_error_instead_of_equal_tokens(text):
    """Exact ones do not."""
    rows = [line.split() for line in block(text, "weights")]
    assert next(row for row in rows if row[:2] == ["int8", "3.00x"])[-1] == "1e-02"
    assert next(row for row in rows if row[:2] == ["native", "base"])[-1] == "equal"


def test_a_value_beside_another_engine_says_so(text):
    """A static position needs a loop on the host, on both sides."""
    assert "static: beside cached-host." in block(text, "position")


def test_each_setting_is_seen_in_its_own_rate(text):
    """A bucket does nothing for decoding."""
    assert block(text, "bucket")[0].startswith("bucket (prefill): ")


def test_what_was_not_measured_has_no_number(text):
    """Its end stands where its tokens would."""
    row = next(line for line in block(text, "hooks") if line.startswith("capture ")).split()
    assert row == "capture - - - - - - failed".split()


def test_a_run_without_its_base_says_how_to_have_it(records, text):
    """Filters may leave out what a value stands beside, and then no ratio is there."""
    wanted = ("cached+weights=int8", "cached-host+position=static")
    some = [case for case in records if case.spec["engine"] in wanted]
    alone = render(ladder_report("ladder", some))
    for base in ("cached", "cached-host"):
        assert f"no `{base}` in this run to compare with: add --filter {base}\n" in alone
    assert "to compare with" not in text


def test_faster_values_are_named_without_approximate_ones(text):
    """What might become a default of this platform."""
    last = " ".join(text.split("faster than cached here, ")[1].split())
    assert last.startswith("and exact: qkv=fused (1.50x). Taken by default: best-cpu")


def test_the_run_s_report_has_these_tables_for_this_suite_only(records):
    """50 engines in one table of rungs would be none."""

    def of(suite):
        run = RunRecord(id="r", created_at="", suite=suite, environment={}, cases=tuple(records))
        return render(run_report(run, Places(record="")))

    assert "rung  " not in of("ladder")
    assert "layers (decode)" not in of("smoke")
