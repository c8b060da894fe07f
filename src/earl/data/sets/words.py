"""What classes such as n01443537 mean: the words that archives of ImageNet hold beside them."""

from collections.abc import Iterable
from pathlib import Path

from earl.errors import EarlError
from earl.storage.printable import printable
from earl.storage.reading import read_bounded

FILES = ("LOC_synset_mapping.txt", "words.txt", "synset_words.txt")
LARGEST = 64 << 20  # bytes; all of WordNet's nouns have 3 million


def find_words(folders: Iterable[Path]) -> dict[str, str]:
    """Return the words by class, from the first of these folders that has a file of them.

    They are only shown: a file that cannot be read, or a line without a class, is ignored.
    """
    for folder in folders:
        for name in FILES:
            if (folder / name).is_file() and (words := read_words(folder / name)):
                return words
    return {}


def read_words(file: Path) -> dict[str, str]:
    """Return what stands behind each class, in lines such as "n01443537 goldfish, Carassius"."""
    try:
        data = read_bounded(file, LARGEST, follow=True) or b""
    except EarlError:
        return {}
    lines = data.decode("utf-8", "replace").splitlines()
    return {line[:9]: printable(line[9:].strip()) for line in lines if is_wnid(line[:9])}


def is_wnid(text: str) -> bool:
    """Return whether this is WordNet's name of a noun: n and eight digits."""
    return len(text) == 9 and text[0] == "n" and text[1:].isdecimal()
