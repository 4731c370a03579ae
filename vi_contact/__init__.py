"""vi_contact: a drop-in simulator for URDF robots, built on discrete mechanics."""

from vi_contact import errors
from vi_contact.errors import ViContactError
from vi_contact.robot.robot import Robot
from vi_contact.robot.urdf import bundled_robots, from_pinocchio, load_robot

__all__ = [
    "Robot",
    "ViContactError",
    "bundled_robots",
    "errors",
    "from_pinocchio",
    "load_robot",
]
__version__ = "0.1.0"
