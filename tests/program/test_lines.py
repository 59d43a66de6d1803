"""An instruction without a line of its own is told by what uses its result."""

from qwenperf.program import lines

META = 'metadata={op_name="jit(step)/dot_general" source_file="/src/layers.py" source_line=112}'


def test_a_product_without_a_line_has_that_of_its_results_bitcast(texts):
    fused = texts.computation(
        "fused",
        "%p = f32[1,64]{1,0} parameter(0)",
        f"%b = f32[64]{{0}} bitcast(%p), {META}",
        "ROOT %n = f32[64]{0} negate(%b)",
    )
    entry = (
        "%x = f32[1,64]{1,0} parameter(0)",
        "%w = f32[64,64]{1,0} parameter(1)",
        "%d = f32[1,64]{1,0} dot(%x, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        "ROOT %f = f32[64]{0} fusion(%d), kind=kLoop, calls=%fused",
    )
    module = texts.parsed(*entry, computations=(fused,))
    assert lines.line(module, texts.named(module, "d")) == "layers.py:112"


def test_a_copy_without_a_line_has_that_of_what_reads_it(texts):
    module = texts.parsed(
        "%a = f32[4,8]{1,0} parameter(0)",
        "%c = f32[4,8]{0,1} copy(%a)",
        "%b = f32[32]{0} bitcast(%c)",
        f"ROOT %n = f32[32]{{0}} negate(%b), {META}",
    )
    assert lines.line(module, texts.named(module, "c")) == "layers.py:112"
    assert lines.line(module, texts.named(module, "n")) == "layers.py:112"


def test_an_operations_own_line_and_that_of_its_fusions_result_come_first(texts):
    other = META.replace("layers.py", "step.py")
    fused = texts.computation("fused", "%p = f32[4]{0} parameter(0)", f"ROOT %n = f32[4]{{0}} negate(%p), {META}")
    entry = ("%f = f32[4]{0} fusion(%a), kind=kLoop, calls=%fused", f"ROOT %m = f32[4]{{0}} negate(%f), {other}")
    module = texts.parsed(*entry, computations=(fused,))
    assert lines.line(module, texts.named(module, "f")) == "layers.py:112"


def test_nobody_near_has_a_line(texts):
    module = texts.parsed("%x = f32[4]{0} copy(%y)", "ROOT %y = f32[4]{0} copy(%x)")
    assert lines.line(module, texts.named(module, "x")) == ""
