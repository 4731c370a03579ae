// What the tree cannot say: loop joints, mimic joints, springs and dampers between points, as rows
//
//   e(q1) / h + compliance lambda = 0,    forces J(q0)' lambda [impulses]
//
// and their Schur complement on the tree. Rows may be redundant (a planar loop closed by a
// spherical joint has one too many): what they say is a matter of geometry, not of inertias or of
// what holds the links, so independent ones are chosen by their gradients in joint coordinates at
// the node, where the loops are closed. The others follow, and have no impulses.
// Springs and dampers have compliant rows, see springs.hpp.
#pragma once

#include <array>
#include <numeric>

#include "elimination.hpp"
#include "maps.hpp"
#include "springs.hpp"

namespace vi_contact {

// Of a row's gradient, what the others must leave for it to be independent. Round-off and loops
// that are closed to 1e-12 leave about 1e-12 of redundant ones; `robot/closure.py` has the same.
inline constexpr double rank_tolerance = 1e-8;

class Closure {
 public:
  explicit Closure(const Model& model)
      : springs(model),
        model_(model),
        g_(model.size()),
        r_(VectorX::Zero(model.nv)),
        dq_(VectorX::Zero(model.nv)) {
    std::vector<bool> on_path(model.size(), false);
    const auto mark = [&](int i) {
      for (; i != world; i = model.links[i].parent) on_path[i] = true;
    };
    int count = static_cast<int>(model.mimics.size());
    for (const LoopJoint& loop : model.loops) {
      mark(loop.A), mark(loop.B);
      count += joint_row_count(loop.joint.kind);
    }
    for (const MimicJoint& mimic : model.mimics) mark(mimic.joint), mark(mimic.source);
    holonomic_ = count;
    for (const SpringDamper& spring : model.springs) {
      if (Springs::rows_of(spring) > 0) mark(spring.A), mark(spring.B);
      count += Springs::rows_of(spring);
    }
    for (int i = 0; i < model.size(); ++i) {
      (on_path[i] ? path_ : others_).push_back(i);
      columns_.push_back(static_cast<int>(path_dofs_.size()));
      for (int j = 0; on_path[i] && j < model.links[i].nv; ++j) {
        path_dofs_.push_back(model.links[i].v + j);
      }
      g_[i].linear.setZero(), g_[i].angular.setZero();
    }
    rows.resize(count);
    lambda = VectorX::Zero(count);
    schur_.resize(count, count);
    gradients_.resize(holonomic_, path_dofs_.size());
    sizes_ = VectorX::Zero(holonomic_);
    scale_ = VectorX::Zero(count);
    used_.resize(count);
    answers_ = Eigen::MatrixXd::Zero(model.nv, count);
    twists_.resize(path_.size(), count);
    rhs_ = rates_ = mu_ = VectorX::Zero(count);
    order_.resize(count);
  }

  Springs springs;
  std::vector<Row> rows;
  VectorX lambda;

  int size() const { return static_cast<int>(rows.size()); }
  const VectorX& node_lambda() const { return mu_; }  // of the last `project`
  int holonomic() const { return holonomic_; }        // rows without springs and dampers

  // Writes the rows at a node; `left` as well as right fills both sides.
  void evaluate(const Frames& frames, const double* x, double h, bool left) {
    evaluate_holonomic(frames, x, left);
    evaluate_springs(frames, h, left);
  }

  void evaluate_holonomic(const Frames& frames, const double* x, bool left) {
    int row = 0;
    for (const LoopJoint& loop : model_.loops) row = evaluate_loop(loop, frames, left, row);
    for (const MimicJoint& mimic : model_.mimics) {
      Row& r = rows[row++];
      const int c = model_.links[mimic.joint].c, s = model_.links[mimic.source].c;
      r.error = x[c] - mimic.multiplier * x[s] - mimic.offset;
      r.ends[0].link = mimic.joint, r.ends[1].link = mimic.source;
      r.ends[0].joint = r.ends[1].joint = true;
      r.ends[0].coefficient = 1.0, r.ends[1].coefficient = -mimic.multiplier;
    }
  }

