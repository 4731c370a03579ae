"""Steps that failed, as files that repeat them."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable
from dataclasses import asdict, astuple
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from vi_contact.errors import OptionError, TrajectoryFileError, ViContactError
from vi_contact.mechanics.ground import Ground
from vi_contact.robot.maximal import is_number
from vi_contact.robot.obstacles import from_numbers, to_numbers
from vi_contact.robot.parts import WORLD, Array, JointKind, Loop, Motor, Pose, Spring
from vi_contact.robot.robot import Robot
from vi_contact.robot.urdf import load_robot
from vi_contact.simulation.archive import UNIT_TOLERANCE, Contents, read_arrays
from vi_contact.simulation.simulator import Simulator
from vi_contact.simulation.snapshot import Snapshot
from vi_contact.solvers.ipopt_options import IpoptOptions
from vi_contact.solvers.newton import SolverOptions

FAULTS = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)
"""What words that are no parts, options or ground raise when these are made of them."""

Part = TypeVar("Part", Loop, Motor, Spring)


def save_failure(sim: Simulator, path: str | Path, tau: ArrayLike | None = None) -> None:
    """Writes the state of a simulator and the torques of its next step to an .npz file.

    The robot is its URDF file, with loops, motors and springs as they are now.
    """
    if not sim.robot.path:
        raise OptionError(
            f"robot '{sim.robot.name}' comes from no file: its steps cannot be written for a replay"
        )
    if sim.contact is not None or sim.events:
        raise OptionError("only steps by time stepping can be written, not those with events")
    ground = {} if sim.ground is None else {f"ground_{k}": v for k, v in asdict(sim.ground).items()}
    options = {f"option_{k}": v for k, v in asdict(sim.options).items()}
    obstacles: dict[str, Any] = {f"obstacle_{k}": v for k, v in to_numbers(sim.obstacles).items()}
    snapshot = sim.snapshot()
    np.savez_compressed(
        Path(path),
        robot_path=sim.robot.path,
        robot_print=_fingerprint(sim.robot),
        loops=_to_json(sim.robot.loops),
        motors=_to_json(sim.robot.motors),
        springs=_to_json(sim.robot.springs),
        solver=sim.solver,
        free_base=bool(sim.robot.joint_names) and sim.robot.joint_names[0].endswith("root_joint"),
        time_step=sim.time_step,
        gravity=sim.gravity,
        joint_limits=sim.joint_limits,
        time=snapshot.time,
        state=snapshot.numbers,
        tau=np.zeros(sim.robot.nu) if tau is None else np.asarray(tau, dtype=np.float64),
        self_collision=str(sim.self_collision),
        **obstacles,
        **ground,
        **options,
    )


def _to_json(parts: Iterable[Loop | Motor | Spring]) -> str:
    return json.dumps([asdict(part) for part in parts], default=lambda array: array.tolist())


def _from_json(kind: type[Part], text: str) -> tuple[Part, ...]:
    def value(key: str, given: Any) -> Any:
        if isinstance(given, dict):
            return Pose(np.array(given["p"]), np.array(given["quat_xyzw"]))
        if key == "links":
            return tuple(given)
        if key == "kind":
            return JointKind(given)
        return np.array(given) if isinstance(given, list) else given

    return tuple(
        kind(**{key: value(key, given) for key, given in part.items()}) for part in json.loads(text)
    )


def _fingerprint(robot: Robot) -> str:
    """Of all that the file says about the motion: bodies, joints and contacts."""
    parts = [asdict(body) for body in robot.bodies]
    parts += [asdict(joint) for joint in robot.joints]
    parts += [asdict(mimic) for mimic in robot.mimics]
    parts += [asdict(contact) for contact in robot.contacts]
    text = json.dumps(parts, default=lambda array: array.tolist())
    return hashlib.sha256(text.encode()).hexdigest()


def load_failure(path: str | Path) -> tuple[Simulator, Array]:
    """The simulator just before the step that failed, and the torques of that step."""
    file = Contents(read_arrays(path, "a step written by save_failure"))
    try:
        return _from_contents(file)
    except (*FAULTS, ViContactError) as error:
        raise TrajectoryFileError(
            f"{path} is not a step written by save_failure: {error}"
        ) from None


def _from_contents(file: Contents) -> tuple[Simulator, Array]:
    robot_path = file.word("robot_path")
    robot = load_robot(robot_path, base="free" if file.flag("free_base") else "fixed")
    robot = robot.with_parts(
        _from_json(Loop, file.word("loops")),
        _from_json(Motor, file.word("motors")),
        _from_json(Spring, file.word("springs")),
    )
    if _fingerprint(robot) != file.word("robot_print"):
        raise ValueError(f"it is of another robot than {robot_path} is now")
    problem = parts_problem(robot)
    if problem:
        raise ValueError(problem)
    ground = {key: array.tolist() for key, array in file.part("ground_").items()}
    solver, collides = file.word("solver"), file.word("self_collision")
    kind = IpoptOptions if solver == "ipopt" else SolverOptions
    sim = Simulator(
        robot,
        file.number("time_step"),
        file.numbers("gravity", 3),
        kind(**{key: array.item() for key, array in file.part("option_").items()}),
        Ground(**ground) if ground else None,
        file.flag("joint_limits"),
        solver=solver,
        obstacles=from_numbers(file.part("obstacle_")),
        self_collision={"True": True, "False": False}.get(collides, collides),
    )
    sim.restore(Snapshot(file.number("time"), file.numbers("state", None, finite=False)))
    return sim, file.numbers("tau", robot.nu)


def parts_problem(robot: Robot) -> str:
    """What is wrong with loops, motors and springs that may come from a file, or ""."""
    bodies = range(WORLD, len(robot.bodies))
    for loop in robot.loops:
        axes = (loop.axis, 3), (loop.axis2, 3)
        poses = (loop.frame_parent, loop.frame_child)
        arrays = [*axes, *((pose.p, 3) for pose in poses), *((pose.quat_xyzw, 4) for pose in poses)]
        if not (_are_numbers(arrays) and {loop.parent, loop.child} <= {*bodies}):
            return f"loop '{loop.name}' joins bodies or has numbers that cannot be"
        if any(abs(float(np.linalg.norm(pose.quat_xyzw)) - 1.0) > UNIT_TOLERANCE for pose in poses):
            return f"loop '{loop.name}' has a quaternion whose length is not one"
    for spring in robot.springs:
        arrays = [(spring.p_1, 3), (spring.p_2, 3)]
        scalars = (spring.stiffness, spring.rest_length, spring.damping)
        here = {spring.body_1, spring.body_2} <= {*bodies}
        if not (_are_numbers(arrays) and here and all(map(is_number, scalars))):
            return f"spring '{spring.name}' joins bodies or has numbers that cannot be"
    for motor in robot.motors:
        scalars = astuple(motor)[1:]
        numbers = all(isinstance(x, float | int) and not math.isnan(x) for x in scalars)
        if motor.joint not in range(len(robot.joints)) or not numbers:
            return f"a motor is on joint {motor.joint} or has numbers that cannot be"
    return ""


def _are_numbers(arrays: Iterable[tuple[Any, int]]) -> bool:
    return all(
        isinstance(array, np.ndarray)
        and array.dtype.kind in "fi"
        and array.shape == (size,)
        and bool(np.isfinite(array).all())
        for array, size in arrays
    )
