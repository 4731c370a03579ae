"""The state of a robot at one node in time."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from vi_contact import _core
from vi_contact.errors import ImmutableError
from vi_contact.robot.parts import Array, read_only
from vi_contact.robot.robot import Robot


class State:
    """Configuration and velocity at one node; immutable, and computed when asked for.

    `momenta` is what the integrator keeps: joint coordinates, generalised momenta and the warm
    start, as numbers. All else follows from it.
    """

    _robot: Robot
    _observer: _core.Stepper
    _time: float
    _numbers: Array

    def __init__(self, robot: Robot, observer: _core.Stepper, time: float, momenta: Array) -> None:
        fields = self.__dict__
        fields["_robot"], fields["_observer"] = robot, observer
        fields["_time"], fields["_numbers"] = time, read_only(momenta)

    def __setattr__(self, name: str, value: object) -> None:
        raise ImmutableError(
            f"a state is immutable: {name} cannot be set; sim.reset(q, v) starts from another one"
        )

    def __getstate__(self) -> tuple[float, Array, Array, Array, tuple[Array, Array, Array]]:
        """What can be asked for, computed now; without the robot."""
        return self._time, self._numbers, self.q, self.v, self._observation

    def __setstate__(
        self, state: tuple[float, Array, Array, Array, tuple[Array, Array, Array]]
    ) -> None:
        time, numbers, q, v, observation = state
        scalars, poses, velocities = map(read_only, observation)
        vars(self).update(
            _time=time,
            _numbers=read_only(numbers),
            q=read_only(q),
            v=read_only(v),
            _observation=(scalars, poses, velocities),
        )

    def __repr__(self) -> str:
        return f"State(time={self.time:.6g}, q={self.q}, v={self.v})"

    @property
    def time(self) -> float:
        """[s]."""
        return self._time

    @cached_property
    def q(self) -> Array:
        """(nq,) configuration, as in pinocchio."""
        q = np.empty(self._robot.nq)
        self._observer.set_state(self._numbers)
        self._observer.get_q(q)
        return read_only(q)

    @cached_property
    def v(self) -> Array:
        """(nv,) velocity at the node, as in pinocchio: the momentum projected on the loops."""
        v = np.empty(self._robot.nv)
        self._observer.set_state(self._numbers)
        self._observer.get_v(v)
        return read_only(v)

    @cached_property
    def _observation(self) -> tuple[Array, Array, Array]:
        count = len(self._robot.bodies)
        scalars, poses, velocities = np.empty((1, 9)), np.empty((count, 7)), np.empty((count, 6))
        self._observer.observe(self.q[None], self.v[None], scalars, poses, velocities)
        return read_only(scalars[0]), read_only(poses), read_only(velocities)

    @property
    def p_WB(self) -> Array:  # noqa: N802
        """(n, 3) positions of the bodies' centres of mass, world axes [m]."""
        return self._observation[1][:, :3]

    @property
    def quat_WB_xyzw(self) -> Array:  # noqa: N802
        """(n, 4) orientations of the bodies, body to world."""
        return self._observation[1][:, 3:]

    @property
    def v_WB(self) -> Array:  # noqa: N802
        """(n, 3) velocities of the bodies' centres of mass, world axes [m/s]."""
        return self._observation[2][:, :3]

    @property
    def w_WB_B(self) -> Array:  # noqa: N802
        """(n, 3) angular velocities of the bodies, body axes [rad/s]."""
        return self._observation[2][:, 3:]

    @property
    def kinetic(self) -> float:
        """[J]."""
        return float(self._observation[0][0])

    @property
    def potential(self) -> float:
        """Of gravity and springs [J]."""
        return float(self._observation[0][1])

    @property
    def energy(self) -> float:
        """[J]."""
        return self.kinetic + self.potential
