"""Learning: what every method is, and the parts that methods are made of."""

from earl.learning.classes import Classes
from earl.learning.learner import UNKNOWN, Learner, Stateful
from earl.learning.memory import Memory, Policy, draw_distinct, with_replay
from earl.learning.pace import Pace, Waiting
from earl.learning.passes import adam, ask, descend, forward, take_step
from earl.learning.policies import (
    POLICIES,
    PolicyName,
    class_reservoir,
    gdumb,
    greedy_balanced,
    random_int,
    reservoir,
)
from earl.learning.setting import Setting
from earl.learning.work import Pass, Work

__all__ = [
    "POLICIES",
    "UNKNOWN",
    "Classes",
    "Learner",
    "Memory",
    "Pace",
    "Pass",
    "Policy",
    "PolicyName",
    "Setting",
    "Stateful",
    "Waiting",
    "Work",
    "adam",
    "ask",
    "class_reservoir",
    "descend",
    "draw_distinct",
    "forward",
    "gdumb",
    "greedy_balanced",
    "random_int",
    "reservoir",
    "take_step",
    "with_replay",
]
