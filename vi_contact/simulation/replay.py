"""Steps that failed, as files that repeat them."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from vi_contact.errors import OptionError, TrajectoryFileError
from vi_contact.mechanics.ground import Ground
from vi_contact.robot.obstacles import from_numbers, to_numbers
from vi_contact.robot.parts import Array, JointKind, Loop, Motor, Pose, Spring
from vi_contact.robot.robot import Robot
from vi_contact.robot.urdf import load_robot
from vi_contact.simulation.simulator import Simulator
from vi_contact.simulation.snapshot import Snapshot
from vi_contact.solvers.ipopt_options import IpoptOptions
from vi_contact.solvers.newton import SolverOptions

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


def _with_prefix(values: dict[str, Any], prefix: str) -> dict[str, Any]:
    return {k.removeprefix(prefix): v for k, v in values.items() if k.startswith(prefix)}


def load_failure(path: str | Path) -> tuple[Simulator, Array]:
    """The simulator just before the step that failed, and the torques of that step."""
    try:
        with np.load(Path(path), allow_pickle=False) as file:
            values = {key: file[key] for key in file.files}
        robot = load_robot(
            str(values["robot_path"]), base="free" if values["free_base"] else "fixed"
        )
        collides = str(values["self_collision"])
        robot = robot.with_parts(
            _from_json(Loop, str(values["loops"])),
            _from_json(Motor, str(values["motors"])),
            _from_json(Spring, str(values["springs"])),
        )
        if _fingerprint(robot) != str(values["robot_print"]):
            raise TrajectoryFileError(
                f"{path} was written with another robot than {values['robot_path']} is now"
            )
        ground = _with_prefix(values, "ground_")
        solver = str(values["solver"])
        kind = IpoptOptions if solver == "ipopt" else SolverOptions
        options = _with_prefix(values, "option_")
        sim = Simulator(
            robot,
            float(values["time_step"]),
            values["gravity"],
            kind(**{k: v.item() for k, v in options.items()}),
            Ground(**{k: v.tolist() for k, v in ground.items()}) if ground else None,
            bool(values["joint_limits"]),
            solver=solver,
            obstacles=from_numbers(_with_prefix(values, "obstacle_")),
            self_collision={"True": True, "False": False}.get(collides, collides),
        )
        sim.restore(Snapshot(float(values["time"]), values["state"]))
    except FileNotFoundError:
        raise TrajectoryFileError(f"there is no file {path}") from None
    except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile):
        raise TrajectoryFileError(f"{path} is not a step written by save_failure") from None
    return sim, values["tau"]
