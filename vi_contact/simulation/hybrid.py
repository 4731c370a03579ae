"""Motion with events: steps that end where something happens, and go on to the time grid."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import NamedTuple

import numpy as np
import pinocchio as pin
from numpy.typing import ArrayLike

from vi_contact import _core
from vi_contact.errors import ArrayError
from vi_contact.mechanics.ground import Ground
from vi_contact.robot.maximal import is_number
from vi_contact.robot.parts import WORLD, Array, JointKind, Loop, Pose
from vi_contact.robot.robot import Robot
from vi_contact.simulation.contact_laws import ContactLaw
from vi_contact.simulation.events import MOST_EVENTS, Event, Occurrence, crossing
from vi_contact.simulation.state import State

GAP_TOLERANCE = 1e-10
"""Contacts nearer to the ground than this touch together [m]; a crossing is found to 1e-15 m."""

SHORTEST = 1e-9
"""Of the time step: shorter parts of a step are left out; 1e-11 s for 10 ms."""

PROBE = 1e-6
"""Of the time step: how far to look which way something goes that starts at zero."""

MOST_RELEASES = 2
"""Of one contact within a time step. Contacts that share a load can let each other go in turns."""

NOTHING, NO_SHARES, NO_TOUCH = np.zeros(0), np.zeros((0, 3)), np.zeros((0, 5))


class Hold(NamedTuple):
    """A contact that is held on the ground."""

    contact: int
    place: tuple[float, float, float]
    """Where its centre is [m]."""
    slips: bool
    """Held along the normal only: it slips without friction."""

    @property
    def kind(self) -> JointKind:
        """Of the joint that holds it."""
        return JointKind.GLIDING if self.slips else JointKind.SPHERICAL


Held = tuple[Hold, ...]

Command = tuple[Array | None, Array | None]
"""Torques (nu,) and servos (nu, 4) over a part of a step."""

Drive = Callable[[_core.Stepper, float, float, float], Command]
"""What the drives are asked for by a stepper, from a time over a length, of an interval to an end.
"""

Check = Callable[[ArrayLike, ArrayLike], tuple[Array, Array]]
"""Checks a start as `Simulator.reset` does."""


class Node(NamedTuple):
    """A point in time at which a part of a step begins."""

    state: State
    held: Held = ()
    shares: Array = NO_SHARES
    """(H, 3) impulses that the held contacts take up at the node, world axes [N s]."""
    halves: Array = NO_SHARES
    """(H, 3) what of these belongs to the half step before; the rest is the impact's."""
    before: Array = NOTHING
    """(H,) lengths of that step [s]; zero for contacts held from this node on."""
    struck: bool = False
    """Whether contacts touched here, or the motion begins here."""
    stuck: frozenset[int] = frozenset()
    """Contacts that came off again and again in this time step: they stay until it ends."""
    fired: tuple[tuple[int, bool], ...] = ()
    """Events that happened at this node, and whether their guards came from above."""
    kicks: tuple[tuple[int, Array], ...] = ()
    """Impulses on contacts at this node, world axes [N s]."""

    @property
    def time(self) -> float:
        """[s]."""
        return self.state.time


def node_problem(node: object, contacts: int, events: int) -> str:
    """What is wrong with a node that may come from a file, but for its state's numbers; or ""."""
    if not isinstance(node, Node) or not isinstance(node.state, State):
        return "it is none at all"
    if not is_number(vars(node.state).get("_time")):
        return "its time is no number"
    if not isinstance(node.held, tuple) or not all(isinstance(hold, Hold) for hold in node.held):
        return "what it holds are no contacts"
    count = len(node.held)
    indices = [hold.contact for hold in node.held]
    sequences = (node.stuck, frozenset), (node.fired, tuple), (node.kicks, tuple)
    if not all(isinstance(value, kind) for value, kind in sequences):
        return "its events are none"
    pairs = [*node.fired, *node.kicks]
    if not all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs):
        return "its events are none"
    indices += [*node.stuck, *(contact for contact, _ in node.kicks)]
    if not all(isinstance(k, Integral) and 0 <= k < contacts for k in indices):
        return f"it names contacts that are not among the {contacts} there are"
    if not all(isinstance(k, Integral) and 0 <= k < events for k, _ in node.fired):
        return f"it names events that are not among the {events} there are"
    arrays = [(node.shares, (count, 3)), (node.halves, (count, 3)), (node.before, (count,))]
    arrays += [(np.asarray(hold.place), (3,)) for hold in node.held]
    arrays += [(kick, (3,)) for _, kick in node.kicks]
    for array, shape in arrays:
        numbers = isinstance(array, np.ndarray) and array.dtype == np.float64
        if not numbers or array.shape != shape or not np.isfinite(array).all():
            return "its impulses are not as many finite numbers as it holds contacts"
    return ""


