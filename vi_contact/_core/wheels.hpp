// Wheels: leaf links that turn about their joint's axis by any angle in a step.
//
// What a wheel looks like does not depend on its angle q if it is symmetric about the axis a. Its
// inertia J = t (1 - a a') + A a a' then moves with the carrier, the link that bears the joint, and
//
//   T = 1/2 m |v|^2 + 1/2 w' J w + A q' a.w + 1/2 A q'^2,    w of the carrier
//   L_d = m |x1 - x0|^2 / (2 h) + (2/h) u' J u + (2/h) A d a.u + A d^2 / (2 h),    d = q1 - q0
//
// with (u, s) the turn of the carrier: momenta are exact in d, which may be many turns, and the
// gyroscopic coupling is that of a carrier's step. Momenta, with the axis half way
// b = s a0 + u x a0 = s a1 - u x a1:
//
//   carrier, left and right:  (2/h) (s J u +- u x J u) + A d b / h
//   joint:                    A (d + 2 a.u) / h
//
// The projection on the axis would give the joint s times that, so the rest is added to its row.
// What the inertia has besides J (a blade, a valve) turns with the link like any other body.
#pragma once

#include "momentum.hpp"

namespace vi_contact {

// How a wheel turns over the interval, beyond the turn of its carrier.
struct Spin {
  double d = 0.0;  // of the joint [rad]
  Vector3 axis;    // half way
  Turn unbalance;  // of the link, with the inertia that is not symmetric
};

using Spins = std::vector<Spin>;

// J x of the symmetric part.
inline Vector3 symmetric_times(const Wheel& wheel, const Frame& frame, const Vector3& x) {
  return wheel.transverse * x + ((wheel.axial - wheel.transverse) * frame.a.dot(x)) * frame.a;
}

inline Matrix3 symmetric_inertia(const Wheel& wheel, const Frame& frame) {
  return wheel.transverse * Matrix3::Identity() +
         (wheel.axial - wheel.transverse) * frame.a * frame.a.transpose();
}

// Inertia of the link without the symmetric part, world axes.
inline Matrix3 unbalance(const Wheel& wheel, const Frame& frame) {
  return frame.J - symmetric_inertia(wheel, frame);
}

// Turns of the wheels, from those of the links that carry them.
inline void turn_wheels(const Model& model, const Frames& left, const Frames& right,
                        const double* x0, const double* x1, std::vector<Turn>& turns,
                        Spins& spins) {
  for (size_t k = 0; k < model.wheels.size(); ++k) {
    const Wheel& wheel = model.wheels[k];
    const Link& link = model.links[wheel.link];
    const Frame& frame = left[wheel.link];
    Turn& turn = turns[wheel.link];
    Spin& spin = spins[k];
    spin.unbalance = turn_between(frame, right[wheel.link]);
    spin.unbalance.Ju -= symmetric_times(wheel, frame, spin.unbalance.u);
    turn.u.setZero(), turn.s = 1.0;
    if (link.parent != world) turn.u = turns[link.parent].u, turn.s = turns[link.parent].s;
    turn.Ju = symmetric_times(wheel, frame, turn.u);
    spin.d = x1[link.c] - x0[link.c];
    spin.axis = turn.s * frame.a + turn.u.cross(frame.a);
    turn.spin = spin.d * spin.axis;
  }
}

inline Vector3 left_angular(const Wheel& wheel, const Turn& turn, const Spin& spin,
                            double inverse_h) {
  return left_angular(turn, inverse_h) + (inverse_h * wheel.axial) * turn.spin +
         left_angular(spin.unbalance, inverse_h);
}

inline Vector3 right_angular(const Wheel& wheel, const Frame& right, const Turn& turn,
                             const Spin& spin, double inverse_h) {
  const Vector3& w = spin.unbalance.u;
  const Vector3 Ju = symmetric_times(wheel, right, turn.u);
  const Vector3 Jw = right.J * w - symmetric_times(wheel, right, w);
  return (2.0 * inverse_h) * (turn.s * Ju - turn.u.cross(Ju)) +
         (inverse_h * wheel.axial) * turn.spin +
         (2.0 * inverse_h) * (spin.unbalance.s * Jw - w.cross(Jw));
}

// What the projection on the axis leaves out of the joint's momentum, at either node.
inline double wheel_momentum(const Wheel& wheel, const Frame& left, const Turn& turn,
                             const Spin& spin, double inverse_h) {
  return (1.0 - turn.s) * inverse_h * wheel.axial * (spin.d + 2.0 * left.a.dot(turn.u));
}

// Kinetic energy of the turns at the mean velocities of the step [J].
inline double wheel_kinetic(const Wheel& wheel, const Frame& left, const Turn& turn,
                            const Spin& spin, double inverse_h) {
  const double own = 0.5 * spin.d * spin.d + 2.0 * spin.d * left.a.dot(turn.u);
  return inverse_h * inverse_h *
         (2.0 * turn.u.dot(turn.Ju) + wheel.axial * own +
          2.0 * spin.unbalance.u.dot(spin.unbalance.Ju));
}

// Change of the carrier's left momentum, times h, when the carrier turns at the right end; in it,
// db = -1/2 (u.dphi) a0 - 1/2 a0 x (s I - [u]x) dphi.
inline Matrix3 carrier_tangent(const Wheel& wheel, const Frame& left, const Turn& turn,
                               const Spin& spin) {
  const Matrix3 bend =
      left.a * turn.u.transpose() + skew(left.a) * (turn.s * Matrix3::Identity() - skew(turn.u));
  return turn_tangent<world_axes>(symmetric_inertia(wheel, left), turn) -
         (0.5 * wheel.axial * spin.d) * bend;
}

}  // namespace vi_contact
