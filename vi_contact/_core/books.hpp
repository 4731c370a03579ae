// The energy ledger of a step: works of the forces, and what the scheme itself adds.
//
// With p0 = l - I0 - c0', p1 = r + I1 and M v = p + c at either node (l, r the left and right
// momenta of the interval, I the impulses of the smooth forces, c what contacts and joint laws
// share with the node, c0' their impulse over the step), kinetic energies T = 1/2 (p + c).v differ
// by
//
//   T1 - T0 = I0.v0 + I1.v1 + (r - p1/2).v1 - (l - p0/2).v0 + c0'.v0 + (c1.v1 - c0.v0)/2
//
// A force works over the way between the nodes; its impulses, at the velocities of the nodes, over
// a slightly different one. The integration error is the inertial part, (r - p1/2).v1 -
// (l - p0/2).v0, and for every force what it does along that difference of ways. Nothing in it is
// found by subtracting a work: that all entries add up to the change of energy is a check of each.
#pragma once

#include "step.hpp"

namespace vi_contact {

inline void Stepper::keep_left() {
  left_.setZero(model_.nv);
  external_work_ = 0.0;
  for (int i = 0; i < model_.size(); ++i) {
    f_[i].linear = model_.links[i].mass * velocities_[i];
    f_[i].angular = left_angular_of(i) + frames0_[i].c.cross(f_[i].linear);
    if (wrenches_ == nullptr) continue;
    const Eigen::Map<const Vector3> force(wrenches_ + 6 * i), torque(wrenches_ + 6 * i + 3);
    external_work_ += h_ * force.dot(velocities_[i]) + torque.dot(turns_[i].way());
  }
  project(model_, frames0_, f_, left_.data());
  add_wheel_momenta(left_.data());
}

inline void Stepper::keep_right() {
  right_.setZero(model_.nv);
  for (int i = 0; i < model_.size(); ++i) {
    f_[i].linear = model_.links[i].mass * velocities_[i];
    f_[i].angular = right_angular_of(i) + frames1_[i].c.cross(f_[i].linear);
  }
  project(model_, frames1_, f_, right_.data());
  add_wheel_momenta(right_.data());
  for (const Link& link : model_.links) {
    add_armature(link, dq_.data() + link.v, 1.0, left_.data());
    add_armature(link, dq_.data() + link.v, -1.0, right_.data());
  }
  left_ -= r_;  // what the solver left undone, and the next step makes up for
  right_ -= carried_;
  if (closure_.size() > 0) damping_work_ += closure_.damper_work(h_);
}

// After `commit`: the old node is in x1_, p1_ and frames1_, the new one in x0_, p0_ and frames0_.
inline Work Stepper::interval_work(const double* v0, const double* v1) {
  const double h = part_length_;
  const Eigen::Map<const VectorX> before(v0, model_.nv), after(v1, model_.nv);
  double error = (right_ - 0.5 * p0_).dot(after) - (left_ - 0.5 * p1_).dot(before);
  std::vector<Wrench>&old = f_, &now = half_;  // twists of the links
  twists(model_, frames1_, v0, old);
  twists(model_, frames0_, v1, now);
  for (int i = 0; i < model_.size(); ++i) {
    const Vector3 V0 = old[i].linear + old[i].angular.cross(frames1_[i].c);
    const Vector3 V1 = now[i].linear + now[i].angular.cross(frames0_[i].c);
    const Vector3 way = h * (0.5 * (V0 + V1) - velocities_[i]);
    error += model_.links[i].mass * gravity_.dot(way);
    if (wrenches_ == nullptr) continue;
    const Vector3 turn = 0.5 * h * (old[i].angular + now[i].angular) - turns_[i].way();
    error += Eigen::Map<const Vector3>(wrenches_ + 6 * i).dot(way) +
             Eigen::Map<const Vector3>(wrenches_ + 6 * i + 3).dot(turn);
  }
  double d[6], back[6];
  Work w{motor_work_, external_work_, damping_work_, 0.0, 0.0, 0.0};
  for (const Link& link : model_.links) {
    increment(link, x1_.data() + link.c, x0_.data() + link.c, d);
    increment(link, x0_.data() + link.c, x1_.data() + link.c, back);
    for (int j = 0; j < link.nv; ++j) {
      const double u0 = v0[link.v + j], u1 = v1[link.v + j];
      const Drive& drive = model_.drives[link.v + j];
      const double damping = drive.damping;
      error += torque_[link.v + j] * 0.5 * (h * (u0 + u1) - (d[j] - back[j]));
      if (leaned_last_) {  // an impulse works at the mean of the velocities before and after it
        const double half = 0.5 * leaned_[link.v + j];
        (has_servo(drive) ? w.motor : w.damping) += half * (u0 + d[j] / h);
        error += half * (u0 - d[j] / h);
      }
      error -= 0.5 * damping * (d[j] * (u0 - d[j] / h) - back[j] * (u1 + back[j] / h));
    }
  }
  error += closure_.excess_work(old, now, h);
  w.integration = error;
  if (!with_laws_) return w;
  w.friction = left_friction_ + node_.friction;
  w.impact = left_impact_ + node_.impact;
  w.integration += left_gap_ + node_.gap;
  return w;
}

// Of a part of a step, between v_before_ and v_after_.
inline void Stepper::add_work() {
  const Work part = interval_work(v_before_.data(), v_after_.data());
  work_.motor += part.motor;
  work_.external += part.external;
  work_.damping += part.damping;
  work_.friction += part.friction;
  work_.impact += part.impact;
  work_.integration += part.integration;
}

}  // namespace vi_contact
