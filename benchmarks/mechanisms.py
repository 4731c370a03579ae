"""URDF text of mechanisms with loops, for `loops.py` and the tests.

Links are rods between two points of their own frames; what a robot of the same kind has in common
is a parameter. Every point is written with all its digits: overconstrained loops move only while
their lengths agree to round-off.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pinocchio as pin

Point = Sequence[float]

FREE = '<limit effort="100" velocity="100"/>'


def text(values: Point) -> str:
    return " ".join(repr(float(x)) for x in values)


def rod(name: str, mass: float, end: Point, radius: float = 0.01, extra: str = "") -> str:
    """A uniform round rod from the origin of its link to a point."""
    end = np.asarray(end, dtype=float)
    length = float(np.linalg.norm(end))
    along = np.outer(end, end) / length**2
    across = mass * (3.0 * radius**2 + length**2) / 12.0
    inertia = across * (np.eye(3) - along) + 0.5 * mass * radius**2 * along
    return body(name, mass, 0.5 * end, inertia, extra)


def body(name: str, mass: float, centre: Point, inertia: np.ndarray, extra: str = "") -> str:
    values = {
        key: inertia["xyz".index(key[1]), "xyz".index(key[2])]
        for key in ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")
    }
    moments = " ".join(f'{key}="{float(value)!r}"' for key, value in values.items())
    return (
        f'<link name="{name}"><inertial><origin xyz="{text(centre)}"/><mass value="{mass!r}"/>'
        f"<inertia {moments}/></inertial>{extra}</link>\n"
    )


def box(name: str, mass: float, size: Point, centre: Point = (0, 0, 0), extra: str = "") -> str:
    squares = np.square(size)
    return body(name, mass, centre, np.diag(mass / 12.0 * (squares.sum() - squares)), extra)


def joint(
    name: str,
    parent: str,
    child: str,
    at: Point,
    axis: Point = (0, 1, 0),
    kind: str = "continuous",
    rpy: Point = (0, 0, 0),
    extra: str = "",
) -> str:
    if kind == "ball":
        kind = "floating"
    return (
        f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>'
        f'<origin xyz="{text(at)}" rpy="{text(rpy)}"/><axis xyz="{text(axis)}"/>'
        f"{FREE if kind != 'floating' else ''}{extra}</joint>\n"
    )


def loop(
    name: str, kind: str, link1: str, xyz1: Point, link2: str, xyz2: Point, **more: str
) -> str:
    """A loop joint; axis, rpy1 and rpy2 as text."""
    rpy1, rpy2 = (f' rpy="{more[r]}"' if r in more else "" for r in ("rpy1", "rpy2"))
    axis = f'<axis xyz="{more["axis"]}"/>' if "axis" in more else ""
    return (
        f'<loop_joint name="{name}" type="{kind}"><link1 link="{link1}" xyz="{text(xyz1)}"{rpy1}/>'
        f'<link2 link="{link2}" xyz="{text(xyz2)}"{rpy2}/>{axis}</loop_joint>\n'
    )


def actuated(*names: str) -> str:
    return "".join(
        f'<transmission name="{name}_drive"><type>transmission_interface/SimpleTransmission</type>'
        f'<joint name="{name}"/><actuator name="{name}_motor"/></transmission>\n'
        for name in names
    )


def robot(name: str, parts: Sequence[str], extension: Sequence[str]) -> str:
    block = f"<vi_contact>{''.join(extension)}</vi_contact>\n"
    return f'<robot name="{name}">\n{"".join(parts)}{block}</robot>\n'


def turned(angle: float, point: Point) -> np.ndarray:
    """A point turned about the vertical."""
    return pin.rpy.rpyToMatrix(0.0, 0.0, angle) @ np.asarray(point, dtype=float)


# ------------------------------------------------------------------------------- fixed mechanisms
def delta(rod_mass: float = 0.05) -> str:
    """A delta robot that hangs: six rods on ball joints, in three pairs."""
    upper, lower, base, platform, half = 0.2, 0.45, 0.15, 0.06, 0.05
    down = np.sqrt(lower**2 - (base + upper - platform) ** 2)  # arms level
    parts, extension = ['<link name="world"/>\n'], []
    for i in range(3):
        angle = 2.0 * np.pi * i / 3.0
        out, side = turned(angle, (1, 0, 0)), turned(angle, (0, 1, 0))
        parts += [
            rod(f"arm_{i}", 0.3, upper * out, 0.015),
            joint(f"shoulder_{i}", "world", f"arm_{i}", base * out, side),
        ]
        to = (platform - base - upper) * out + np.array([0, 0, -down])
        for k, sign in enumerate((-1.0, 1.0)):
            name = f"rod_{i}{k}"
            at = upper * out + sign * half * side
            parts += [
                rod(name, rod_mass, to, 0.004),
                joint(f"elbow_{i}{k}", f"arm_{i}", name, at, kind="ball"),
            ]
            extension.append(f'<spherical joint="elbow_{i}{k}"/>')
            hold = platform * out + sign * half * side
            if i == k == 0:
                parts += [
                    box("platform", 0.5, (0.12, 0.12, 0.02), -hold),
                    joint("wrist", name, "platform", to, kind="ball"),
                ]
                extension.append('<spherical joint="wrist"/>')
                first = hold
            else:
                point = hold - first
                extension.append(loop(f"wrist_{i}{k}", "spherical", name, to, "platform", point))
    parts.append(actuated("shoulder_0", "shoulder_1", "shoulder_2"))
    return robot("delta", parts, extension)


def stewart() -> str:
    """A Gough platform that stands on six legs with springs."""
    bottom, top, height = 0.5, 0.3, 0.6
    parts, extension = ['<link name="world"/>\n'], []
    names = []
    for i in range(6):
        pair, sign = divmod(i, 2)
        foot = turned(2.0 * np.pi * pair / 3.0 + (0.2 if sign else -0.2), (bottom, 0, 0))
        angle = 2.0 * np.pi * pair / 3.0 + (np.pi / 3.0 - 0.2) * (1.0 if sign else -1.0)
        head = turned(angle, (top, 0, 0)) + np.array([0.0, 0.0, height])
        leg = head - foot
        along = leg / np.linalg.norm(leg)
        first = np.cross(along, (0.0, 0.0, 1.0))
        first /= np.linalg.norm(first)
        parts += [
            box(f"cross_{i}", 0.02, (0.03, 0.03, 0.03)),
            joint(f"u_{i}", "world", f"cross_{i}", foot, first),
            rod(f"barrel_{i}", 0.5, 0.5 * leg, 0.02),
            joint(f"v_{i}", f"cross_{i}", f"barrel_{i}", (0, 0, 0), np.cross(along, first)),
            rod(f"piston_{i}", 0.2, 0.5 * leg, 0.01),
            joint(f"slide_{i}", f"barrel_{i}", f"piston_{i}", 0.5 * leg, along, "prismatic"),
        ]
        names.append(f"slide_{i}")
        length = float(np.linalg.norm(leg))
        # the weight of platform and legs compresses each spring by about a centimetre
        extension.append(
            f'<spring name="leg_{i}" stiffness="2000" rest_length="{length + 0.01!r}" damping="0">'
            f'<link1 link="world" xyz="{text(foot)}"/>'
            f'<link2 link="piston_{i}" xyz="{text(0.5 * leg)}"/></spring>'
        )
        if i == 0:
            centre = np.array([0.0, 0.0, height]) - head
            parts += [
                box("platform", 10.0, (0.5, 0.5, 0.03), centre),
                joint("ball", "piston_0", "platform", 0.5 * leg, kind="ball"),
            ]
            extension.append('<spherical joint="ball"/>')
            origin = head
        else:
            extension.append(
                loop(f"ball_{i}", "spherical", f"piston_{i}", 0.5 * leg, "platform", head - origin)
            )
    parts.append(actuated(*names))
    return robot("stewart", parts, extension)


def rssr(coupler_mass: float = 0.1) -> str:
    """Crank, coupler on two ball joints, rocker about an axis that is skew to the crank's."""
    pivot, hold, end = np.array([0.6, 0.1, 0.0]), np.array([0.1, 0.0, 0.0]), np.zeros(3)
    rocker = np.array([0.0, 0.15, 0.35])
    end = pivot + rocker - hold
    return robot(
        "rssr",
        [
            '<link name="world"/>\n',
            rod("crank", 0.5, hold),
            joint("drive", "world", "crank", (0, 0, 0), (0, 0, 1)),
            rod("coupler", coupler_mass, end, 0.004),
            joint("ball", "crank", "coupler", hold, kind="ball"),
            rod("rocker", 0.6, rocker),
            joint("swing", "world", "rocker", pivot, (1, 0, 0)),
            actuated("drive"),
        ],
        [
            '<spherical joint="ball"/>',
            loop("end", "spherical", "coupler", end, "rocker", rocker),
        ],
    )


