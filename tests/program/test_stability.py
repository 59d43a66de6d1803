"""Two compilations of one program: what they do not agree in is marked, and nothing else."""

from dataclasses import replace

import pytest

from qwenperf.program.stability import differing, marked
from qwenperf.schema.analysis import AotCase, BufferCopy, Fit, ProgramAnalysis, TargetRecord
from qwenperf.schema.records import Status

PROGRAM = ProgramAnalysis(
    name="step", fingerprint="a", flops=10.0, hbm_bytes=20.0, temp_bytes=5, peak_bytes=50,
    extra={"copies_by_kind": {}, "categories": {}},
)  # fmt: skip
CASE = AotCase(
    id="c@v5e-1/step", target=TargetRecord(name="v5e-1", platform="tpu"), program=PROGRAM, compile_s=1.0,
    fit=Fit(peak_bytes=50, hbm_bytes=100, fits=True),
)  # fmt: skip


def changed(**fields):
    """The same case, compiled with other numbers."""
    return replace(CASE, program=replace(PROGRAM, **fields), compile_s=2.0)


def test_the_same_numbers_are_stable_and_the_time_is_no_number_of_the_program():
    found = marked(CASE, changed())
    assert found.program.unstable == ()
    assert found.extra["compilations"] == 2


def test_what_differs_is_named_and_stays_so():
    """A third compilation that agrees with the second does not make a number stable."""
    second = marked(CASE, changed(temp_bytes=6))
    assert second.program.unstable == ("temp_bytes",)
    third = marked(second, changed(temp_bytes=6))
    assert (third.program.unstable, third.extra["compilations"]) == (("temp_bytes",), 3)


@pytest.mark.parametrize(
    ("total", "field"),
    [("copies_by_kind", "copies"), ("collective_bytes", "collectives"), ("weight_bytes", "hbm_bytes")],
)
def test_a_total_beyond_a_cut_list_counts_as_its_field(total, field):
    other = replace(PROGRAM, extra={**PROGRAM.extra, total: {"copy": {"count": 1, "bytes": 8}}})
    assert differing(PROGRAM, other) == (field,)


def test_lists_are_compared_whole():
    copy = BufferCopy(kind="copy", shape="f32[8]", bytes=32)
    assert differing(PROGRAM, replace(PROGRAM, copies=(copy,))) == ("copies",)


def test_whether_it_fits_is_told_of_the_larger_one():
    smaller = replace(changed(peak_bytes=40), fit=Fit(peak_bytes=40, hbm_bytes=100, fits=True))
    assert marked(CASE, smaller).fit.peak_bytes == 50
    assert marked(smaller, CASE).fit.peak_bytes == 50


def test_a_program_that_is_refused_the_second_time_is_a_failed_one():
    refused = replace(CASE, program=None, status=Status.FAILED, error="no.")
    found = marked(CASE, refused)
    assert (found.status, found.error) == (Status.FAILED, "compiled before, and now not: no.")
