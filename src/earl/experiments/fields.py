"""What an experiment consists of, as it is written down; nothing is checked here, or imported."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import PurePath
from typing import Any, Literal, Self

from earl.experiments.names import dataset_label, folder_name, stream_label
from earl.experiments.recipes import Value

LEFT_OUT_IF_EMPTY = ("stream_sha256", "match", "to")


@dataclass(frozen=True, kw_only=True)
class ExperimentFields:
    """Names, a seed, and every setting that was given; `Experiment` checks them."""

    method: str
    dataset: str
    stream: str  # a setup, or "file:" and a path
    seed: int = 1
    settings: Mapping[str, Value] = field(default_factory=dict)
    probes: tuple[str, ...] = ()
    stream_sha256: str = ""  # of the stream file
    match: Literal["", "flops", "bytes"] = ""  # the budget in which it equals the method `to`
    to: str = ""

    def path_by(self, part_of: Mapping[str, str]) -> PurePath:
        """Return <dataset>/<stream>/<method>/seed-<n>, with the settings that were given.

        A setting stands behind the data set, the stream or the method, whichever it belongs to.
        """
        behind: dict[str, dict[str, Value]] = {"data": {}, "stream": {}, "method": {}}
        for name, value in self.settings.items():
            part = part_of.get(name, "method")
            behind[part if part in behind else "method"][name] = value
        behind["method"] |= {"probes": "+".join(self.probes)} if self.probes else {}
        behind["method"] |= {self.match: f"as-{self.to}"} if self.match else {}
        return PurePath(
            folder_name(dataset_label(self.dataset), behind["data"]),
            folder_name(stream_label(self.stream), behind["stream"]),
            folder_name(self.method, behind["method"]),
            f"seed-{self.seed}",
        )

    def command(self) -> list[str]:
        """Return the words behind `earl` that give this run."""
        words = ["run", "--method", self.method, "--dataset", self.dataset]
        words += ["--stream", self.stream, "--seed", str(self.seed)]
        for name, value in self.settings.items():
            words += ["--set", f"{name}={value}"]
        for probe in self.probes:
            words += ["--probe", probe]
        if self.match:
            words += ["--match", self.match, "--to", self.to]
        return words

    def as_dict(self) -> dict[str, Any]:
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        values |= {"settings": dict(self.settings), "probes": list(self.probes)}
        return {k: v for k, v in values.items() if v or k not in LEFT_OUT_IF_EMPTY}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        return cls(**{**fields, "probes": tuple(fields["probes"])})