def bennett() -> str:
    """Four hinges with skew axes that move although seven would be needed; closed by a hinge.

    Opposite links are equal, lengths are to each other as the sines of their twists.
    """
    a, twist_a, twist_b = 0.3, 0.7, 1.3
    b = a * np.sin(twist_b) / np.sin(twist_a)
    turn = 1.0
    # Denavit-Hartenberg about z, then along and about x; the second angle from the closure
    other = 2.0 * np.arctan(
        np.sin(0.5 * (twist_b + twist_a)) / np.sin(0.5 * (twist_b - twist_a)) / np.tan(0.5 * turn)
    )
    lengths, twists = (a, b, a, b), (twist_a, twist_b, twist_a, twist_b)

    def step(k: int, angle: float) -> pin.SE3:
        z = pin.SE3(pin.rpy.rpyToMatrix(0.0, 0.0, angle), np.zeros(3))
        return z * pin.SE3(pin.rpy.rpyToMatrix(twists[k], 0.0, 0.0), np.array([lengths[k], 0, 0]))

    signs = min(
        ((s, t) for s in (1, -1) for t in (1, -1)),
        key=lambda st: np.linalg.norm(
            pin.log(
                step(0, turn)
                * step(1, st[0] * other)
                * step(2, st[1] * turn)
                * step(3, st[0] * st[1] * other)
            ).vector
        ),
    )
    angles = (turn, signs[0] * other, signs[1] * turn, signs[0] * signs[1] * other)
    parts, extension = ['<link name="world"/>\n'], []
    pose, parent = pin.SE3.Identity(), "world"
    for k in range(3):  # links 0, 1, 2 move, link 3 is the world
        z = pin.SE3(pin.rpy.rpyToMatrix(0.0, 0.0, angles[k]), np.zeros(3))
        local = pose * z
        parts += [
            rod(f"bar_{k}", 0.5, (lengths[k], 0, 0)),
            joint(
                f"hinge_{k}", parent, f"bar_{k}", local.translation, (0, 0, 1),
                rpy=pin.rpy.matrixToRpy(local.rotation),
            ),
        ]  # fmt: skip
        pose = pin.SE3(pin.rpy.rpyToMatrix(twists[k], 0.0, 0.0), np.array([lengths[k], 0, 0]))
        parent = f"bar_{k}"
    # what closes it: bar 2's end, against the world's fixed link
    end = pose
    whole = pin.SE3.Identity()
    for k in range(3):
        whole = whole * step(k, angles[k])
    parts.append(actuated("hinge_0"))
    extension.append(
        loop(
            "close",
            "revolute",
            "bar_2",
            end.translation,
            "world",
            whole.translation,
            rpy1=text(pin.rpy.matrixToRpy(end.rotation)),
            rpy2=text(pin.rpy.matrixToRpy(whole.rotation)),
            axis="0 0 1",
        )
    )
    return robot("bennett", parts, extension)


