"""What the contacts of a robot did during a simulation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from vi_contact.errors import ContactNotFoundError, LinkNotFoundError
from vi_contact.robot.maximal import rotation_matrices
from vi_contact.robot.parts import Array, Record


@dataclass(frozen=True)
class ContactRecord:
    """One contact over N steps."""

    gap: Array
    """(N+1,) distance to the ground or of two links [m]; negative inside.

    inf where two links were farther apart than their size.
    """
    force: Array
    """(N, 3) mean force of each step, world axes [N]: of the ground on the robot, or on the first
    of two links. Over half the step before and half this one, at the start over half this one."""
    sliding: Array
    """(N,) whether it slid in a step."""

    def __repr__(self) -> str:
        size = np.linalg.norm(self.force, axis=1)
        return (
            f"ContactRecord({len(size)} steps, touches in {np.count_nonzero(size)}, slides in "
            f"{np.count_nonzero(self.sliding)}, largest force {size.max(initial=0.0):.4g} N, "
            f"smallest gap {self.gap.min():.3g} m)"
        )


@dataclass(frozen=True)
class ContactTable(Record, Mapping[str, ContactRecord]):
    """Contacts by name; each is worked out when asked for.

    Points that may touch the ground come first, then links that may touch each other or obstacles,
    such as "hand/table".
    """

    names: tuple[str, ...]
    links: tuple[str, ...]
    """(C,) link that carries each point."""
    bodies: Array
    """(C,) body that carries each point."""
    points: Array
    """(C, 3) centres in the body frames [m]."""
    radii: Array
    """(C,) [m]."""
    plane: Array
    """(4,) unit normal and height of the ground."""
    touches: Array
    """(M, 6) rows: step, contact, force in world axes, sliding."""
    link_points: Array
    """(L, 4) rows: step, point in the world at its start [m]; of the touches of links, in order."""
    link_bodies: Array
    """(P, 2) the bodies of links that may touch, WORLD for an obstacle."""
    body_gaps: Array
    """(K, 3) rows: node, contact, gap of two links."""
    p_WB: Array
    quat_WB_xyzw: Array

    def __repr__(self) -> str:
        names = ", ".join(self.names[:6]) + (", ..." if len(self.names) > 6 else "")
        return f"ContactTable({len(self)} contacts over {len(self.p_WB) - 1} steps: {names})"

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __getitem__(self, name: str) -> ContactRecord:
        if name not in self._index:
            raise ContactNotFoundError(name, self.names)
        contact, steps = self._index[name], len(self.p_WB) - 1
        force, sliding = np.zeros((steps, 3)), np.zeros(steps, dtype=bool)
        rows = self.touches[self.touches[:, 1] == contact]
        step = rows[:, 0].astype(int)
        np.add.at(force, step, rows[:, 2:5])  # a split step has several rows
        sliding[step[rows[:, 5] > 0.0]] = True
        return ContactRecord(self._gap(contact), force, sliding)

    def _gap(self, contact: int) -> Array:
        if contact >= len(self.bodies):
            gap = np.full(len(self.p_WB), np.inf)
            rows = self.body_gaps[self.body_gaps[:, 1] == contact]
            gap[rows[:, 0].astype(int)] = rows[:, 2]
            return gap
        body = int(self.bodies[contact])
        R_WB = rotation_matrices(self.quat_WB_xyzw[:, body])
        p_WC = self.p_WB[:, body] + R_WB @ self.points[contact]
        return np.asarray(p_WC @ self.plane[:3] - self.plane[3] - self.radii[contact])

    def places(self, rows: NDArray[np.intp]) -> Array:
        """(K, 3) where touches of given rows act, at the start of their steps, world axes [m]."""
        step, contact = self.touches[rows, :2].astype(int).T
        places = np.empty((len(rows), 3))
        ground = contact < len(self.bodies)
        number = np.cumsum(self.touches[:, 1] >= len(self.bodies)) - 1  # among those of links
        places[~ground] = self.link_points[number[rows[~ground]], 1:]
        step, contact = step[ground], contact[ground]
        body = self.bodies[contact].astype(int)
        R_WB = rotation_matrices(self.quat_WB_xyzw[step, body])
        p_WC = self.p_WB[step, body] + np.einsum("kij,kj->ki", R_WB, self.points[contact])
        places[ground] = p_WC - self.radii[contact, None] * self.plane[:3]
        return places

    @cached_property
    def _index(self) -> dict[str, int]:
        return {name: k for k, name in enumerate(self.names)}

    @property
    def total_force(self) -> Array:
        """(N, 3) of all contacts, world axes [N]."""
        force = np.zeros((len(self.p_WB) - 1, 3))
        np.add.at(force, self.touches[:, 0].astype(int), self.touches[:, 2:5])
        return force

    def link_force(self, link: str) -> Array:
        """(N, 3) of all contacts on a link: with the ground, obstacles, other links; world [N]."""
        sign = np.zeros(len(self.names))
        for k, name in enumerate(self.names):
            if k < len(self.links):
                sign[k] = float(self.links[k] == link)
            else:
                sign[k] = float(name.startswith(f"{link}/")) - float(name.endswith(f"/{link}"))
        if not sign.any():
            pairs = (name.split("/") for name in self.names[len(self.links) :])
            known = dict.fromkeys([*self.links, *(end for ends in pairs for end in ends)])
            raise LinkNotFoundError(link, known, "contacts")
        force = np.zeros((len(self.p_WB) - 1, 3))
        contact = self.touches[:, 1].astype(int)
        np.add.at(force, self.touches[:, 0].astype(int), sign[contact, None] * self.touches[:, 2:5])
        return force

    def impacts(self, time: Array) -> list[tuple[float, str]]:
        """(time, name) of every contact that closed, at the end of the step in which it did."""
        pairs = np.unique(self.touches[:, :2].astype(int), axis=0).reshape(-1, 2)
        known = {(int(step), int(contact)) for step, contact in pairs}
        return [
            (float(time[step + 1]), self.names[contact])
            for step, contact in sorted(known)
            if step > 0 and (step - 1, contact) not in known
        ]
