"""Operations carry the line that the user wrote, not one of a library."""

from qwenperf.program import hlo, sources

TABLES = """\
FileNames
1 "/home/me/model.py"
2 "/usr/lib/python3/site-packages/flax/nnx/module.py"
3 "/usr/lib/python3/site-packages/jax/_src/nn/functions.py"
4 "/home/me/jaxmodels/attention.py"
5 "/home/me/jax/project/step.py"
6 "/opt/checkouts/flax/flax/nnx/module.py"

FunctionNames
1 "Model.__call__"
2 "Linear.__call__"
3 "softmax"
4 "attend"

FileLocations
1 {file_name_id=1 function_name_id=1 line=12 end_line=12 column=4 end_column=9}
2 {file_name_id=2 function_name_id=2 line=300 end_line=300 column=4 end_column=9}
3 {file_name_id=3 function_name_id=3 line=77 end_line=77 column=4 end_column=9}
4 {file_name_id=4 function_name_id=4 line=5 end_line=5 column=4 end_column=9}
5 {file_name_id=5 function_name_id=4 line=8 end_line=8 column=4 end_column=9}
6 {file_name_id=6 function_name_id=2 line=300 end_line=300 column=4 end_column=9}

StackFrames
"""
OFF_BY_ONE = """\
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=2}
3 {file_location_id=3 parent_frame_id=3}
4 {file_location_id=4 parent_frame_id=2}
5 {file_location_id=3}
"""
STRAIGHT = """\
1 {file_location_id=1}
2 {file_location_id=2 parent_frame_id=1}
3 {file_location_id=3 parent_frame_id=2}
4 {file_location_id=4 parent_frame_id=1}
"""


def place(tables, frame):
    return sources.read(tables.splitlines()).place(f"metadata={{stack_frame_id={frame}}}")


def test_frames_of_flax_and_jax_lead_to_the_frame_that_called_them():
    for frames in (OFF_BY_ONE, STRAIGHT):
        told = place(TABLES + frames, 3)
        assert (told.text, told.function) == ("/home/me/model.py:12", "Model.__call__")


def test_a_package_whose_name_only_begins_with_jax_is_the_users():
    for frames in (OFF_BY_ONE, STRAIGHT):
        assert place(TABLES + frames, 4).text == "/home/me/jaxmodels/attention.py:5"


def test_code_of_ones_own_may_lie_in_a_folder_named_jax():
    """And a library where it was checked out."""
    own = "1 {file_location_id=1}\n2 {file_location_id=5 parent_frame_id=1}\n3 {file_location_id=6 parent_frame_id=2}\n"
    for frame in (2, 3):
        assert place(TABLES + own, frame).text == "/home/me/jax/project/step.py:8"


def test_a_frame_that_only_libraries_called_keeps_its_own_line():
    assert place(TABLES + OFF_BY_ONE, 5).text.endswith("jax/_src/nn/functions.py:77")


def test_a_frame_that_is_in_no_table_has_no_line():
    assert place(TABLES + OFF_BY_ONE, 99).text == ""
    assert place("", 1).text == ""


def test_frames_that_call_each_other_in_a_circle_end():
    circle = "1 {file_location_id=2 parent_frame_id=2}\n2 {file_location_id=3 parent_frame_id=1}\n"
    assert place(TABLES + circle, 1).text.endswith("module.py:300")


def test_an_operation_of_a_parsed_module_has_its_line_and_its_function():
    text = f"HloModule m\n\n{TABLES}{OFF_BY_ONE}\n\nENTRY %main.1 (a: f32[4]) -> f32[4] {{\n"
    text += "  ROOT %b = f32[4]{0} negate(%a), metadata={stack_frame_id=3}\n}\n"
    (operation,) = hlo.parse(text).operations
    assert (operation.source, operation.function) == ("/home/me/model.py:12", "Model.__call__")
