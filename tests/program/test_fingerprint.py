"""A fingerprint follows what a program does, not what it is called."""

from pathlib import Path

from qwenperf.program.fingerprint import canonical, fingerprint

TEXT = (Path(__file__).parent / "snippets" / "jax-0.12-donated.hlo").read_text()


def test_names_lines_and_source_tables_do_not_matter():
    moved = TEXT.replace("/src/qwen2.py", "/elsewhere/llama.py").replace("line=6 ", "line=61 ")
    renamed = moved.replace("jit_step", "jit_other").replace("%cos.0", "%cosine.17").replace("fused_computation", "f")
    assert renamed != TEXT
    assert fingerprint(renamed) == fingerprint(TEXT)


def test_constants_shapes_and_aliases_matter():
    for old, new in (("constant(10000)", "constant(1000000)"), ("[2,16,4]", "[2,32,4]"), ("{0}: (0,", "{0}: (1,")):
        assert fingerprint(TEXT.replace(old, new)) != fingerprint(TEXT)


def test_which_operand_is_used_matters():
    assert fingerprint(TEXT.replace("multiply(%param_2.5, %sin.0)", "multiply(%param_2.5, %cos.0)")) != fingerprint(
        TEXT
    )


def test_the_canonical_text_says_nothing_of_files_or_frames():
    text = canonical(TEXT)
    assert "metadata" not in text
    assert "qwen2" not in text
    assert "cosine(%" in text


def test_both_compilers_made_one_program_of_the_example():
    assert fingerprint(TEXT) == fingerprint((Path(__file__).parent / "snippets" / "jax-0.10-donated.hlo").read_text())
