"""The command `earl predict`: ask a model about images."""

from pathlib import Path
from typing import Annotated, Any

import typer

from earl.cli.options import Json
from earl.cli.text import print_json, say


def predict(
    model: Annotated[Path, typer.Argument(help="The folder of a model.")],
    images: Annotated[list[Path], typer.Argument(help="Image files.")],
    top: Annotated[int, typer.Option(min=1, help="So many labels of each image.")] = 1,
    unknown_below: Annotated[
        float, typer.Option(min=0, max=1, help="Answer 'unknown' if less near than this.")
    ] = 0.0,
    as_json: Json = False,
) -> None:
    """Say what images show, with probabilities."""
    from earl.estimator import EARLClassifier

    clf = EARLClassifier.load(model)
    paths = [str(image) for image in images]
    shares, strange = clf.predict_proba(paths), clf.unknown_score(paths)
    labels = clf.classes_.tolist()
    answers: list[dict[str, Any]] = []
    for path, row, score in zip(paths, shares.tolist(), strange.tolist(), strict=True):
        order = sorted(range(len(labels)), key=lambda c: -row[c])[:top]
        found = [{"label": shown(labels[c], as_json), "probability": row[c]} for c in order]
        known = 1 - score >= unknown_below
        answers.append({"image": path, "known": known, "unknown_score": score, "answers": found})
    if as_json:
        print_json(answers)
        return
    for answer in answers:
        texts = [f"{f['label']} {f['probability']:.2f}" for f in answer["answers"]]
        say(f"{answer['image']}: {', '.join(texts) if answer['known'] else 'unknown'}")


def shown(label: Any, as_json: bool) -> Any:
    """Return a label for people, or as JSON holds it."""
    return label if as_json and isinstance(label, str | int | float | bool) else str(label)
