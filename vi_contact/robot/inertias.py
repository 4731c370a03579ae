"""Inertia where a motion has none: without it the motion would not be defined."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pinocchio as pin

from vi_contact.errors import ModelError
from vi_contact.robot.assembly import motion_subspace
from vi_contact.robot.checks import GYRATION, TRIANGLE_SLACK
from vi_contact.robot.parts import Array
from vi_contact.robot.report import Finding, Outcome

LEAF_INERTIA = 1e-6
"""Moment of inertia given to a movable part that has none [kg m2]: a 10 g ball of 16 mm radius."""

LEAF_MASS = 1e-3
"""Mass given to a sliding part that has none [kg]."""

DENSITY = 8e3
"""Of steel [kg/m3]: a part with mass and no inertia is given that of a solid ball, the least that a
part of this mass can have."""

POSTURES = 4
"""Configurations looked at: neutral inside the limits, and some about pinocchio's neutral one."""

STILL = 1e-8
"""Singular values of the bodies' motion below this are motions that move no inertia."""

LIGHT = 1e-9
"""A joint with this small a part of the inertia that it has with the joints beyond it locked moves
almost none: robots have 1e-4 and more."""

NOTHING = 1e-30
"""Inertia that is none [kg, kg m2]."""

LIGHT_SHARE = 1e-6
"""Of that inertia, what such a joint is given at least."""


def check_model(model: pin.Model) -> None:
    """Masses, inertias and limits of a pinocchio model are possible, or ModelError."""
    for name, inertia in zip(model.names, model.inertias, strict=True):
        values = np.concatenate([[inertia.mass], inertia.lever, np.ravel(inertia.inertia)])
        if not np.isfinite(values).all():
            raise ModelError(f"the inertia at joint '{name}' has values that are not finite")
        moments = np.linalg.eigvalsh(inertia.inertia)
        if inertia.mass < 0.0 or moments[0] < -TRIANGLE_SLACK * abs(moments[2]):
            raise ModelError(
                f"joint '{name}' carries {inertia.mass:g} kg with the principal moments "
                f"{' '.join(f'{moment:.4g}' for moment in moments)} kg m2: neither can be negative"
            )
    for name, joint in list(zip(model.names, model.joints, strict=True))[1:]:
        span = slice(joint.idx_q, joint.idx_q + joint.nq)
        lower, upper = model.lowerPositionLimit[span], model.upperPositionLimit[span]
        if not (lower <= upper).all():
            raise ModelError(f"joint '{name}': lower limit {lower} is above upper {upper}")


def rotor_findings(model: pin.Model) -> list[Finding]:
    """Makes rotor inertias, times gear squared, the armature of joints that have none."""
    reflected = np.asarray(model.rotorInertia) * np.asarray(model.rotorGearRatio) ** 2
    taken = (reflected > 0.0) & (np.asarray(model.armature) == 0.0)
    model.armature[taken] = reflected[taken]
    message = "rotorInertia rotorGearRatio^2 is taken as its armature"
    return [
        Finding(Outcome.USED, f"joint '{name}'", message)
        for name, joint in list(zip(model.names, model.joints, strict=True))[1:]
        if taken[joint.idx_v : joint.idx_v + joint.nv].any()
    ]


def inertia_findings(model: pin.Model, file: str) -> list[Finding]:
    """Completes the model's inertias; says which, and which massless links stay as they are."""
    completed = complete_inertias(model)
    findings = []
    for i in range(1, model.njoints):
        element = f"joint '{model.names[i]}'"
        if i in completed:
            mass, moment = completed[i]
            words = [f"a mass of {mass:g} kg"] if mass else []
            words += [f"a moment of inertia of {moment:g} kg m2"] if moment else []
            message = (
                f"moves parts without inertia, or with next to none: given {' and '.join(words)}"
            )
            findings.append(Finding(Outcome.APPROXIMATED, element, message, file, physics=True))
        elif model.inertias[i].mass == 0.0:
            message = "moves a massless link whose subtree has mass: kept as it is, exact"
            findings.append(Finding(Outcome.USED, element, message, file))
    return findings