  void evaluate_springs(const Frames& frames, double h, bool left) {
    if (size() > holonomic_) springs.evaluate(frames, h, left, rows.data() + holonomic_);
  }

  // Largest error of the loops and mimic joints [m or rad].
  double error() const {
    double largest = 0.0;
    for (int i = 0; i < holonomic_; ++i) largest = std::max(largest, std::abs(rows[i].error));
    return largest;
  }

  // Largest residual of all rows [m or rad].
  double residual(double h) const {
    double largest = 0.0;
    for (int i = 0; i < size(); ++i) {
      const double e = std::abs(rows[i].error + h * rows[i].compliance * lambda[i]);
      if (!(e <= largest) && !std::isnan(largest)) largest = e;
    }
    return largest;
  }

  // f -= J(q0)' lambda on links, r -= J' lambda on joints.
  void subtract_forces(std::vector<Wrench>& f, double* r) const {
    for (int i = 0; i < size(); ++i) add_force(rows[i], -rows[i].left_impulse(lambda[i]), f, r);
  }

  // The second half of springs and dampers, with the directions of the right node.
  void add_right_forces(std::vector<Wrench>& f) const {
    for (int i = holonomic_; i < size(); ++i) {
      for (const RowEnd& end : rows[i].ends) {
        if (end.link == world) continue;
        const double impulse = rows[i].right_impulse(lambda[i]);
        f[end.link].linear += impulse * end.right.linear;
        f[end.link].angular += impulse * end.right.angular;
      }
    }
  }

  // Work of the dampers over the interval [J], never positive.
  double damper_work(double h) const {
    double work = 0.0;
    for (int i = holonomic_; i < size(); ++i) {
      work -= rows[i].damping / h * rows[i].way * rows[i].way;
    }
    return work;
  }

  // What springs and dampers do at the velocities of the nodes, given as twists of the links,
  // beyond what they do on their way [J].
  double excess_work(const std::vector<Wrench>& before, const std::vector<Wrench>& after,
                     double h) const {
    double work = 0.0;
    for (int i = holonomic_; i < size(); ++i) {
      const Row& row = rows[i];
      work += row.left_impulse(lambda[i]) * power(row, before, true) +
              row.right_impulse(lambda[i]) * power(row, after, false) +
              row.way * (row.stiffness * (row.stretch + 0.5 * row.way) + row.damping / h * row.way);
    }
    return work;
  }

  // After a step: what springs and dampers remember, and the mean rates of their lengths.
  void keep_springs(double h, VectorX& rates) {
    springs.keep(rows.data() + holonomic_, lambda.data() + holonomic_, h, rates);
  }

  // A start at a node with given twists of the links.
  void start_springs(const Frames& frames, const std::vector<Wrench>& twists, double h,
                     VectorX& rates) {
    evaluate_springs(frames, h, true);
    for (int i = holonomic_; i < size(); ++i) {
      rates[i - holonomic_] = power(rows[i], twists, true);
    }
    springs.start(rows.data() + holonomic_, rates);
  }

  // Where iterations start from: springs as they are at the left node.
  void start_lambda(double h) {
    lambda.setZero();
    for (int i = holonomic_; i < size(); ++i) {
      lambda[i] = -0.5 * h * rows[i].stiffness * rows[i].stretch;
    }
  }

  // The impulses that springs and dampers would have with the forces of the left node.
  void set_node_forces(double h) {
    for (int i = holonomic_; i < size(); ++i) {
      Row& row = rows[i];
      row.share = 1.0, row.carried = 0.0;
      lambda[i] = -0.5 * (h * row.stiffness * row.stretch + row.damping * row.way);
    }
  }

  // Potential of springs in the interval, less the mean of that at both nodes [J].
  double excess_potential() const {
    double sum = 0.0;
    for (int i = holonomic_; i < size(); ++i) {
      sum -= 0.125 * rows[i].stiffness * rows[i].way * rows[i].way;
    }
    return sum;
  }

  // Rows are to be chosen at this node, when they are first needed; it was evaluated last.
  void begin(const Frames& frames) {
    node_ = &frames;
    factored_ = false;
  }

