"""Runs whose record has format 1, which does not say where their settings come from."""

from collections.abc import Mapping

from earl.errors import EarlError
from earl.experiments.experiment import Experiment
from earl.experiments.fields import ExperimentFields
from earl.experiments.origins import Origins
from earl.experiments.recipes import Value

STANDS_IN = "er"  # in place of a method that is not registered; it has hardly any own settings


def origins(run: ExperimentFields, settings: Mapping[str, Value]) -> Origins:
    """Return where the settings of a run come from, by the signatures that take them today.

    Where the method is not registered, all settings that no other part takes are the method's.
    """
    try:
        found = Experiment.from_dict({**run.as_dict(), "settings": {}})
    except EarlError:
        names = run.as_dict() | {"settings": {}, "method": STANDS_IN, "match": "", "to": ""}
        names |= {"probes": []}
        found = Experiment.from_dict(names)
    parts = {name: found.origins.part_of.get(name, "method") for name in settings}
    usual = {name: found.usual[name] for name in run.settings if name in found.usual}
    return Origins(parts, (), usual)
