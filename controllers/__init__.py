"""Controllers: callables from a state to joint torques, installed as ``vi_contact.controllers``."""

from .hopping import VerticalHopper
from .pd import JointPD, actuated_positions, gravity_torques

__all__ = ["JointPD", "VerticalHopper", "actuated_positions", "gravity_torques"]
