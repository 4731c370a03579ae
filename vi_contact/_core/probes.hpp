// Parts of a step by themselves, for tests.
#pragma once

#include "step.hpp"

namespace vi_contact {

// Momentum residual (nv) and row errors of a step to given coordinates with given multipliers.
inline void Stepper::residual_at(const double* q1, const double* lambda, const double* tau,
                                 const double* wrenches, double* r, double* errors) {
  begin(tau, wrenches);
  coordinates_of_q(model_, q1, x1_.data());
  for (int i = 0; i < closure_.size(); ++i) closure_.lambda[i] = lambda[i];
  evaluate();
  std::copy(r_.data(), r_.data() + model_.nv, r);
  for (int i = 0; i < closure_.size(); ++i) errors[i] = closure_.rows[i].error;
}

// Newton's answer dq (nv) to a residual r (nv) at the point of the last `residual_at`, tree only.
inline bool Stepper::newton_direction(const double* r, double* dq) {
  set_joint_tangents();
  if (!tree_.factor_step(frames0_, frames1_, turns_, spins_, inverse_h_)) return false;
  tree_.solve(r, dq);
  return true;
}

// Gaps and slips (n, t1, t2) of all contacts in a step to given coordinates, and the rows (nv) of
// their impulses at the left node and of their motion at the right one.
inline void Stepper::contact_rows(const double* q1, double* u, double* left, double* right) {
  begin(nullptr, nullptr);
  coordinates_of_q(model_, q1, x1_.data());
  Eigen::Matrix<double, Eigen::Dynamic, 5, Eigen::RowMajor> all(laws_.contacts.size(), 5);
  all.setZero();
  for (int k = 0; k < all.rows(); ++k) all(k, 0) = k;
  laws_.contacts.select_given(all, frames0_, h_);
  laws_.release();
  evaluate();
  laws_.contacts.add_blocks(turns_, tree_);
  for (const Contacts::Near& c : laws_.contacts.near) {
    *u++ = c.normal.g, *u++ = c.friction.d.x(), *u++ = c.friction.d.y();
    for (int axis = 0; axis < 3; ++axis, left += model_.nv) {
      for (Wrench& f : f_) f.linear.setZero(), f.angular.setZero();
      laws_.contacts.add_wrench(c, Vector3::Unit(axis), f_[c.link]);
      std::fill(left, left + model_.nv, 0.0);
      project(model_, frames0_, f_, left);
    }
  }
  VectorX unit = VectorX::Zero(model_.nv);
  for (int j = 0; j < model_.nv; ++j) {
    unit[j] = 1.0;
    twists(model_, frames1_, unit.data(), f_);
    unit[j] = 0.0;
    double* out = right + j;
    for (const Contacts::Near& c : laws_.contacts.near) {
      const Wrench& xi = f_[c.link];
      const Vector3 motion = laws_.contacts.directions() * xi.linear + c.right * xi.angular;
      for (int axis = 0; axis < 3; ++axis, out += model_.nv) *out = motion[axis];
    }
  }
}

}  // namespace vi_contact