def parallel_cranks(count: int = 3, kind: str = "revolute") -> str:
    """Equal cranks under one bar: each after the second repeats what the others say."""
    length, span = 0.3, 0.4
    parts, extension = ['<link name="world"/>\n'], []
    for i in range(count):
        at = (span * i, 0, 0)
        hang = (0.1, 0.0, -np.sqrt(length**2 - 0.1**2))
        parts += [
            rod(f"crank_{i}", 0.3, hang),
            joint(f"pivot_{i}", "world", f"crank_{i}", at),
        ]
        if i == 0:
            parts += [
                rod("bar", 1.0, (span * (count - 1), 0, 0)),
                joint("first", "crank_0", "bar", hang),
            ]
        else:
            extension.append(loop(f"pin_{i}", kind, f"crank_{i}", hang, "bar", at, axis="0 1 0"))
    parts.append(actuated("pivot_0"))
    return robot("parallel_cranks", parts, extension)


def twice_hinged() -> str:
    """A free body with an arm whose hinge is declared twice: the loop adds no rank."""
    foot = '<collision><geometry><box size="0.3 0.2 0.1"/></geometry></collision>'
    return robot(
        "twice_hinged",
        [
            box("base", 2.0, (0.3, 0.2, 0.1), extra=foot),
            rod("arm", 0.5, (0.0, 0.0, 0.4)),
            joint("hinge", "base", "arm", (0, 0, 0.05)),
            actuated("hinge"),
        ],
        [
            '<base type="free"/>',
            loop("again", "revolute", "base", (0, 0, 0.05), "arm", (0, 0, 0), axis="0 1 0"),
        ],
    )


