"""Fixtures that several files of this folder share."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from earl.nn import onednn


@pytest.fixture
def child(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Let bfloat16 be tried by a program that is given here, in an environment without a limit."""
    for variable in (onednn.VARIABLE, onednn.OLD_VARIABLE):
        monkeypatch.delenv(variable, raising=False)
    place = tmp_path / "child"
    place.mkdir()

    def become(program: str) -> Path:
        file, tries = place / "trial.py", place / "tries"
        tries.unlink(missing_ok=True)
        file.write_text(f"open({str(tries)!r}, 'a').write('.')\n{program}")
        monkeypatch.setattr(onednn, "TRIAL", file)
        onednn.tried.cache_clear()
        return tries

    yield become
    onednn.tried.cache_clear()
