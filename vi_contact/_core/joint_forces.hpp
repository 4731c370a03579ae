// What acts along the joints in a step: drives, servos, damping, rotors, and their tangents.
//
// The feedback b of a joint is what its drive gives for a servo, and its damping. At the midpoint
// of a step that is long beside it, the motion would alternate from step to step. There it leans to
// the end of the step: with theta and alpha between 1/2 and 1, and b' the feedback of the step
// before,
//
//   b = k (q* - q_k - alpha d) - c d/h
//   left impulse h b/2 + (theta - 1/2) h (b - b'),  right impulse h b/2
//
// A steady load has b = b', so nothing is shifted where a joint is held or moves evenly, nor in a
// first step, which has no b'. In P_k = p_k - (theta - 1/2) h b' the impulses are theta h b and
// (1 - theta) h b. With g = h c/m and f = h^2 k/m of an inertia m, its two amplifications per step
// have, over the positive 1 + theta (g + alpha f), the product and the sum
//
//   1 - (1 - theta) (g - (1 - alpha) f)   and   2 + (2 theta - 1) (g + alpha f) - theta f
//
// Neither is negative, so none is a negative number or turns by more than a quarter per step, with
//
//   theta = max(1/2, 1 - 1 / (2 (g + f))),   alpha = min(theta, max(1/2, 1 - g / (2 f)))
//
// for 1 - theta <= 1/2 and (1 - theta) g <= 1/2, and the sum is at least 2 - 2 (1 - theta) f,
// 2 - (1 - theta) f or 1 + f/2 for the three choices of alpha. For g + f <= 1 this is the midpoint
// rule, and for f <= g the slow motion towards q* still reads its angle there. One joint would do
// with twice the 1 - theta; joints move together. The energy of m and k with the velocity of P
// never grows; with that of the node it is at most half as much more.
#pragma once

#include <tuple>

#include "step.hpp"

