"""Contact forces as arrows: where they act, and on what."""

from __future__ import annotations

import numpy as np

from vi_contact.robot.parts import WORLD, Array

MAX_ARROWS = 64
"""Most contact forces shown at once."""


def pushes(touches: Array, points: Array, link_bodies: Array, ground_contacts: int) -> Array:
    """(K, 7) step, point and force on a link, in the order of the steps.

    touches: (M, 6) rows of a `ContactTable`, points: (M, 3) where they act [m], link_bodies: (P, 2)
    bodies of the contacts that follow those with the ground. Between two links that can move there
    are two forces, one on each. The parts of a step that was split are added up.
    """
    where = np.column_stack([touches[:, :2], points])
    places, number = np.unique(where, axis=0, return_inverse=True)
    force = np.zeros((len(places), 3))
    np.add.at(force, number.ravel(), touches[:, 2:5])
    pair = places[:, 1].astype(int) - ground_contacts
    mutual = pair >= 0
    mutual[mutual] = link_bodies[pair[mutual], 1] != WORLD
    on_first = np.column_stack([places[:, [0, 2, 3, 4]], force])
    on_second = np.column_stack([on_first[mutual, :4], -force[mutual]])
    both = np.concatenate([on_first, on_second])
    return both[np.argsort(both[:, 0], kind="stable")]


def largest(arrows: Array) -> Array:
    """The largest forces of (K, 6) points and forces, no more than can be shown."""
    size = np.linalg.norm(arrows[:, 3:], axis=1)
    return arrows[np.argsort(-size, kind="stable")[:MAX_ARROWS]]
