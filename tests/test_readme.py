"""What the README, CONTRIBUTING and the docs show, runs; what they name, exists."""

import re
from pathlib import Path

import pytest
from PIL import Image

from children import Children
from earl.experiments.catalogue import METHODS
from run_folders import write_run

ROOT = Path(__file__).parent.parent
PYTHON = re.compile(r"```python\n(.*?)```", re.DOTALL)


def blocks(name: str) -> list[str]:
    return PYTHON.findall((ROOT / name).read_text(encoding="utf-8"))


def cases() -> list[tuple[str, int]]:
    """Return all examples: the pages that hold any, and their numbers."""
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    names = [page.relative_to(ROOT).as_posix() for page in pages]
    return [(name, i) for name in names for i in range(len(blocks(name)))]


@pytest.mark.parametrize(("name", "number"), cases())
def test_every_python_example_runs(
    name: str, number: int, children: Children, tmp_path: Path
) -> None:
    for place in range(4):  # the photos that a page takes for granted
        photo = tmp_path / "photos" / ("cat", "dog")[place % 2] / f"{place}.jpg"
        photo.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (40, 30), (60 * place, 90, 30)).save(photo)
    Image.new("RGB", (30, 40)).save(tmp_path / "new.jpg")
    for method in ("er", "earl"):  # the finished runs that pages of results speak of
        write_run(tmp_path / "runs", method, 1, [0.5, 0.6])
    done = children.run("-c", blocks(name)[number], cwd=tmp_path, forks=True)
    assert done.returncode == 0, done.stderr


def test_the_first_example_is_the_loop() -> None:
    first = blocks("README.md")[0]
    assert "# ask first" in first and "# then learn" in first


def test_every_method_is_in_the_readme() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [name for name in METHODS.names() if f"`{name}`" not in text] == []


def test_every_link_to_a_file_leads_somewhere() -> None:
    for page in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")):
        for target in re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8")):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_two_commands_of_a_newcomer_are_those_of_continuous_integration() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "pip install -c constraints.txt -e . && earl demo" in readme
    assert 'pip install -c constraints.txt -e ".[dev]" && pytest' in readme
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert 'pip install --quiet -c constraints.txt -e ".[dev]"' in script
    assert script.rstrip().endswith("pytest")