# ------------------------------------------------------------------------------- parallel legs
def closed_leg(seed: int) -> str:
    """A free base with two legs of two light rods that meet, and a tip that dangles from the toe.

    Lengths and masses are random, 10 g to 0.5 kg a rod; every second leg is spatial, with a ball
    joint for a knee.
    """
    rng = np.random.default_rng(seed)
    spatial = seed % 2 == 1
    aside = np.array([0.0, 0.05 * spatial, 0.0])

    def towards(low: float, high: float) -> np.ndarray:
        angle = rng.uniform(low, high)
        return rng.uniform(0.1, 0.3) * np.array([np.cos(angle), 0.0, np.sin(angle)])

    shortest = 0.0
    while shortest < 0.08:
        hip_1 = np.array([-rng.uniform(0.0, 0.15), 0.0, 0.0])
        hip_2 = np.array([rng.uniform(0.0, 0.15), 0.0, 0.0]) + aside
        knee_1, knee_2 = hip_1 + towards(2.0, 4.0), hip_2 + towards(-1.0, 1.0)
        toe = np.array([rng.uniform(-0.2, 0.2), 0.0, rng.uniform(-0.45, -0.25)])
        toe += rng.uniform() * aside
        spans = [knee_1 - hip_1, toe - knee_1, knee_2 - hip_2, toe - knee_2]
        shortest = min(float(np.linalg.norm(span)) for span in spans)
    base = float(10.0 ** rng.uniform(0.0, 1.0))
    names = ("thigh_1", "shin_1", "thigh_2", "shin_2")
    rods = [
        rod(name, float(10.0 ** rng.uniform(-2.0, -0.3)), span, 0.02)
        for name, span in zip(names, spans, strict=True)
    ]
    return robot(
        f"closed_leg_{seed}",
        [
            body("base", base, (0, 0, 0), base * np.diag([0.01, 0.012, 0.008])),
            *rods,
            rod("tip", 0.01, (0.0, 0.0, 0.1), 0.02),
            joint("hip_1", "base", "thigh_1", hip_1),
            joint("knee_1", "thigh_1", "shin_1", spans[0]),
            joint("hip_2", "base", "thigh_2", hip_2),
            joint(
                "knee_2", "thigh_2", "shin_2", spans[2], kind="ball" if spatial else "continuous"
            ),
            joint("tip", "shin_1", "tip", spans[1], axis=(1, 0, 0) if spatial else (0, 1, 0)),
        ],
        [
            '<base type="free"/>',
            '<spherical joint="knee_2"/>' if spatial else "",
            loop("toe", "spherical", "shin_1", spans[1], "shin_2", spans[3]),
        ],
    )