@dataclass
class Part:
    """A step, or a part of one, and the node at its end."""

    node: Node
    length: float
    q: Array
    v: Array
    tau: Array
    command: Array | None
    works: Array
    counts: Array
    touches: Array
    """Rows: contact, mean force in world axes, sliding."""
    report: tuple[int, int, float, float, int, int, int, int]
    pushes: Array
    """(H,) normal impulses of the held contacts at the left node [N s]."""
    excess: float
    """Discrete energy of the interval less the mean of the potentials at its nodes [J]."""
    potential: float
    """At the left node [J]."""


@dataclass
class Log:
    """What a run leaves behind."""

    q: Array
    v: Array
    """At the first node."""
    gains: Array = field(default_factory=lambda: np.zeros(2))
    """Kinetic energy that changes of velocity at the first node gave: releases, impacts [J]."""
    parts: list[Part] = field(default_factory=list)
    occurrences: list[Occurrence] = field(default_factory=list)
    endless: tuple[str, ...] = ()
    """Names of events that followed each other without end; the motion ends among them."""

    def change_velocity(self, before: State, after: State, impact: bool) -> None:
        """The last node leaves with another velocity than it was reached with."""
        gain = after.kinetic - before.kinetic
        self._change_last(after.v, np.array([0.0, gain] if impact else [gain, 0.0]))

    def _change_last(self, v: Array, gains: Array) -> None:
        if self.parts:
            self.parts[-1].v = v
            self.parts[-1].works[[3, 5]] += gains
        else:
            self.v = v
            self.gains = self.gains + gains

    def extend(self, other: Log) -> None:
        """Appends what follows."""
        self._change_last(other.v, other.gains)
        self.parts += other.parts
        self.occurrences += other.occurrences


