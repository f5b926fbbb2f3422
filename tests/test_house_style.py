"""Does the code keep the sizes and names that CONTRIBUTING.md asks for?"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("profiles", "tuner", "executor", "api", "cli", "migrations")
MODULES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))

MAX_MODULE_LINES = 250
MAX_FUNCTION_LINES = 40
VAGUE_NAMES = {"utils", "util", "helpers", "common", "manager", "base", "misc"}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_answers_one_question_in_few_lines(path: Path) -> None:
    """No module is longer than a reader takes in at one go, and none hides behind a vague name."""
    source = path.read_text(encoding="utf-8")
    assert path.stem not in VAGUE_NAMES
    assert len(source.splitlines()) <= MAX_MODULE_LINES
    too_long = {
        name: lines for name, lines in _function_lengths(ast.parse(source)) if lines > MAX_FUNCTION_LINES
    }
    assert not too_long, f"functions of more than {MAX_FUNCTION_LINES} lines below signature and docstring"


def _function_lengths(tree: ast.Module) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body
            if body:
                yield node.name, body[-1].end_lineno - body[0].lineno + 1