  // Schur complement of the chosen rows on the factored tree, those of the loops and mimic joints
  // alone or all, as an LU decomposition. Rows differ by orders of magnitude in what they move (a
  // heavy link, a light rod, a turn): each is scaled by its own entry on the diagonal.
  bool factor(Elimination& tree, double inverse_h, bool with_compliant) {
    if (node_ != nullptr) choose();
    const int m = active_ = independent_ + (with_compliant ? size() - holonomic_ : 0);
    for (int j = 0; j < m; ++j) {
      const Row& row = rows[used_[j]];
      for (int i : path_) g_[i].linear.setZero(), g_[i].angular.setZero();
      add_force(row, -row.share, g_, r_.data());
      tree.climb(path_, r_.data(), g_);
      tree.descend(path_, dq_.data());
      add_joint_force(row, 0.0);
      answers_.col(j) = dq_;
      for (size_t i = 0; i < path_.size(); ++i) twists_(i, j) = tree.twist(path_[i]);
      for (int i = 0; i < m; ++i) schur_(i, j) = inverse_h * rate(rows[used_[i]], tree, dq_);
      schur_(j, j) += row.compliance;
    }
    return factored_ = decompose();
  }

  // Newton step of the tree and the rows together: increments dq, and lambda is changed.
  //   H dq = -r + J0' dlambda,   J1 dq / h + compliance dlambda = -residual of the rows
  void solve(Elimination& tree, const VectorX& r, double inverse_h, double* dq) {
    const int m = active_;
    Eigen::Map<VectorX> all(dq, model_.nv);
    tree.climb(r.data());
    tree.descend(path_, dq);
    for (int i = 0; i < m; ++i) {
      const Row& row = rows[used_[i]];
      rhs_[i] = -(inverse_h * row.error + row.compliance * lambda[used_[i]]) -
                inverse_h * rate(row, tree, all);
    }
    substitute();
    for (int i = 0; i < m; ++i) lambda[used_[i]] += rhs_[i];
    answer(tree, rhs_, dq);
  }

  // The same for a change of r alone: rows keep their errors, lambda stays.
  void solve_change(Elimination& tree, const VectorX& r, double inverse_h, double* dq) {
    Eigen::Map<VectorX> all(dq, model_.nv);
    tree.climb(r.data());
    tree.descend(path_, dq);
    for (int i = 0; i < active_; ++i) rhs_[i] = -inverse_h * rate(rows[used_[i]], tree, all);
    substitute();
    answer(tree, rhs_, dq);
  }

  // Takes back half of the last change of lambda.
  void halve_step() {
    rhs_.head(active_) *= 0.5;
    for (int i = 0; i < active_; ++i) lambda[used_[i]] -= rhs_[i];
  }

  // Kinetic energy of the part of a motion that the loops forbid at the left or right node [J], by
  // the inertia of the last `factor`. Mimic rows are linear and forbid nothing that was allowed.
  double energy_across(const std::vector<Wrench>& increments, bool left, double inverse_h) {
    rates_.setZero();
    for (int i = 0; i < independent_; ++i) {
      for (const RowEnd& end : rows[used_[i]].ends) {
        if (end.link == world || end.joint) continue;
        const Wrench &xi = increments[end.link], &w = left ? end.left : end.right;
        rates_[i] += inverse_h * (w.linear.dot(xi.linear) + w.angular.dot(xi.angular));
      }
    }
    rhs_ = rates_;
    substitute();
    return 0.5 * rates_.dot(rhs_);
  }

  // Whether there was a factorisation since `begin`.
  bool factored() const { return factored_; }

  // Velocities v with J v = 0 and M v = p + J' mu, for the factored mass matrix M.
  void project(Elimination& tree, const VectorX& p, double* v) {
    Eigen::Map<VectorX> all(v, model_.nv);
    dq_ = -p;
    tree.climb(dq_.data());
    tree.descend(path_, v);
    for (int i = 0; i < active_; ++i) rhs_[i] = -rate(rows[used_[i]], tree, all);
    substitute();
    mu_.setZero();
    for (int i = 0; i < active_; ++i) mu_[used_[i]] = rhs_[i];
    answer(tree, rhs_, v);
  }