TORSO = '<collision><origin xyz="0 0 {0}"/><geometry><box size="{1}"/></geometry></collision>'
KNEE = '<collision><geometry><sphere radius="0.06"/></geometry></collision>'
FOOT = (
    '<collision><origin xyz="0.03 0 -0.05"/><geometry><box size="0.2 0.1 0.02"/></geometry>'
    "</collision>"
)


def _ankle(parts: list[str], extension: list[str], side: str, shin: str, foot_at: Point) -> None:
    """A foot on two hinges, turned by two cranks on the shin through light rods on ball joints."""
    at = np.asarray(foot_at, dtype=float)
    parts += [
        box(f"{side}_cross", 0.05, (0.03, 0.03, 0.03)),
        joint(f"{side}_ankle_pitch", shin, f"{side}_cross", at, (0, 1, 0)),
        box(f"{side}_foot", 0.8, (0.2, 0.1, 0.04), (0.03, 0, -0.04), FOOT),
        joint(f"{side}_ankle_roll", f"{side}_cross", f"{side}_foot", (0, 0, 0), (1, 0, 0)),
    ]
    for name, y, height in (("a", 0.035, 0.22), ("b", -0.035, 0.28)):
        crank, push = f"{side}_crank_{name}", f"{side}_rod_{name}"
        arm, down = np.array([-0.05, 0.0, 0.0]), np.array([0.0, 0.0, -height])
        parts += [
            rod(crank, 0.05, arm, 0.008),
            joint(f"{crank}_joint", shin, crank, at + np.array([0.0, y, height])),
            rod(push, 0.03, down, 0.003),
            joint(f"{push}_ball", crank, push, arm, kind="ball"),
        ]
        extension += [
            f'<spherical joint="{push}_ball"/>',
            loop(f"{push}_end", "spherical", push, down, f"{side}_foot", (-0.05, y, 0.0)),
        ]


def talos_like() -> str:
    """Two legs of a heavy humanoid: knees through four-bar linkages, ankles through rods."""
    parts = [box("pelvis", 30.0, (0.3, 0.4, 0.6), (0, 0, 0.3), TORSO.format(0.3, "0.3 0.4 0.6"))]
    extension, drives = ['<base type="free"/>'], []
    for side, y in (("left", 0.1), ("right", -0.1)):
        parts += [
            box(f"{side}_hip", 1.0, (0.08, 0.08, 0.08)),
            joint(f"{side}_hip_roll", "pelvis", f"{side}_hip", (0, y, 0), (1, 0, 0)),
            rod(f"{side}_thigh", 5.0, (0, 0, -0.38), 0.06),
            joint(f"{side}_hip_pitch", f"{side}_hip", f"{side}_thigh", (0, 0, 0), rpy=(0, -0.4, 0)),
            rod(f"{side}_shin", 3.0, (0, 0, -0.36), 0.05, KNEE),
            joint(f"{side}_knee", f"{side}_thigh", f"{side}_shin", (0, 0, -0.38), rpy=(0, 0.8, 0)),
        ]
        # crank high on the thigh, rod to a point behind the knee
        back = pin.rpy.rpyToMatrix(0.0, 0.8, 0.0) @ np.array([-0.05, 0.0, 0.0])
        start = np.array([-0.05, 0.0, -0.08])
        down = np.array([0.0, 0.0, -0.38]) + back - start
        parts += [
            rod(f"{side}_knee_crank", 0.2, (-0.05, 0, 0), 0.01),
            joint(f"{side}_knee_motor", f"{side}_thigh", f"{side}_knee_crank", (0, 0, -0.08)),
            rod(f"{side}_knee_rod", 0.1, down, 0.005),
            joint(f"{side}_knee_pin", f"{side}_knee_crank", f"{side}_knee_rod", (-0.05, 0, 0)),
        ]
        extension.append(
            loop(
                f"{side}_knee_end",
                "revolute",
                f"{side}_knee_rod",
                down,
                f"{side}_shin",
                (-0.05, 0, 0),
                axis="0 1 0",
            )
        )
        # the shin leans back by 0.4: turn the foot level again
        _ankle(parts, extension, side, f"{side}_shin", (0, 0, -0.36))
        drives += [f"{side}_hip_roll", f"{side}_hip_pitch", f"{side}_knee_motor"]
        drives += [f"{side}_crank_a_joint", f"{side}_crank_b_joint"]
    parts.append(actuated(*drives))
    return robot("talos_like", parts, extension)