class HybridMotion:
    """Moves a robot from one point of the time grid to the next, through all events between."""

    def __init__(
        self,
        robot: Robot,
        time_step: float,
        gravity: Array,
        ground: Ground | None,
        make: Callable[[Robot, bool], _core.Stepper],
        check: Check,
        fail: Callable[[tuple[int, int, float, float, int, int, int, int]], Exception],
        law: ContactLaw | None,
        events: Sequence[Event],
    ) -> None:
        self.robot = robot
        self.time_step = time_step
        self.law = law
        self.events = tuple(events)
        self.normal = ground.unit_normal if ground else np.array([0.0, 0.0, 1.0])
        self.height = ground.height if ground else 0.0
        self.contacts = robot.contacts if law is not None and ground else ()
        self.start_tolerance = 1e-6  # as deep as a start may be, see PENETRATION_TOLERANCE
        self.shortest = SHORTEST * time_step
        self.weight_impulse = robot.mass * max(float(np.linalg.norm(gravity)), 1.0) * time_step
        self._make, self._check, self._fail = make, check, fail
        self._steppers: dict[tuple[Held, bool], _core.Stepper] = {}
        self._bodies = np.array([contact.body for contact in self.contacts], dtype=int)
        self._points = np.array([contact.p_BC for contact in self.contacts]).reshape(-1, 3)
        self._radii = np.array([contact.radius for contact in self.contacts])
        self._first_row = sum(loop.kind.rows for loop in robot.loops)
        self._wrenches: Array | None = None

    # ------------------------------------------------------------ nodes
    def start(self, q: Array, v: Array, time: float) -> Node:
        """The node at which a motion begins, its contacts held where the law says so."""
        stepper = self.stepper(())
        stepper.reset(q, v)
        node = Node(self._state(stepper, time), struck=True)
        return self.holding(node, self.law.held_at_start(self, node)) if self.law else node

    def _state(self, stepper: _core.Stepper, time: float) -> State:
        numbers = np.empty(stepper.state_size())
        stepper.get_state(numbers)
        return State(self.robot, stepper, time, numbers)

    def _node(self, stepper: _core.Stepper, time: float, held: Held, v: Array) -> Node:
        """A node from a stepper that stands at it."""
        state = self._state(stepper, time)
        stepper.get_v(v)
        return Node(state, held, self._forces(stepper.node_multipliers(), held))

    def holding(self, node: Node, contacts: Iterable[int], slips: bool = False) -> Node:
        """The node with more contacts held where they are."""
        new = list(contacts)
        if not new:
            return node
        centres = self._centres(node.state)[new]
        places = [(float(x), float(y), float(z)) for x, y, z in centres]
        holds = (Hold(i, place, slips) for i, place in zip(new, places, strict=True))
        return self._switched(node, (*node.held, *holds))

    def _without(self, node: Node, contact: int) -> Node:
        """The node with a contact let go.

        The momentum of a node is that of the robot without contacts: M v = p + G' mu, where mu is
        what they gave in the half step before. A foot that an impact tears off has given it, so it
        goes into p. One that comes off by itself does so where its multiplier is zero (12).
        """
        [k] = [k for k, hold in enumerate(node.held) if hold.contact == contact]
        if node.struck and node.halves[k].any():
            self._place(node)
            node = self.pushed(node, self._row(contact, node.halves[k]))
        return self._switched(node, tuple(hold for hold in node.held if hold.contact != contact))

    def _switched(self, node: Node, held: Held) -> Node:
        stepper = self.stepper(held)
        stepper.set_state(node.state._numbers)
        switched = self._node(stepper, node.time, held, np.empty(self.robot.nv))
        known = dict(zip(node.held, zip(node.halves, node.before, strict=True), strict=True))
        past = [known.get(hold, (np.zeros(3), 0.0)) for hold in held]
        halves = np.array([half for half, _ in past]).reshape(-1, 3)
        return switched._replace(
            halves=halves if node.struck else switched.shares,
            before=np.array([length for _, length in past]),
            stuck=node.stuck,
            struck=node.struck,
        )

    def pushed(self, node: Node, impulse: Array) -> Node:
        """The node with a generalised impulse (nv,) added to its momentum."""
        stepper = self.stepper(node.held)
        stepper.set_state(node.state._numbers)
        stepper.push(impulse)
        return node._replace(state=self._state(stepper, node.time))

    def stepper(self, held: Held, exact: bool = True) -> _core.Stepper:
        """The stepper of the robot with spherical joints to the ground where contacts are held.

        The exact one solves to round-off, as times are sensitive. Feet of one body that were held
        one after the other may not fit together so well: then the usual tolerances must do.
        """
        key = held, exact
        if key not in self._steppers:
            loops = tuple(self._foot(hold) for hold in held)
            robot = self.robot.with_parts(loops=(*self.robot.loops, *loops)) if held else self.robot
            kept = [other for other in self._steppers if other[0] in ((), held)]
            self._steppers = {other: self._steppers[other] for other in kept}
            self._steppers[key] = self._make(robot, exact)
        return self._steppers[key]

    def _foot(self, hold: Hold) -> Loop:
        part, identity = self.contacts[hold.contact], np.array([0.0, 0.0, 0.0, 1.0])
        return Loop(
            name=part.name,
            kind=hold.kind,
            parent=WORLD,
            child=part.body,
            frame_parent=Pose(np.array(hold.place), identity),
            frame_child=Pose(part.p_BC.copy(), identity.copy()),
            axis=self.normal.copy(),
            axis2=self.normal.copy(),
            links=("world", part.link),
        )

    # ------------------------------------------------------------ geometry
    def _centres(self, state: State) -> Array:
        """(C, 3) of the contacts: p + R(Q) r with R(Q) r = r + w t + u x t, t = 2 u x r."""
        x, y, z, w = state.quat_WB_xyzw[self._bodies].T
        a, b, c = self._points.T
        s, t, r = 2.0 * (y * c - z * b), 2.0 * (z * a - x * c), 2.0 * (x * b - y * a)
        turned = np.array(
            [a + w * s + y * r - z * t, b + w * t + z * s - x * r, c + w * r + x * t - y * s]
        )
        return state.p_WB[self._bodies] + turned.T

    def gaps(self, state: State) -> Array:
        """(C,) of all contacts [m]."""
        if not self.contacts:
            return np.zeros(0)
        return self._centres(state) @ self.normal - self.height - self._radii

    def normal_rows(self, node: Node, contacts: Sequence[int]) -> Array:
        """(k, nv): normal velocities of contacts are these rows times v."""
        self._place(node)
        rows = [self._row(i, self.normal) for i in contacts]
        return np.array(rows).reshape(-1, self.robot.nv)

    def _place(self, node: Node) -> None:
        pin.computeJointJacobians(self.robot.model, self.robot.data, node.state.q)

    def _row(self, contact: int, direction: Array) -> Array:
        """(nv,): times v, the velocity of a contact's centre along a direction, where placed."""
        part, data = self.contacts[contact], self.robot.data
        jacobian = pin.getJointJacobian(
            self.robot.model, data, part.body + 1, pin.ReferenceFrame.LOCAL_WORLD_ALIGNED
        )
        lever = data.oMi[part.body + 1].rotation @ (self.robot.bodies[part.body].com + part.p_BC)
        row: Array = direction @ jacobian[:3] + np.cross(lever, direction) @ jacobian[3:]
        return row

    def rest(self, node: Node) -> Array:
        """(H,) normal impulses that the held contacts take up at a node [N s]; below zero: pull."""
        return node.shares @ self.normal

    def _mean_forces(self, node: Node, impulses: Array, length: float) -> Array:
        """(H, 3) [N], from the impulses (H, 3) at the left node of a step.

        But for what an impact there takes, they act over half the step before and half this one.
        """
        impacts = node.shares - node.halves
        forces = (impulses - impacts) / (0.5 * (node.before + length))[:, None] + impacts / length
        pulls = forces @ self.normal < 0.0  # after an impact, and comes off at the next node
        forces[pulls] = impulses[pulls] / length
        return forces

    def _forces(self, multipliers: Array, held: Held) -> Array:
        """(H, 3) impulses on the held contacts, world axes."""
        if not held:
            return NO_SHARES
        forces, row = [], self._first_row
        for hold in held:
            force = multipliers[row : row + hold.kind.rows]
            forces.append(force[0] * self.normal if hold.slips else force)
            row += hold.kind.rows
        return np.array(forces)

    # ------------------------------------------------------------ steps
    def attempt(self, node: Node, length: float, end: float, drive: Drive) -> Part:
        """A part of given length of the interval from the node to `end`."""
        robot = self.robot
        torques, servos = drive(self.stepper(node.held), node.time, length, end)
        potential = node.state.potential  # before the stepper moves: it computes this, too
        q, v, tau = np.empty((2, robot.nq)), np.empty((2, robot.nv)), np.zeros((1, robot.nu))
        works, counts = np.empty((1, 6)), np.empty((1, 6))
        for exact in (True, False):
            stepper = self.stepper(node.held, exact)
            stepper.set_servos(servos)
            stepper.set_state(node.state._numbers)
            _, report = stepper.run(
                1, torques, False, self._wrenches, q, v, tau, works, counts, length
            )
            if not report[0]:
                break
        if report[0]:
            raise self._fail(report)
        impulses, excess = stepper.multipliers(), stepper.interval_energy()
        rows = []
        if node.held:
            forces = self._mean_forces(node, self._forces(impulses, node.held), length)
            for hold, force in zip(node.held, forces, strict=True):
                rows.append([hold.contact, *force, float(hold.slips)])
        rows += [[i, *(kick / length), 0.0] for i, kick in node.kicks]
        touches = NO_TOUCH if self.law else stepper.log()[:, 1:]
        if rows:
            touches = np.array(rows)
        time = node.time + length
        if abs(end - time) < self.shortest:
            time = end
        arrived = self._node(stepper, time, node.held, v[1])
        before = np.full(len(node.held), length)
        return Part(
            node=arrived._replace(halves=arrived.shares, before=before, stuck=node.stuck),
            length=length,
            q=q[1],
            v=v[1],
            tau=tau[0],
            command=torques,
            works=works[0],
            counts=counts[0],
            touches=touches,
            report=(*report[:6], len(node.held) if self.law else report[6], report[7]),
            pushes=self._forces(impulses, node.held) @ self.normal,
            excess=excess,
            potential=potential,
        )

    def advance(
        self, node: Node, end: float, drive: Drive, wrenches: Array | None = None
    ) -> tuple[Node, Log, bool]:
        """From a node to `end`; the node there, what happened, and whether to stop."""
        self._wrenches = wrenches
        log = Log(node.state.q, node.state.v)
        stop = False
        names: list[str] = []
        while end - node.time > self.shortest and not stop:
            if len(names) > MOST_EVENTS:
                log.endless, stop = tuple(names), True
                break
            before = len(log.occurrences)
            node, stop = self._part(node, end, drive, log)
            names += [what.name for what in log.occurrences[before:]]
        return node._replace(stuck=frozenset()), log, stop

    def _part(self, node: Node, end: float, drive: Drive, log: Log) -> tuple[Node, bool]:
        """The motion from a node to the next event, or to `end`, and what happens there."""
        rest = end - node.time
        if abs(rest - self.time_step) < self.shortest:
            rest = self.time_step
        part = self.attempt(node, rest, end, drive)
        length, touching, firing = self._first_crossing(node, part, end, drive)
        while self.shortest <= length < part.length:
            part = self.attempt(node, length, end, drive)
            free = [i not in {hold.contact for hold in node.held} for i in range(len(self._radii))]
            if (self.gaps(part.node.state)[free] >= -GAP_TOLERANCE).all():
                break
            # another one is below the ground here, though above it where the step would have ended
            length, touching, firing = self._first_crossing(node, part, end, drive)
        if node.held and self.law is not None:
            find = self.law.release if length >= self.shortest else self.law.release_here
            release = find(self, node, part, end, drive)
            if release is not None:
                return self._let_go(node, release, log), False
        led_here = None
        if length >= self.shortest:
            log.parts.append(part)
            node, led_here = part.node, part
        if touching:
            node = self._touch(led_here, node, end, drive, log)
        return self._fire(node, firing, log)

    def _let_go(self, node: Node, release: tuple[Sequence[Part], int, int], log: Log) -> Node:
        parts, contact, refinements = release
        log.parts += parts
        last = parts[-1].node if parts else node
        free = self._without(last, contact)
        log.change_velocity(last.state, free.state, impact=last.struck)
        name = self.contacts[contact].name
        log.occurrences.append(Occurrence(last.time, "release", name, refinements))
        return free

    def _touch(self, part: Part | None, node: Node, end: float, drive: Drive, log: Log) -> Node:
        assert self.law is not None
        held = {hold.contact for hold in node.held}
        near = [
            int(i) for i in np.flatnonzero(self.gaps(node.state) <= GAP_TOLERANCE) if i not in held
        ]
        after = self.law.touch(self, part, node._replace(struck=True), near, end, drive)
        log.change_velocity(node.state, after.state, impact=True)
        released = [what.name for what in log.occurrences if what.kind == "release"]
        stuck = {i for i in near if released.count(self.contacts[i].name) >= MOST_RELEASES}
        for i in near:
            log.occurrences.append(Occurrence(node.time, "impact", self.contacts[i].name, 0))
        return after._replace(stuck=after.stuck | stuck)

    def _fire(self, node: Node, firing: Sequence[tuple[int, bool]], log: Log) -> tuple[Node, bool]:
        stop, fired = False, []
        for j, from_above in firing:
            event = self.events[j]
            log.occurrences.append(Occurrence(node.time, "event", event.name, 0))
            stop = stop or event.terminal
            fired.append((j, from_above))
            if event.reset is not None:
                before = node.state
                q, v = event.jump(before)
                try:
                    q, v = self._check(q, v)
                except ArrayError as error:
                    problem = f"{str(error).partition(': ')[2]}; given by event '{event.name}'"
                    raise ArrayError(error.name, problem) from None
                node = self.start(q, v, node.time)
                log.parts.append(self._jump(before, node))
        return node._replace(fired=tuple(fired)), stop

    def _jump(self, before: State, node: Node) -> Part:
        """A step of length zero; what it changes of the energy counts as impact."""
        after, works = node.state, np.zeros(6)
        works[5] = after.energy - before.energy
        return Part(
            node, 0.0, after.q, after.v, np.zeros(self.robot.nu), None, works, np.zeros(6),
            NO_TOUCH, (0, 0, 0.0, 0.0, WORLD, 0, 0, 0), NOTHING, 0.0, before.potential,
        )  # fmt: skip

    # ------------------------------------------------------------ crossings
    def _first_crossing(
        self, node: Node, part: Part, end: float, drive: Drive
    ) -> tuple[float, bool, list[tuple[int, bool]]]:
        """Length until the first event, whether contacts touch there, and the events there."""

        def state_after(length: float) -> State:
            return self.attempt(node, length, end, drive).node.state

        contacts = self._touchdowns(node, part, state_after)
        events = self._crossings(node, part, state_after)
        length = min([part.length, *contacts, *(first for first, _, _ in events)])
        soon = length + self.shortest
        firing = [(j, from_above) for first, j, from_above in events if first <= soon]
        return length, any(first <= soon for first in contacts), firing

    def _touchdowns(
        self, node: Node, part: Part, state_after: Callable[[float], State]
    ) -> list[float]:
        """Lengths after which contacts that are below the ground at the end touch it."""
        lengths = []
        held = {hold.contact for hold in node.held}
        for i in np.flatnonzero(self.gaps(part.node.state) < 0.0):
            if i in held:
                continue

            def gap(state: State, i: int = int(i)) -> float:
                return float(self.gaps(state)[i])

            low, at_low = 0.0, gap(node.state)
            if at_low <= GAP_TOLERANCE:
                low = self._moment(part)
                at_low = gap(state_after(low))
            lengths.append(self._zero(gap, state_after, low, at_low, part) if at_low > 0.0 else 0.0)
        return lengths

    def _crossings(
        self, node: Node, part: Part, state_after: Callable[[float], State]
    ) -> list[tuple[float, int, bool]]:
        """Events with the lengths after which they happen, and whether from above.

        A guard that starts at zero has the sign of a moment later. Where a reset has left it at
        zero, and it goes on to the same side as before, it happens again at once.
        """
        found = []
        fired = dict(node.fired)
        for j, event in enumerate(self.events):
            low, at_low = 0.0, event.value(node.state)
            if j in fired or at_low == 0.0:
                low = self._moment(part)
                later = event.value(state_after(low))
                if abs(at_low) > abs(later - at_low):
                    low = 0.0  # it has left zero
                elif j in fired and event.reset is not None and fired[j] == (later < 0.0):
                    found.append((0.0, j, fired[j]))
                    continue
                else:
                    at_low = later
            at_high = event.value(part.node.state)
            if event.crosses(at_low, at_high):
                length = self._zero(event.value, state_after, low, at_low, part)
                found.append((length, j, at_low > 0.0))
        return found

    def _moment(self, part: Part) -> float:
        return min(PROBE * self.time_step, 0.5 * part.length)

    def _zero(
        self,
        function: Callable[[State], float],
        state_after: Callable[[float], State],
        low: float,
        at_low: float,
        part: Part,
    ) -> float:
        """Length of the step after which a function of the state is zero."""
        at_high = function(part.node.state)
        return crossing(lambda h: function(state_after(h)), low, part.length, at_low, at_high)
