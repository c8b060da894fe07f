"""Commands as processes of their own."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from children import ENV, Children


@pytest.fixture
def earl(children: Children, tmp_path: Path) -> Callable[..., "subprocess.CompletedProcess[str]"]:
    """Carry out a command in an empty folder, in a process of its own."""
    return lambda *words: children.run("-m", "earl", *words, cwd=tmp_path, env=ENV)