 private:
  // Adds the answers to the rows' impulses to a solution that has come down the path, and goes on
  // to the links that hang on it.
  void answer(Elimination& tree, const VectorX& impulses, double* dq) {
    for (int j = 0; j < active_; ++j) {
      for (int k : path_dofs_) dq[k] += impulses[j] * answers_(k, j);
      for (size_t i = 0; i < path_.size(); ++i) {
        tree.twist(path_[i]) += impulses[j] * twists_(i, j);
      }
    }
    tree.descend(others_, dq);
  }

  // Chooses independent rows, the farthest from all that are chosen first; those with a compliance
  // always take part.
  void choose() {
    for (int i = 0; i < holonomic_; ++i) {
      gradients_.row(i).setZero();
      sizes_[i] = 0.0;
      for (const RowEnd& end : rows[i].ends) sizes_[i] += add_gradient(end, *node_, i);
    }
    std::iota(used_.begin(), used_.end(), 0);
    for (independent_ = 0; independent_ < holonomic_; ++independent_) {
      const int k = independent_;
      int best = k;
      double most = 0.0;
      for (int i = k; i < holonomic_; ++i) {
        const double left = gradients_.row(used_[i]).squaredNorm() / sizes_[used_[i]];
        if (left > most) most = left, best = i;
      }
      if (!(most > rank_tolerance * rank_tolerance)) break;
      std::swap(used_[k], used_[best]);
      const auto chosen = gradients_.row(used_[k]);
      const double inverse = 1.0 / chosen.squaredNorm();
      for (int i = k + 1; i < holonomic_; ++i) {
        auto row = gradients_.row(used_[i]);
        row -= inverse * row.dot(chosen) * chosen;
      }
    }
    for (int i = holonomic_; i < size(); ++i) used_[independent_ + i - holonomic_] = i;
    node_ = nullptr;
  }

  // Adds an end's part of the gradient of row i by the coordinates of the path; the square of what
  // that were if every joint turned or slid along with the row.
  double add_gradient(const RowEnd& end, const Frames& frames, int i) {
    if (end.link == world) return 0.0;
    if (end.joint) {
      gradients_(i, columns_[end.link]) += end.coefficient;
      return end.coefficient * end.coefficient;
    }
    double square = 0.0;
    Wrench f = end.left;
    for (int k = end.link; k != world; k = model_.links[k].parent) {
      const Link& link = model_.links[k];
      project_joint(link, frames[k], f, gradients_.row(i).data() + columns_[k]);
      if (link.kind != JointKind::prismatic) square += f.angular.squaredNorm();
      if (link.kind != JointKind::revolute && link.kind != JointKind::spherical) {
        square += f.linear.squaredNorm();
      }
      f.angular += frames[k].r.cross(f.linear);
    }
    return square;
  }

  static void set_end(RowEnd& end, int link, const Wrench& wrench, bool left) {
    end.link = link;
    end.right = wrench;
    if (left) end.left = wrench;
  }

  int evaluate_loop(const LoopJoint& loop, const Frames& frames, bool left, int row) {
    const auto pose = [&](int i) -> Pose {
      if (i == world) return {Vector3::Zero(), Quaternion::Identity()};
      return {frames[i].p + frames[i].c, frames[i].Q};
    };
    JointRows joint;
    joint_constraint(loop.joint, pose(loop.A), pose(loop.B), joint);
    // columns (dx of the centre of mass, dphi in body axes) to world axes at the link's origin
    const auto wrench = [&](int i, const auto& jacobian, int k) -> Wrench {
      const Vector3 linear = jacobian.template block<1, 3>(k, 0).transpose();
      const Vector3 angular = jacobian.template block<1, 3>(k, 3).transpose();
      if (i == world) return {linear, angular};
      return {linear, frames[i].R * angular + frames[i].c.cross(linear)};
    };
    for (int k = 0; k < joint_row_count(loop.joint.kind); ++k, ++row) {
      rows[row].error = joint.c[k];
      set_end(rows[row].ends[0], loop.A, wrench(loop.A, joint.jac_A, k), left);
      set_end(rows[row].ends[1], loop.B, wrench(loop.B, joint.jac_B, k), left);
    }
    return row;
  }

