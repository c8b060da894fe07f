"""Processes that keep cores busy beside what is measured."""

import subprocess

import pytest

from earl.bench import neighbours


def test_a_process_spins_from_one_byte_to_the_next_and_ends_with_its_input(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun: list[subprocess.Popen[bytes]] = []

    class Noted(subprocess.Popen):
        def __init__(self, *words: object, **named: object) -> None:
            super().__init__(*words, **named)
            begun.append(self)

    monkeypatch.setattr(neighbours.subprocess, "Popen", Noted)
    with neighbours.spinning_on(2) as spin:
        for _ in range(2):
            with spin():
                assert [one.poll() for one in begun] == [None, None]
    assert [one.returncode for one in begun] == [0, 0]
