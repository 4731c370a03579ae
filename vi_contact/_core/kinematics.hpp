// Where the links are: from joint coordinates to poses, exactly, so that no joint ever opens.
#pragma once

#include "model.hpp"

namespace vi_contact {

// One link at one node in time, world axes.
struct Frame {
  Quaternion Q;
  Matrix3 R;
  Vector3 p;  // origin of the joint frame G
  Vector3 c;  // from there to the centre of mass
  Vector3 r;  // from the parent's origin to this one
  Vector3 a;  // the joint's axis
  Matrix3 J;  // inertia about the centre of mass; `turn_inertias` writes it
};

using Frames = std::vector<Frame>;

// The quaternion (u, sqrt(1 - u.u)) of half a rotation vector; u is shortened if longer than 0.9.
inline Quaternion small_rotation(Vector3 u) {
  const double square = u.dot(u);
  if (square > 0.81) u *= 0.9 / std::sqrt(square);
  return Quaternion(std::sqrt(1.0 - u.dot(u)), u.x(), u.y(), u.z());
}

inline Quaternion turn_about(const Vector3& axis, double angle) {
  const double sine = std::sin(0.5 * angle);
  return Quaternion(std::cos(0.5 * angle), sine * axis.x(), sine * axis.y(), sine * axis.z());
}

// x y z w at an offset of the coordinates
inline Quaternion quaternion_at(const double* x) { return Quaternion(x[3], x[0], x[1], x[2]); }

inline void write(const Quaternion& q, double* x) {
  x[0] = q.x(), x[1] = q.y(), x[2] = q.z(), x[3] = q.w();
}

// Poses of all links, parents first: Q_WG = Q_WP Q_PF Q_FG, p_WG = p_WP + R_WP (p_PF + R_PF d).
//
// Three passes, so that what waits for the parent is short: the turns of the joints, the chain of
// quaternions, then matrices and positions.
inline void forward_kinematics(const Model& model, const double* coordinates, Frames& frames) {
  const int n = model.size();
  for (int i = 0; i < n; ++i) {
    const Link& link = model.links[i];
    const double* x = coordinates + link.c;
    Frame& frame = frames[i];
    switch (link.kind) {
      case JointKind::revolute: {  // Q_PF (cos + sin axis)
        const double cosine = std::cos(0.5 * x[0]), sine = std::sin(0.5 * x[0]);
        frame.Q.coeffs() = cosine * link.X_PF.q.coeffs() + sine * link.turned_axis.coeffs();
        break;
      }
      case JointKind::prismatic:
        frame.Q = link.X_PF.q;
        break;
      case JointKind::spherical:
        frame.Q = link.X_PF.q * quaternion_at(x);
        break;
      case JointKind::planar:
        frame.Q = link.X_PF.q * turn_about(Vector3::UnitZ(), x[2]);
        break;
      default:  // floating; a tree has no fixed and no universal joints
        frame.Q = link.X_PF.q * quaternion_at(x + 3);
        break;
    }
  }
  for (int i = 0; i < n; ++i) {
    const int parent = model.links[i].parent;
    if (parent != world) frames[i].Q = frames[parent].Q * frames[i].Q;
  }
  for (int i = 0; i < n; ++i) {
    const Link& link = model.links[i];
    const double* x = coordinates + link.c;
    Frame& frame = frames[i];
    frame.R = frame.Q.toRotationMatrix();
    frame.c = frame.R * link.com;
    if (link.column >= 0) {
      frame.a = frame.R.col(link.column);
    } else {
      frame.a = frame.R * link.axis;
    }
    Vector3 p_PG = link.X_PF.p;
    if (link.kind == JointKind::prismatic) {
      p_PG += link.X_PF.q * (x[0] * link.axis);
    } else if (link.kind == JointKind::planar) {
      p_PG += link.X_PF.q * Vector3(x[0], x[1], 0.0);
    } else if (link.kind == JointKind::floating) {
      p_PG += link.X_PF.q * Vector3(x[0], x[1], x[2]);
    }
    if (link.parent == world) {
      frame.r = frame.p = p_PG;
    } else {
      const Frame& parent = frames[link.parent];
      frame.r = parent.R * p_PG;
      frame.p = parent.p + frame.r;
    }
  }
}

// R J R' of every link; needed at the left node of a step only.
inline void turn_inertias(const Model& model, Frames& frames) {
  for (int i = 0; i < model.size(); ++i) {
    Frame& frame = frames[i];
    frame.J.noalias() = (frame.R * model.links[i].inertia).eval() * frame.R.transpose();
  }
}

// Moves joint coordinates x by a velocity-like increment d in the axes of the child.
inline void retract(const Link& link, const double* d, double* x) {
  switch (link.kind) {
    case JointKind::revolute:
    case JointKind::prismatic:
      x[0] += d[0];
      break;
    case JointKind::spherical:
      write((quaternion_at(x) * small_rotation(0.5 * Vector3(d[0], d[1], d[2]))).normalized(), x);
      break;
    case JointKind::planar: {
      const double cosine = std::cos(x[2]), sine = std::sin(x[2]);
      x[0] += cosine * d[0] - sine * d[1];
      x[1] += sine * d[0] + cosine * d[1];
      x[2] += d[2];
      break;
    }
    default: {
      const Quaternion Q = quaternion_at(x + 3);
      const Vector3 move = Q.toRotationMatrix() * Vector3(d[0], d[1], d[2]);
      x[0] += move.x(), x[1] += move.y(), x[2] += move.z();
      write((Q * small_rotation(0.5 * Vector3(d[3], d[4], d[5]))).normalized(), x + 3);
      break;
    }
  }
}

// The increment that leads from x0 to x1: `retract(x0, d)` is x1. Rotations give 2 vec(Q0* Q1),
// displacements stand in the axes of the child at x0.
inline void increment(const Link& link, const double* x0, const double* x1, double* d) {
  switch (link.kind) {
    case JointKind::revolute:
    case JointKind::prismatic:
      d[0] = x1[0] - x0[0];
      break;
    case JointKind::spherical:
      Eigen::Map<Vector3>(d, 3) = 2.0 * (quaternion_at(x0).conjugate() * quaternion_at(x1)).vec();
      break;
    case JointKind::planar: {
      const double cosine = std::cos(x0[2]), sine = std::sin(x0[2]);
      const double x = x1[0] - x0[0], y = x1[1] - x0[1];
      d[0] = cosine * x + sine * y;
      d[1] = -sine * x + cosine * y;
      d[2] = x1[2] - x0[2];
      break;
    }
    default: {
      const Quaternion Q0 = quaternion_at(x0 + 3);
      const Vector3 move(x1[0] - x0[0], x1[1] - x0[1], x1[2] - x0[2]);
      Eigen::Map<Vector3>(d, 3) = Q0.toRotationMatrix().transpose() * move;
      Eigen::Map<Vector3>(d + 3, 3) = 2.0 * (Q0.conjugate() * quaternion_at(x1 + 3)).vec();
      break;
    }
  }
}

// pinocchio's q to our coordinates (angles for cosine and sine) and back.
inline void coordinates_of_q(const Model& model, const double* q, double* x) {
  for (const Link& link : model.links) {
    const double* from = q + link.q;
    double* to = x + link.c;
    if (link.kind == JointKind::planar) {
      to[0] = from[0], to[1] = from[1], to[2] = std::atan2(from[3], from[2]);
    } else if (link.unbounded) {
      to[0] = std::atan2(from[1], from[0]);
    } else {
      const int nc = link.kind == JointKind::floating    ? 7
                     : link.kind == JointKind::spherical ? 4
                                                         : 1;
      for (int j = 0; j < nc; ++j) to[j] = from[j];
    }
  }
}

inline void q_of_coordinates(const Model& model, const double* x, double* q) {
  for (const Link& link : model.links) {
    const double* from = x + link.c;
    double* to = q + link.q;
    if (link.kind == JointKind::planar) {
      to[0] = from[0], to[1] = from[1], to[2] = std::cos(from[2]), to[3] = std::sin(from[2]);
    } else if (link.unbounded) {
      to[0] = std::cos(from[0]), to[1] = std::sin(from[0]);
    } else {
      const int nc = link.kind == JointKind::floating    ? 7
                     : link.kind == JointKind::spherical ? 4
                                                         : 1;
      for (int j = 0; j < nc; ++j) to[j] = from[j];
    }
  }
}

}  // namespace vi_contact