  void add_force(const Row& row, double factor, std::vector<Wrench>& f, double* r) const {
    for (const RowEnd& end : row.ends) {
      if (end.link == world) continue;
      if (end.joint) {
        r[model_.links[end.link].v] += factor * end.coefficient;
      } else {
        f[end.link].linear += factor * end.left.linear;
        f[end.link].angular += factor * end.left.angular;
      }
    }
  }

  void add_joint_force(const Row& row, double value) {
    for (const RowEnd& end : row.ends) {
      if (end.link != world && end.joint) r_[model_.links[end.link].v] = value;
    }
  }

  // Change of the row's error by the increments of the tree.
  template <typename Increments>
  double rate(const Row& row, const Elimination& tree, const Increments& dq) const {
    double sum = 0.0;
    for (const RowEnd& end : row.ends) {
      if (end.link == world) continue;
      if (end.joint) {
        sum += end.coefficient * dq[model_.links[end.link].v];
      } else {
        const Vector6& xi = tree.twist(end.link);
        sum += end.right.linear.dot(xi.head<3>()) + end.right.angular.dot(xi.tail<3>());
      }
    }
    return sum;
  }

  // LU with row exchanges, in place, of the matrix with a diagonal of ones.
  bool decompose() {
    const int m = active_;
    for (int k = 0; k < m; ++k) {
      const double size = std::abs(schur_(k, k));
      if (!(size > 0.0 && size < infinity)) return false;
      scale_[k] = 1.0 / std::sqrt(size);
    }
    for (int i = 0; i < m; ++i) {
      for (int j = 0; j < m; ++j) schur_(i, j) *= scale_[i] * scale_[j];
    }
    for (int k = 0; k < m; ++k) {
      int best = k;
      for (int i = k + 1; i < m; ++i) {
        if (std::abs(schur_(i, k)) > std::abs(schur_(best, k))) best = i;
      }
      order_[k] = best;
      if (!(std::abs(schur_(best, k)) > 0.0)) return false;
      if (best != k) schur_.row(k).swap(schur_.row(best));
      for (int i = k + 1; i < m; ++i) {
        const double factor = schur_(i, k) /= schur_(k, k);
        for (int j = k + 1; j < m; ++j) schur_(i, j) -= factor * schur_(k, j);
      }
    }
    return true;
  }

  void substitute() {
    const int m = active_;
    for (int k = 0; k < m; ++k) rhs_[k] *= scale_[k];
    for (int k = 0; k < m; ++k) std::swap(rhs_[k], rhs_[order_[k]]);
    for (int k = 0; k < m; ++k) {
      for (int i = k + 1; i < m; ++i) rhs_[i] -= schur_(i, k) * rhs_[k];
    }
    for (int k = m - 1; k >= 0; --k) {
      for (int j = k + 1; j < m; ++j) rhs_[k] -= schur_(k, j) * rhs_[j];
      rhs_[k] /= schur_(k, k);
    }
    for (int k = 0; k < m; ++k) rhs_[k] *= scale_[k];
  }

  const Model& model_;
  std::vector<int> path_, others_,
      path_dofs_;  // links between rows and root, and what hangs on them
  std::vector<Wrench> g_;
  VectorX r_, dq_, mu_;
  std::vector<int> columns_;  // first of each link among path_dofs_
  int holonomic_ = 0, independent_ = 0, active_ = 0;
  std::vector<int> used_;  // rows: the independent ones, then those with a compliance
  Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> schur_, gradients_;
  VectorX sizes_, scale_;  // squares of what both ends give to a gradient; of the rows of schur_
  // Column j: increments of joints and links on the path in answer to a unit impulse of row used_j.
  Eigen::MatrixXd answers_;
  Eigen::Matrix<Vector6, Eigen::Dynamic, Eigen::Dynamic> twists_;
  VectorX rhs_, rates_;
  bool factored_ = false;         // since rows were to be chosen
  const Frames* node_ = nullptr;  // where rows are still to be chosen
  std::vector<int> order_;
};

}  // namespace vi_contact