namespace vi_contact {

// r += armature dq/h - h/2 (drive torque - damping dq/h), at the mean joint speed dq/h.
inline void Stepper::joint_forces() {
  double d[6];
  for (const Link& link : model_.links) {
    increment(link, x0_.data() + link.c, x1_.data() + link.c, d);
    for (int j = 0; j < link.nv; ++j) {
      const Drive& drive = model_.drives[link.v + j];
      const double speed = inverse_h_ * d[j];
      double torque = 0.0;
      if (drive.input >= 0) {
        const DriveTorque driven = driven_torque(link, drive, d[j]);
        torque = driven.torque;
        saturated_[drive.input] = driven.saturated;
      }
      torque_[link.v + j] = torque;
      r_[link.v + j] -= 0.5 * h_ * (torque - drive.damping * speed);
    }
    add_armature(link, d, 1.0, r_.data());
  }
  if (leans_) lean();
}

// r -= (theta - 1/2) h (b - b')
inline void Stepper::lean() {
  double d[6];
  for (const Link& link : model_.links) {
    increment(link, x0_.data() + link.c, x1_.data() + link.c, d);
    for (int i = 0; i < link.nv; ++i) {
      const int j = link.v + i;
      leaned_[j] = 0.0;
      if (lean_[j] == 0.0) continue;
      const Drive& drive = model_.drives[j];
      const double speed = inverse_h_ * d[i];
      feedback_[j] = torque_[j] - unservoed(drive, speed).torque - drive.damping * speed;
      if (last_feedback_[j] == infinity) continue;
      leaned_[j] = lean_[j] * h_ * (feedback_[j] - last_feedback_[j]);
      r_[j] -= leaned_[j];
    }
  }
}

// d leaned / d increment, without its sign
inline double Stepper::lean_tangent(int j, const Drive& drive, double speed, double slope) const {
  if (last_feedback_[j] == infinity) return 0.0;
  return lean_[j] * (drive.damping + unservoed(drive, speed).slope - slope);
}

inline bool Stepper::has_servo(const Drive& drive) const {
  if (drive.input < 0 || servos_.empty()) return false;
  return servos_[drive.input].stiffness > 0.0 || servos_[drive.input].damping > 0.0;
}

// alpha and theta - 1/2 of a coordinate in a step of length h.
inline std::pair<double, double> Stepper::lean_at(int j, double h) const {
  const Drive& drive = model_.drives[j];
  double damping = drive.damping, stiffness = 0.0;
  if (has_servo(drive)) {
    damping += servos_[drive.input].damping;
    stiffness = h * servos_[drive.input].stiffness;
  }
  const double stiff = h * (damping + stiffness) * mobilities_[j];
  if (!(stiff > 1.0)) return {0.5, 0.0};
  const double lean = 0.5 - 0.5 / stiff;
  if (stiffness <= damping) return {0.5, lean};
  return {0.5 + std::min(lean, 0.5 - 0.5 * damping / stiffness), lean};
}

// After every change of servos or of h.
inline void Stepper::set_lean() {
  for (int j = 0; j < model_.nv; ++j) std::tie(alpha_[j], lean_[j]) = lean_at(j, h_);
  leans_ = (lean_.array() > 0.0).any();
}

inline Eigen::Matrix<double, Eigen::Dynamic, 3> Stepper::feedback(double time_step) const {
  Eigen::Matrix<double, Eigen::Dynamic, 3> out(model_.nv, 3);
  for (int j = 0; j < model_.nv; ++j) {
    const auto [alpha, lean] = lean_at(j, time_step);
    const bool known = last_feedback_[j] < infinity;
    out.row(j) << alpha, 0.5 + (known ? lean : 0.0), known ? last_feedback_[j] : 0.0;
  }
  return out;
}

// Coordinates that do not lean have none to remember.
inline void Stepper::remember_feedback() {
  if (leans_) {
    last_feedback_ = (lean_.array() > 0.0).select(feedback_, infinity);
  } else if (leaned_last_) {
    last_feedback_.setConstant(infinity);
  }
  leaned_last_ = leans_;
}

// What the drive would give without its servo.
inline DriveTorque Stepper::unservoed(const Drive& drive, double speed) const {
  if (drive.input < 0) return {0.0, 0.0, 0.0, false};
  return drive_torque(drive, command_ ? command_[drive.input] : 0.0, speed);
}

// Torque of a drive over the step with joint increment d. The angle of a servo is that of the
// middle, q_k + d/2, or a later one; joints without limits take the shorter way to it.
inline DriveTorque Stepper::driven_torque(const Link& link, const Drive& drive, double d) const {
  const double command = command_ ? command_[drive.input] : 0.0;
  const double speed = inverse_h_ * d;
  if (servos_.empty()) return drive_torque(drive, command, speed);
  const Servo& servo = servos_[drive.input];
  double wanted = servo.damping * (servo.speed - speed);
  if (link.nv == 1) {
    double error = servo.angle - x0_[link.c];
    if (link.unbounded) error = std::remainder(error, 2.0 * pi);
    wanted += servo.stiffness * (error - alpha_[link.v] * d);
  }
  DriveTorque driven = drive_torque(drive, command + wanted, speed);
  driven.slope -= driven.gain * (servo.damping + alpha_[link.v] * h_ * servo.stiffness);
  return driven;
}

inline void Stepper::set_joint_tangents(Elimination& tree) const {
  if (!driven_) {
    tree.kappa.setZero();
    for (Matrix6& kappa : tree.kappa_dense) kappa.setZero();
    return;
  }
  double d[6];
  for (const Link& link : model_.links) {
    increment(link, x0_.data() + link.c, x1_.data() + link.c, d);
    Vector6 k = Vector6::Zero();
    for (int j = 0; j < link.nv; ++j) {
      const Drive& drive = model_.drives[link.v + j];
      const double slope = drive.input < 0 ? 0.0 : driven_torque(link, drive, d[j]).slope;
      k[j] = 0.5 * drive.damping - 0.5 * slope;
      if (leans_) k[j] += lean_tangent(link.v + j, drive, inverse_h_ * d[j], slope);
    }
    if (link.nv == 1) {
      tree.kappa[link.v] = k[0] + inverse_h_ * model_.drives[link.v].armature;
      continue;
    }
    tree.kappa_dense[link.dense] = k.asDiagonal() * increment_tangent(link, d);
    if (link.kind == JointKind::spherical) {
      tree.kappa_dense[link.dense].topLeftCorner<3, 3>() +=
          inverse_h_ * turn_tangent<body_axes>(armature(link).asDiagonal(), joint_turn(link, d));
    }
  }
}

// d(increment) / d(motion at the right node, axes of the child).
inline Matrix6 Stepper::increment_tangent(const Link& link, const double* d) const {
  Matrix6 E = Matrix6::Zero();
  const auto turn = [](const Vector3& u) -> Matrix3 {
    return std::sqrt(std::max(0.0, 1.0 - u.dot(u))) * Matrix3::Identity() + skew(u);
  };
  if (link.kind == JointKind::spherical) {
    E.topLeftCorner<3, 3>() = turn(0.5 * Vector3(d[0], d[1], d[2]));
  } else if (link.kind == JointKind::planar) {
    E.topLeftCorner<3, 3>() = turn_about(Vector3::UnitZ(), d[2]).toRotationMatrix();
  } else {
    const Vector3 u = 0.5 * Vector3(d[3], d[4], d[5]);
    E.topLeftCorner<3, 3>() = small_rotation(u).toRotationMatrix();
    E.bottomRightCorner<3, 3>() = turn(u);
  }
  return E;
}

inline void Stepper::right_joint_forces() {
  double back[6];
  for (const Link& link : model_.links) {
    const double* d = dq_.data() + link.v;
    increment(link, x1_.data() + link.c, x0_.data() + link.c, back);
    for (int j = 0; j < link.nv; ++j) {
      const Drive& drive = model_.drives[link.v + j];
      const double moved = 0.5 * (d[j] - back[j]);
      const double speed = -inverse_h_ * back[j];
      const double torque = torque_[link.v + j];
      p1_[link.v + j] += 0.5 * h_ * (torque - drive.damping * speed);
      motor_work_ += torque * moved;
      damping_work_ -= 0.5 * drive.damping * inverse_h_ * (d[j] * d[j] + back[j] * back[j]);
      if (drive.input >= 0) tau_[drive.input] = torque;
    }
    add_armature(link, d, -1.0, p1_.data());
  }
}
}  // namespace vi_contact
