"""docs/generation.md can be pasted."""

import re

import pytest

from qwenperf.models.taps import points_of


@pytest.mark.slow
def test_the_page_s_examples_run_one_after_another(repository):
    """Each block goes on from those before it; what they assert holds."""
    page = (repository / "docs" / "generation.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 6
    names = {}
    for block in blocks:
        exec(compile(block, "docs/generation.md", "exec"), names)


def test_the_page_lists_every_point(repository):
    """The table of points is that of the forward pass."""
    page = (repository / "docs" / "generation.md").read_text(encoding="utf-8")
    assert all(f"`{name.replace('.0.', '.N.')}`" in page for name in points_of(1))
