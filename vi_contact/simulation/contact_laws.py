"""Event-driven contact: contact times are solved for, then the law says what happens.

The numbers in brackets are equations of Koch and Leyendecker, Structure preserving simulation of
monopedal jumping.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.optimize import brentq, nnls

from vi_contact.errors import ArgumentError
from vi_contact.robot.parts import Array, setting
from vi_contact.simulation.events import crossing

if TYPE_CHECKING:
    from vi_contact.simulation.hybrid import Drive, HybridMotion, Node, Part

SHORT = 1e-5
"""Of the time step: before a shorter rest of it, the energy of the node is kept instead of (10)."""

NEAR = 0.02
"""How far (10) may take the impulse from the reflecting one; for a fall by 0.3 m it is 1e-4."""

PULL_TOLERANCE = 1e-9
"""Of the weight times the step: a foot that pulls less than this on the ground stands."""


class Release(NamedTuple):
    """How a foot came off: the parts of the step until then, which foot, refinements needed."""

    parts: Sequence[Part]
    contact: int
    refinements: int


class ContactLaw(ABC):
    """What happens when contacts touch the ground, and while they stay there."""

    @abstractmethod
    def touch(
        self,
        motion: HybridMotion,
        part: Part | None,
        node: Node,
        contacts: Sequence[int],
        end: float,
        drive: Drive,
    ) -> Node:
        """The node after contacts touched at it; `part` led there, the step goes on to `end`."""

    def release(
        self, motion: HybridMotion, node: Node, part: Part, end: float, drive: Drive
    ) -> Release | None:
        """Where held contacts come off within a part of a step, if they do."""
        return None

    def release_here(
        self, motion: HybridMotion, node: Node, part: Part, end: float, drive: Drive
    ) -> Release | None:
        """Whether a held contact comes off at the node itself; before another one touches there."""
        return None

    def held_at_start(self, motion: HybridMotion, node: Node) -> Sequence[int]:
        """Contacts that are held from the start."""
        return ()


@setting("contact")
@dataclass(frozen=True)
class ElasticContact(ContactLaw):
    """Perfectly elastic and frictionless: an impulse along the normal that keeps the energy.

    The velocity at the contact is reflected: momentum takes the impulse, and the energy of the node
    is kept. Tangential momentum is kept, too. Contacts that touch at once share one balance, in the
    ratio of impulses that reflects each of their normal velocities.

    With balance="interval" the discrete energy balance (10) holds instead, between the interval
    that ends at the contact and the one that goes on to the time grid.
    """

    balance: str = "node"
    """ "node": the energy of the node; "interval": the discrete energy (10), as published."""

    def __post_init__(self) -> None:
        if self.balance not in ("interval", "node"):
            raise ArgumentError("balance", self.balance, '"interval" or "node"')

    def touch(
        self,
        motion: HybridMotion,
        part: Part | None,
        node: Node,
        contacts: Sequence[int],
        end: float,
        drive: Drive,
    ) -> Node:
        """Finds the impulse that keeps the energy of the node, or the discrete one (10)."""
        rows = motion.normal_rows(node, contacts)
        approach = rows @ node.state.v
        coming = approach < 0.0
        if not coming.any():
            return node
        rows, hit = rows[coming], [i for i, comes in zip(contacts, coming, strict=True) if comes]
        responses = np.array([motion.pushed(node, row).state.v - node.state.v for row in rows])
        impulses = nnls(rows @ responses.T, -2.0 * approach[coming])[0]
        push = impulses @ rows
        rest = end - node.time
        scale = 1.0  # keeps the energy of the node, up to rounding
        by_interval = self.balance == "interval" and rest >= SHORT * motion.time_step
        if part is not None and by_interval:
            arriving = part.excess + 0.5 * (part.potential + node.state.potential)

            def excess(scale: float) -> float:
                after = motion.attempt(motion.pushed(node, scale * push), rest, end, drive)
                leaving = 0.5 * (node.state.potential + after.node.state.potential)
                return float(after.excess + leaving - arriving)

            scale = _outer_root(excess)
        kicks = tuple(
            (contact, scale * impulse * motion.normal)
            for contact, impulse in zip(hit, impulses, strict=True)
        )
        return motion.pushed(node, scale * push)._replace(kicks=kicks)


def _outer_root(excess: Callable[[float], float]) -> float:
    """Of a function like s (s - 1), the root near 1: energy over the scaled reflecting impulse.

    A half takes the contacts' normal velocity to zero, where the energy is least. Contacts that
    graze the ground, slower than they fall in a step, or whose robot runs into a joint limit just
    then, may have no root near: then the velocity of the node is reflected, which keeps its energy.
    """
    low, high = 1.0 - NEAR, 1.0 + NEAR
    if excess(low) >= 0.0 or excess(high) <= 0.0:
        return 1.0
    return float(brentq(excess, low, high, xtol=1e-15, rtol=1e-15))


@setting("contact")
@dataclass(frozen=True)
class PlasticContact(ContactLaw):
    """Perfectly plastic: a foot that touches is held by a spherical joint until it would pull.

    A foot that could only be held by a pull, but would sink into the ground if it were let go,
    slips without friction until it lifts: no contact ever pulls.

    Where the normal multiplier changes sign within a step, the step is cut at the length for which
    it is zero (12). Where the multiplier is still positive over the whole step, but no length of
    the next one makes it zero, the step is refined until a length does: by bisection, or in
    2, 3, ... equal parts.
    """

    refinement: str = "bisection"
    """ "bisection" or "subdivision"."""
    max_refinements: int = 20
    """After so many, the foot comes off at the first node where it pulls; 20 halve 10 ms to 10 ns.
    """

    def __post_init__(self) -> None:
        if self.refinement not in ("bisection", "subdivision"):
            raise ArgumentError("refinement", self.refinement, '"bisection" or "subdivision"')
        if not (isinstance(self.max_refinements, int) and self.max_refinements >= 1):
            raise ArgumentError("max_refinements", self.max_refinements, "a number from 1 on")

    def held_at_start(self, motion: HybridMotion, node: Node) -> Sequence[int]:
        """Contacts on the ground that do not leave it."""
        gaps = motion.gaps(node.state)
        touching = [int(i) for i in np.flatnonzero(gaps <= motion.start_tolerance)]
        speeds = motion.normal_rows(node, touching) @ node.state.v
        return [i for i, speed in zip(touching, speeds, strict=True) if speed <= 1e-9]

    def touch(
        self,
        motion: HybridMotion,
        part: Part | None,
        node: Node,
        contacts: Sequence[int],
        end: float,
        drive: Drive,
    ) -> Node:
        """Holds the contacts where they are; those for which that would take a pull, slip."""
        held = motion.holding(node, contacts)
        pulls = {
            hold.contact
            for hold, rest in zip(held.held, motion.rest(held), strict=True)
            if hold.contact in contacts and rest < 0.0
        }
        if not pulls:
            return held
        return motion.holding(motion.holding(node, set(contacts) - pulls), pulls, slips=True)

    def release(
        self, motion: HybridMotion, node: Node, part: Part, end: float, drive: Drive
    ) -> Release | None:
        """The release (12) within a part, refined if need be."""
        if self._pulling(motion, node, part.pushes):
            parts, contact = self._cut(motion, node, part, end, drive)
            return Release(parts, contact, 0)
        if not self._pulling(motion, part.node, motion.rest(part.node)):
            return None
        refine = self._bisect if self.refinement == "bisection" else self._subdivide
        return refine(motion, node, part.length, drive)

    def release_here(
        self, motion: HybridMotion, node: Node, part: Part, end: float, drive: Drive
    ) -> Release | None:
        """The foot that pulls most at the node already, if one does."""
        at_node = motion.rest(node)
        pulling = self._pulling(motion, node, part.pushes)
        torn = [(at_node[k], node.held[k].contact) for k in pulling if at_node[k] <= 0.0]
        return Release([], min(torn)[1], 0) if torn else None

    def _pulling(self, motion: HybridMotion, node: Node, pushes: Array) -> list[int]:
        """Which of the held contacts pull, and may come off."""
        limit = -PULL_TOLERANCE * motion.weight_impulse
        return [
            k
            for k, hold in enumerate(node.held)
            if pushes[k] < limit and hold.contact not in node.stuck
        ]

    def _cut(
        self, motion: HybridMotion, node: Node, part: Part, end: float, drive: Drive
    ) -> tuple[list[Part], int]:
        """The shortest step from the node after which a foot that pulls has multiplier zero."""
        found: list[tuple[float, float, int]] = []
        at_node = motion.rest(node)
        for k in self._pulling(motion, node, part.pushes):
            contact = node.held[k].contact
            if at_node[k] <= 0.0:  # it pulls at the node already: the most pulled one goes first
                found.append((0.0, float(at_node[k]), contact))
                continue

            def push(h: float, k: int = k) -> float:
                return float(motion.attempt(node, h, end, drive).pushes[k])

            length = crossing(push, 0.0, part.length, float(at_node[k]), float(part.pushes[k]))
            found.append((length, 0.0, contact))
        length, _, contact = min(found)
        if length < motion.shortest:
            return [], contact
        return [motion.attempt(node, length, end, drive)], contact

    def _most_pulled(self, motion: HybridMotion, node: Node) -> int:
        pairs = zip(motion.rest(node), (hold.contact for hold in node.held), strict=True)
        return min((rest, contact) for rest, contact in pairs if contact not in node.stuck)[1]

    def _bisect(self, motion: HybridMotion, node: Node, length: float, drive: Drive) -> Release:
        """Halves the interval; the half in which the multiplier changes sign is kept."""
        done: list[Part] = []
        for k in range(1, self.max_refinements + 1):
            half = 0.5 * length
            first = motion.attempt(node, half, node.time + half, drive)
            if self._pulling(motion, node, first.pushes):
                parts, contact = self._cut(motion, node, first, node.time + half, drive)
                return Release([*done, *parts], contact, k)
            if not self._pulling(motion, first.node, motion.rest(first.node)):
                middle, end = first.node, node.time + length
                second = motion.attempt(middle, end - middle.time, end, drive)
                done, node = [*done, first], middle
                if self._pulling(motion, middle, second.pushes):
                    parts, contact = self._cut(motion, middle, second, end, drive)
                    return Release([*done, *parts], contact, k)
            length = half
        last = motion.attempt(node, length, node.time + length, drive)
        return Release([*done, last], self._most_pulled(motion, last.node), self.max_refinements)

    def _subdivide(self, motion: HybridMotion, node: Node, length: float, drive: Drive) -> Release:
        """The interval in p = 2, 3, ... equal parts."""
        path: list[Part] = []
        for p in range(2, self.max_refinements + 2):
            path, start = [], node
            for j in range(1, p + 1):
                end = node.time + length * j / p
                part = motion.attempt(start, end - start.time, end, drive)
                if self._pulling(motion, start, part.pushes):
                    parts, contact = self._cut(motion, start, part, end, drive)
                    return Release([*path, *parts], contact, p)
                path.append(part)
                start = part.node
                if self._pulling(motion, start, motion.rest(start)):
                    break  # the next release time would lie before this node
        return Release(path, self._most_pulled(motion, path[-1].node), self.max_refinements + 1)
