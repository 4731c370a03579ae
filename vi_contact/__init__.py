"""vi_contact: a drop-in simulator for URDF robots, built on discrete mechanics."""

from vi_contact import errors
from vi_contact.errors import ViContactError
from vi_contact.mechanics.ground import Ground
from vi_contact.robot.obstacles import Obstacle
from vi_contact.robot.robot import Robot
from vi_contact.robot.urdf import bundled_robots, from_pinocchio, load_robot
from vi_contact.simulation.command import JointCommand, StepFunction
from vi_contact.simulation.contact_laws import ElasticContact, PlasticContact
from vi_contact.simulation.events import Event
from vi_contact.simulation.rollout import Rollout, rollout
from vi_contact.simulation.simulator import Simulator
from vi_contact.simulation.state import State
from vi_contact.simulation.trajectory import Trajectory
from vi_contact.solvers.ipopt_options import IpoptOptions
from vi_contact.solvers.newton import SolverOptions, Status
from vi_contact.viewer.live import View, view

__all__ = [
    "ElasticContact",
    "Event",
    "Ground",
    "IpoptOptions",
    "JointCommand",
    "Obstacle",
    "PlasticContact",
    "Robot",
    "Rollout",
    "Simulator",
    "SolverOptions",
    "State",
    "Status",
    "StepFunction",
    "Trajectory",
    "ViContactError",
    "View",
    "bundled_robots",
    "errors",
    "from_pinocchio",
    "load_robot",
    "rollout",
    "view",
]
__version__ = "0.1.0"
