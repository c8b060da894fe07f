"""Pythons that have imported nothing, for what a fork of one that has cannot tell."""

import subprocess
import sys
from typing import Any


def python(code: str, *arguments: str, **given: Any) -> str:
    """Carry out code in a new Python, which must end well; return what it prints."""
    words = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(words, capture_output=True, text=True, check=False, **given)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout
