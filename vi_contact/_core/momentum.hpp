// Discrete momentum of a rigid body over one interval, from its poses at both ends.
//
//   Q0* Q1 = (u, s)                    u = h w / 2, s = sqrt(1 - u.u), w the midpoint velocity
//   linear:   m (x1 - x0) / h          the same at both ends
//   angular:  (2/h) R0 (s J u + u x J u)   at the left end, -D1 L_d
//             (2/h) R1 (s J u - u x J u)   at the right end, D2 L_d
//
// with x the centre of mass; angular about it, world axes. Wrench-like sixes here are moved to the
// origin of the link's frame: angular + c x linear.
#pragma once

#include "kinematics.hpp"

namespace vi_contact {

struct Wrench {
  Vector3 linear, angular;
};

// The rotation of a link over the interval.
struct Turn {
  Vector3 u;   // vec(Q0* Q1)
  double s;    // its scalar part; above zero while |w| < 2/h
  Vector3 Ju;  // J u
};

inline Turn turn_between(const Link& link, const Frame& left, const Frame& right) {
  const Quaternion e = left.Q.conjugate() * right.Q;
  return {e.vec(), e.w(), link.inertia * e.vec()};
}

inline Vector3 mean_velocity(const Frame& left, const Frame& right, double inverse_h) {
  return inverse_h * ((right.p - left.p) + (right.c - left.c));
}

inline Vector3 left_angular(const Frame& left, const Turn& turn, double inverse_h) {
  return (2.0 * inverse_h) * (left.R * (turn.s * turn.Ju + turn.u.cross(turn.Ju)));
}

inline Vector3 right_angular(const Frame& right, const Turn& turn, double inverse_h) {
  return (2.0 * inverse_h) * (right.R * (turn.s * turn.Ju - turn.u.cross(turn.Ju)));
}

// Tangent of h (2/h) (s J u + u x J u) when the body turns by dphi, body axes at the right end:
//
//   du = 1/2 (s I + [u]x) dphi,  ds = -1/2 u.dphi
//   (s J + [u]x J - [J u]x) (s I + [u]x) - J u u'
inline Matrix3 turn_tangent(const Matrix3& J, const Turn& turn) {
  const Vector3 &u = turn.u, &Ju = turn.Ju;
  Matrix3 B = turn.s * J;
  for (int j = 0; j < 3; ++j) B.col(j) += u.cross(J.col(j));
  B(0, 1) += Ju.z(), B(0, 2) -= Ju.y();
  B(1, 0) -= Ju.z(), B(1, 2) += Ju.x();
  B(2, 0) += Ju.y(), B(2, 1) -= Ju.x();
  Matrix3 T;
  for (int i = 0; i < 3; ++i) {
    const Vector3 b = B.row(i);
    T.row(i) = (turn.s * b + b.cross(u) - Ju[i] * u).transpose();
  }
  return T;
}

}  // namespace vi_contact
