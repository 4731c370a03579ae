// Discrete momentum of a rigid body over one interval, from its poses at both ends.
//
//   Q1 Q0* = (u, s)                     u = h w / 2, s = sqrt(1 - u.u), w the midpoint velocity
//   linear:   m (x1 - x0) / h           the same at both ends
//   angular:  (2/h) (s J0 u + u x J0 u)     at the left end, -D1 L_d
//             (2/h) (s J1 u - u x J1 u)     at the right end, D2 L_d
//
// in world axes, x the centre of mass, J = R J_body R' at either end. Since u is the axis of the
// turn, u = R0 vec(Q0* Q1) = R1 vec(Q0* Q1): these are the equations in body axes, turned. Sixes
// are moved to the origin of the link's frame: angular + c x linear.
#pragma once

#include "kinematics.hpp"

namespace vi_contact {

struct Wrench {
  Vector3 linear, angular;
};

// The rotation of a link over the interval.
struct Turn {
  Vector3 u;                       // vec(Q0* Q1)
  double s;                        // its scalar part; above zero while |w| < 2/h
  Vector3 Ju;                      // J u
  Vector3 spin = Vector3::Zero();  // of a wheel about its axis, besides u, see wheels.hpp [rad]

  // The way of the turn for small angles, by which contacts roll and torques work [rad].
  Vector3 way() const { return 2.0 * u + spin; }
};

inline Turn turn_between(const Frame& left, const Frame& right) {
  const Quaternion e = right.Q * left.Q.conjugate();
  return {e.vec(), e.w(), left.J * e.vec(), Vector3::Zero()};
}

inline Vector3 mean_velocity(const Frame& left, const Frame& right, double inverse_h) {
  return inverse_h * ((right.p - left.p) + (right.c - left.c));
}

inline Vector3 left_angular(const Turn& turn, double inverse_h) {
  return (2.0 * inverse_h) * (turn.s * turn.Ju + turn.u.cross(turn.Ju));
}

inline Vector3 right_angular(const Frame& right, const Turn& turn, double inverse_h) {
  const Vector3 Ju = right.J * turn.u;
  return (2.0 * inverse_h) * (turn.s * Ju - turn.u.cross(Ju));
}

// Tangent of h (2/h) (s J u + u x J u) when the body turns by dphi at the right end.
//
// In axes fixed on the body: du = 1/2 (s I + [u]x) dphi, ds = -1/2 u.dphi. In world axes [u]x has
// the other sign, as (s I + [u]x) R1' = (s I - [u]x) R0':
//
//   (s J + [u]x J - [J u]x) (s I +- [u]x) - J u u'
template <int sign>
inline Matrix3 turn_tangent(const Matrix3& J, const Turn& turn) {
  const Vector3 &u = turn.u, &Ju = turn.Ju;
  Matrix3 B = turn.s * J;
  for (int j = 0; j < 3; ++j) B.col(j) += u.cross(J.col(j));
  B(0, 1) += Ju.z(), B(0, 2) -= Ju.y();
  B(1, 0) -= Ju.z(), B(1, 2) += Ju.x();
  B(2, 0) += Ju.y(), B(2, 1) -= Ju.x();
  const double x = sign * u.x(), y = sign * u.y(), z = sign * u.z();
  Matrix3 T;
  T.col(0) = turn.s * B.col(0) + z * B.col(1) - y * B.col(2) - u.x() * Ju;
  T.col(1) = turn.s * B.col(1) + x * B.col(2) - z * B.col(0) - u.y() * Ju;
  T.col(2) = turn.s * B.col(2) + y * B.col(0) - x * B.col(1) - u.z() * Ju;
  return T;
}

inline constexpr int body_axes = 1, world_axes = -1;

}  // namespace vi_contact