def complete_inertias(model: pin.Model) -> dict[int, tuple[float, float]]:
    """Gives parts without inertia a small one, in place, where a motion would have none.

    A massless link needs none if every motion of the robot moves some inertia, in every one of some
    configurations. Returns what was added by joint index: mass [kg], moment of inertia [kg m2].
    """
    added: dict[int, tuple[float, float]] = {}

    def add(i: int, dofs: Iterable[int], least: float = 0.0) -> None:
        """What the joint's given degrees of freedom need: mass to slide, inertia to turn."""
        S = motion_subspace(model, i)[:, list(dofs)]
        old = model.inertias[i]
        ball = 0.4 * old.mass * (3.0 * old.mass / (4.0 * np.pi * DENSITY)) ** (2.0 / 3.0)
        turn = max(LEAF_INERTIA, least, ball if len(_felt(old)) < 6 else 0.0)
        mass = max(LEAF_MASS, least) if np.any(S[:3]) else 0.0
        moment = turn if np.any(S[3:]) else 0.0
        model.inertias[i] = old + pin.Inertia(mass, old.lever, moment * np.eye(3))
        before = added.get(i, (0.0, 0.0))
        added[i] = (before[0] + mass, before[1] + moment)

    has_inertia = [len(_felt(inertia)) > 0 for inertia in model.inertias]
    for i in range(model.njoints - 1, 0, -1):  # children come after their parents
        if not has_inertia[i]:
            add(i, range(model.joints[i].nv))
        has_inertia[model.parents[i]] |= has_inertia[i]
    postures = _postures(model)
    for most in (0, 5):  # first massless bodies; then, if that was not enough, points and rods
        idle = np.any([_idle(model, q) for q in postures], axis=0)
        if not idle.any():
            break
        for i in range(1, model.njoints):
            joint = model.joints[i]
            dofs = np.flatnonzero(idle[joint.idx_v : joint.idx_v + joint.nv])
            if len(dofs) and len(_felt(model.inertias[i])) <= most:
                add(i, dofs)
    for q in postures:
        for i, (light, locked) in _light(model, q).items():
            add(i, light, LIGHT_SHARE * locked)
    return added


def _postures(model: pin.Model) -> list[Array]:
    """Configurations (nq,) in which every motion is to have inertia."""
    neutral = pin.neutral(model)
    inside = neutral.copy()
    for joint in list(model.joints)[1:]:
        if joint.nq == 1:
            k = joint.idx_q
            low, high = model.lowerPositionLimit[k], model.upperPositionLimit[k]
            inside[k] = np.clip(neutral[k], low, high)
    rng = np.random.default_rng(0)
    return [inside] + [
        pin.integrate(model, neutral, 0.3 * rng.normal(size=model.nv)) for _ in range(POSTURES - 1)
    ]


def _felt(inertia: pin.Inertia) -> Array:
    """(k, 6) directions of a body's motion, at its centre of mass, that carry kinetic energy."""
    moments, axes = np.linalg.eigh(inertia.inertia)
    turns = moments > max(inertia.mass * GYRATION**2, 1e-12 * moments[2])
    rows = np.zeros((6, 6))
    rows[:3, :3] = (inertia.mass > 0.0) * np.eye(3)
    rows[3:, 3:] = turns[:, None] * axes.T
    return rows[rows.any(axis=1)]


def _idle(model: pin.Model, q: Array) -> Array:
    """(nv,) whether a degree of freedom takes part in a motion from q without kinetic energy.

    The mass matrix is singular then. Such a motion leaves every body of full inertia at rest, so
    the joints between those are looked at group by group.
    """
    felt = [_felt(inertia) for inertia in model.inertias]
    groups: dict[int, list[int]] = {}
    group_of = [0] * model.njoints
    for i in range(1, model.njoints):
        parent = model.parents[i]
        at_rest = parent == 0 or len(felt[parent]) == 6
        group_of[i] = i if at_rest else group_of[parent]
        groups.setdefault(group_of[i], []).append(i)
    idle = np.zeros(model.nv, dtype=bool)
    for group in groups.values():
        if any(len(felt[i]) < 6 for i in group):
            idle |= _idle_in_group(model, felt, group, q)
    return idle


