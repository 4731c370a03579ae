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

STILL = 1e-8
"""Singular values of the bodies' motion below this are motions that move no inertia."""


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
            message = f"moves parts without inertia: given {' and '.join(words)}"
            findings.append(Finding(Outcome.APPROXIMATED, element, message, file, physics=True))
        elif model.inertias[i].mass == 0.0:
            message = "moves a massless link whose subtree has mass: kept as it is, exact"
            findings.append(Finding(Outcome.USED, element, message, file))
    return findings


def complete_inertias(model: pin.Model) -> dict[int, tuple[float, float]]:
    """Gives parts without inertia a small one, in place, where a motion would have none.

    A massless link needs none if every motion of the robot moves some inertia. Returns what was
    added by joint index: mass [kg], moment of inertia [kg m2].
    """
    added: dict[int, tuple[float, float]] = {}

    def add(i: int, dofs: Iterable[int]) -> None:
        """What the joint's given degrees of freedom need: mass to slide, inertia to turn."""
        S = motion_subspace(model, i)[:, list(dofs)]
        mass = LEAF_MASS if np.any(S[:3]) else 0.0
        moment = LEAF_INERTIA if np.any(S[3:]) else 0.0
        old = model.inertias[i]
        model.inertias[i] = old + pin.Inertia(mass, old.lever, moment * np.eye(3))
        added[i] = (mass, moment)

    has_inertia = [len(_felt(inertia)) > 0 for inertia in model.inertias]
    for i in range(model.njoints - 1, 0, -1):  # children come after their parents
        if not has_inertia[i]:
            add(i, range(model.joints[i].nv))
        has_inertia[model.parents[i]] |= has_inertia[i]
    for most in (0, 5):  # first massless bodies; then, if that was not enough, points and rods
        idle = _idle(model)
        if not idle.any():
            break
        for i in range(1, model.njoints):
            joint = model.joints[i]
            dofs = np.flatnonzero(idle[joint.idx_v : joint.idx_v + joint.nv])
            if len(dofs) and len(_felt(model.inertias[i])) <= most:
                add(i, dofs)
    return added


def _felt(inertia: pin.Inertia) -> Array:
    """(k, 6) directions of a body's motion, at its centre of mass, that carry kinetic energy."""
    moments, axes = np.linalg.eigh(inertia.inertia)
    turns = moments > max(inertia.mass * GYRATION**2, 1e-12 * moments[2])
    rows = np.zeros((6, 6))
    rows[:3, :3] = (inertia.mass > 0.0) * np.eye(3)
    rows[3:, 3:] = turns[:, None] * axes.T
    return rows[rows.any(axis=1)]


def _idle(model: pin.Model) -> Array:
    """(nv,) whether a degree of freedom takes part in a motion without kinetic energy.

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
    rng = np.random.default_rng(0)
    q = pin.integrate(model, pin.neutral(model), 0.3 * rng.normal(size=model.nv))
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


def _dofs(model: pin.Model, i: int) -> list[int]:
    joint = model.joints[i]
    return list(range(joint.idx_v, joint.idx_v + joint.nv))
