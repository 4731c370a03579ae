"""Random closed mechanisms with light links, written as URDF."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from urdf_text import extension, joint, link, robot, write

import vi_contact as vc
from vi_contact.robot.parts import Array

FREE = ""  # no limits


def rod(name: str, mass: float, span: Array, com: Array) -> str:
    """A round rod from the link's origin to `span`, 40 mm thick, with its centre of mass at com."""
    axis = np.outer(span, span) / (span @ span)
    inertia = mass * ((span @ span) / 12.0 * (np.eye(3) - axis) + 1e-4 * (np.eye(3) + axis))
    entries = zip(
        ("ixx", "ixy", "ixz", "iyy", "iyz", "izz"), inertia[np.triu_indices(3)], strict=True
    )
    text = " ".join(f'{entry}="{value:.9g}"' for entry, value in entries)
    return link(
        name,
        f'<inertial><origin xyz="{numbers(com)}"/><mass value="{mass:.9g}"/>'
        f"<inertia {text}/></inertial>",
    )


def numbers(values: Array) -> str:
    return " ".join(f"{value:.9g}" for value in values)


def closed_leg(folder: Path, seed: int) -> vc.Robot:
    """A free base with two legs of two rods that meet, 10 g to 0.5 kg each, and a dangling tip.

    Every second one is spatial: the knee of its second leg is a ball joint.
    """
    rng = np.random.default_rng(seed)
    spatial = seed % 2 == 1
    side = np.array([0.0, 0.05 * spatial, 0.0])

    def towards(low: float, high: float) -> Array:
        angle = rng.uniform(low, high)
        return rng.uniform(0.1, 0.3) * np.array([np.cos(angle), 0.0, np.sin(angle)])

    shortest = 0.0
    while shortest < 0.08:
        hip_1, hip_2 = rng.uniform(0.0, 0.15, size=2)[:, None] * np.array([[-1, 0, 0], [1, 0, 0]])
        hip_2 = hip_2 + side
        knee_1, knee_2 = hip_1 + towards(2.0, 4.0), hip_2 + towards(-1.0, 1.0)
        toe = rng.uniform([-0.2, 0.0, -0.45], [0.2, 1.0, -0.25]) * np.array([1.0, side[1], 1.0])
        spans = [knee_1 - hip_1, toe - knee_1, knee_2 - hip_2, toe - knee_2]
        shortest = min(float(np.linalg.norm(span)) for span in spans)
    masses, base = 10.0 ** rng.uniform(-2.0, -0.3, 4), 10.0 ** rng.uniform(0.0, 1.0)
    rods = [
        rod(f"link_{k}", masses[k], span, rng.uniform(0.3, 0.7) * span + 0.01 * rng.normal(size=3))
        for k, span in enumerate(spans)
    ]
    box = f'ixx="{0.01 * base}" ixy="0" ixz="0" iyy="{0.012 * base}" iyz="0" izz="{0.008 * base}"'
    hinge = {"kind": "continuous", "limit": FREE}
    ball = {"kind": "floating", "limit": FREE} if spatial else hinge
    text = robot(
        link("base", f'<inertial><mass value="{base}"/><inertia {box}/></inertial>'),
        *rods,
        rod("tip", 0.01, np.array([0.0, 0.0, 0.1]), np.array([0.0, 0.0, 0.05])),
        joint("hip_1", "base", "link_0", origin=numbers(hip_1), **hinge),
        joint("knee_1", "link_0", "link_1", origin=numbers(spans[0]), **hinge),
        joint("hip_2", "base", "link_2", origin=numbers(hip_2), **hinge),
        joint("knee_2", "link_2", "link_3", origin=numbers(spans[2]), **ball),
        joint(
            "tip", "link_1", "tip", origin=numbers(spans[1]),
            axis="1 0 0" if spatial else "0 1 0", **hinge,
        ),
        extension(
            '<base type="free"/><loop_joint name="toe" type="spherical">'
            f'<link1 link="link_1" xyz="{numbers(spans[1])}"/>'
            f'<link2 link="link_3" xyz="{numbers(spans[3])}"/></loop_joint>'
            + ('<spherical joint="knee_2"/>' if spatial else "")
        ),
        name=f"leg_{seed}",
    )  # fmt: skip
    return vc.load_robot(write(folder, text, f"leg_{seed}.urdf"))


def swing(robot: vc.Robot, time_step: float, seed: int, time: float = 5.0) -> vc.Trajectory:
    """In flight, under torques on both hips that swing at random rates."""
    rng = np.random.default_rng(seed)
    phase, rate = rng.uniform(0.0, 2.0 * np.pi, 2), rng.uniform(0.3, 1.5, 2)
    hips = [robot.actuated_joints.index(name) for name in ("hip_1", "hip_2")]
    sim = vc.Simulator(robot, time_step, gravity=(0.0, 0.0, 0.0), ground=None)
    sim.reset(robot.neutral())

    def torques(state: vc.State) -> Array:
        tau = np.zeros(robot.nu)
        tau[hips] = 0.1 * np.sin(2.0 * np.pi * rate * (state.time + 0.5 * time_step) + phase)
        return tau

    return sim.run(time, torques)