def _idle_in_group(model: pin.Model, felt: list[Array], group: list[int], q: Array) -> Array:
    """(nv,) the null space of the group's motions in the directions that carry energy.

    Compared with that of the mass matrix its conditioning does not suffer from small masses.
    """
    placements: dict[int, pin.SE3] = {}
    ancestors: dict[int, list[int]] = {}
    columns: dict[int, Array] = {}
    position = {k: n for n, k in enumerate(k for i in group for k in _dofs(model, i))}
    rows = [np.diag([float(model.armature[k] > 0.0) for k in position])]
    for i in group:
        parent = model.parents[i]
        data = model.joints[i].createData()
        model.joints[i].calc(data, q)
        placement = placements.get(parent, pin.SE3.Identity()) * model.jointPlacements[i] * data.M
        moved = placement.action @ np.asarray(data.S).reshape(6, -1)
        columns.update(zip(_dofs(model, i), moved.T, strict=True))
        placements[i] = placement
        ancestors[i] = ancestors.get(parent, []) + _dofs(model, i)
        inertia = model.inertias[i]
        com = inertia.lever if inertia.mass > 0.0 else np.zeros(3)
        to_com = pin.SE3(placement.rotation, placement.act(com)).actionInverse
        block = np.zeros((len(felt[i]), len(position)))
        block[:, [position[k] for k in ancestors[i]]] = (
            felt[i] @ to_com @ np.array([columns[k] for k in ancestors[i]]).T
        )
        rows.append(block)
    _, singular, directions = np.linalg.svd(np.vstack(rows), full_matrices=False)
    null = directions[singular < STILL * max(singular.max(initial=0.0), 1.0)]
    idle = np.zeros(model.nv, dtype=bool)
    idle[list(position)] = np.linalg.norm(null, axis=0) > 1e-6
    return idle


def _light(model: pin.Model, q: Array) -> dict[int, tuple[list[int], float]]:
    r"""Joints that take part in motions from q of almost no inertia.

    Of each the degrees of freedom, counted within the joint, and the inertia of the largest with
    all joints beyond it locked. By the articulated-body algorithm :math:`M = L^\top D L`: a pivot
    :math:`S^\top I^A S` of D is a joint's inertia with the joints beyond it free to follow; that
    with them locked is :math:`S^\top I^c S`, on the diagonal of M.
    """
    count = model.njoints
    free = [inertia.matrix() for inertia in model.inertias]
    whole = [matrix.copy() for matrix in free]
    nothing: Array = np.zeros(0)
    to_child, S, answer, locked = ([nothing] * count for _ in range(4))
    starts: dict[int, Array] = {}
    for i in range(count - 1, 0, -1):
        data, dofs = model.joints[i].createData(), _dofs(model, i)
        model.joints[i].calc(data, q)
        S[i] = np.asarray(data.S).reshape(6, -1)
        rotor = np.diag(np.asarray(model.armature)[dofs])
        locked[i] = (S[i].T @ whole[i] @ S[i] + rotor).diagonal()
        scale = 1.0 / np.sqrt(np.maximum(locked[i], NOTHING))
        pivot = scale[:, None] * (S[i].T @ free[i] @ S[i] + rotor) * scale
        shares, axes = np.linalg.eigh(pivot)
        if shares[0] < LIGHT:
            starts[i] = scale * axes[:, 0]
        inverse = axes @ np.diag(1.0 / np.maximum(shares, LIGHT**2)) @ axes.T
        answer[i] = scale[:, None] * inverse * scale @ S[i].T @ free[i]
        X: Array = (model.jointPlacements[i] * data.M).inverse().action
        to_child[i] = X
        parent = model.parents[i]
        free[parent] = free[parent] + X.T @ (free[i] - free[i] @ S[i] @ answer[i]) @ X
        whole[parent] = whole[parent] + X.T @ whole[i] @ X
    found: dict[int, tuple[list[int], float]] = {}
    for start, way in starts.items():
        motion: dict[int, Array] = {start: S[start] @ way}
        sizes = {start: np.sqrt(locked[start]) * np.abs(way)}
        for i in range(start + 1, count):
            if model.parents[i] in motion:
                carried = to_child[i] @ motion[model.parents[i]]
                follows = -answer[i] @ carried
                motion[i] = carried + S[i] @ follows
                sizes[i] = np.sqrt(locked[i]) * np.abs(follows)
        largest = max(size.max(initial=0.0) for size in sizes.values())
        for i, size in sizes.items():
            moves = np.flatnonzero(size > 0.1 * largest).tolist()
            if moves:
                found[i] = moves, float(locked[i].max())
    return found


def _dofs(model: pin.Model, i: int) -> list[int]:
    joint = model.joints[i]
    return list(range(joint.idx_v, joint.idx_v + joint.nv))