def digit_like() -> str:
    """Two legs with a tarsus that a light rod from the hip holds, and toes on two rods."""
    parts = [box("pelvis", 15.0, (0.2, 0.3, 0.4), (0, 0, 0.2), TORSO.format(0.2, "0.2 0.3 0.4"))]
    extension, drives = ['<base type="free"/>'], []
    for side, y in (("left", 0.12), ("right", -0.12)):
        parts += [
            box(f"{side}_hip", 1.0, (0.08, 0.08, 0.08)),
            joint(f"{side}_hip_roll", "pelvis", f"{side}_hip", (0, y, 0), (1, 0, 0)),
            box(f"{side}_yaw", 0.5, (0.06, 0.06, 0.06)),
            joint(f"{side}_hip_yaw", f"{side}_hip", f"{side}_yaw", (0, 0, 0), (0, 0, 1)),
            rod(f"{side}_thigh", 4.0, (0, 0, -0.4), 0.05),
            joint(f"{side}_hip_pitch", f"{side}_yaw", f"{side}_thigh", (0, 0, 0), rpy=(0, -0.6, 0)),
            rod(f"{side}_shin", 1.0, (0, 0, -0.3), 0.03, KNEE),
            joint(
                f"{side}_knee", f"{side}_thigh", f"{side}_shin", (0, 0, -0.4), rpy=(0, 1.2, 0)
            ),
            rod(f"{side}_tarsus", 1.0, (0, 0, -0.35), 0.03),
            joint(
                f"{side}_tarsus_joint", f"{side}_shin", f"{side}_tarsus", (0, 0, -0.3),
                rpy=(0, -0.6, 0),
            ),
        ]  # fmt: skip
        # the rod from behind the hip to the heel of the tarsus
        thigh = pin.SE3(pin.rpy.rpyToMatrix(0.0, 1.2, 0.0), np.array([0.0, 0.0, -0.4]))
        tarsus = pin.SE3(pin.rpy.rpyToMatrix(0.0, -0.6, 0.0), np.array([0.0, 0.0, -0.3]))
        heel, start = np.array([-0.08, 0.0, 0.02]), np.array([-0.06, 0.0, 0.0])
        down = thigh.act(tarsus.act(heel)) - start
        parts += [
            rod(f"{side}_heel_rod", 0.15, down, 0.005),
            joint(f"{side}_heel_ball", f"{side}_thigh", f"{side}_heel_rod", start, kind="ball"),
        ]
        extension += [
            f'<spherical joint="{side}_heel_ball"/>',
            loop(f"{side}_heel_end", "spherical", f"{side}_heel_rod", down, f"{side}_tarsus", heel),
        ]
        _ankle(parts, extension, side, f"{side}_tarsus", (0, 0, -0.35))
        drives += [f"{side}_hip_roll", f"{side}_hip_yaw", f"{side}_hip_pitch", f"{side}_knee"]
        drives += [f"{side}_crank_a_joint", f"{side}_crank_b_joint"]
    parts.append(actuated(*drives))
    return robot("digit_like", parts, extension)


FIXED: dict[str, Callable[[], str]] = {
    "delta": delta,
    "stewart": stewart,
    "rssr": rssr,
    "bennett": bennett,
    "parallel cranks": parallel_cranks,
}
FREE_BASE: dict[str, Callable[[], str]] = {
    "twice hinged": twice_hinged,
    "digit-like": digit_like,
    "talos-like": talos_like,
}
