"""Names of runs in a narrow place: what all have in common is left out first, letters last."""

from collections.abc import Sequence


def shortened(names: Sequence[str], width: int) -> tuple[list[str], str]:
    """Return the names in at most `width` letters each, and what was left out of all of them."""
    if all(len(name) <= width for name in names):
        return list(names), ""
    differing, common = without_common(names)
    return [cut(name, width) for name in differing], common


def without_common(names: Sequence[str]) -> tuple[list[str], str]:
    """Return what tells names <dataset>/<stream>/<method> apart, and what all have in common.

    Each of the three may have settings behind commas. A method is always named.

    >>> without_common(["shapes,limit=9/iid/er,lr=1", "shapes,limit=9/disjoint/er,lr=1"])
    (['iid/er', 'disjoint/er'], 'shapes, limit=9, lr=1')
    """
    split = [[part.split(",") for part in name.split("/")] for name in names]
    if len({len(parts) for parts in split}) != 1:
        return list(names), ""
    shared = [set.intersection(*map(set, of)) for of in zip(*split, strict=True)]
    left: list[list[str]] = []
    for parts in split:
        kept = [essential(part, s) for part, s in zip(parts, shared, strict=True)]
        kept[-1] = kept[-1] or parts[-1][:1]
        left.append([",".join(words) for words in kept if words])
    shown = {word for texts in left for text in texts for word in text.split(",")}
    common = [w for part, s in zip(split[0], shared, strict=True) for w in part if w in s - shown]
    return ["/".join(texts) for texts in left], ", ".join(common)


def essential(part: Sequence[str], shared: set[str]) -> list[str]:
    """Return the words of a part that not all names have; settings stand behind their name."""
    own = [word for word in part if word not in shared]
    return [part[0], *own] if own and own[0] != part[0] else own


def cut(text: str, width: int) -> str:
    """Return a text of at most `width` letters, with its beginning and its end.

    >>> cut("er-memory-only,every=300", 13)
    'er-mem…ry=300'
    """
    if len(text) <= width:
        return text
    ending = max(0, width - 1) // 2
    return text[: max(0, width - 1 - ending)] + "…" + text[len(text) - ending :]
