// Gauss-Seidel over the laws of contact: slow to finish, hard to mislead.
//
// Linearised at an iterate, the displacements of contacts and joints answer to impulses by
//
//   u = u0 + W (gamma - gamma0),     W = J1 H^-1 J0'
//
// with H the Newton matrix of the step without laws. In each sweep every law in turn takes the
// impulse that fulfils it while the others stand: the normal impulse, the tangential one within the
// cone of that, limits, joint friction. A solution may have a small basin for Newton's method,
// which changes the state of all laws at once; sweeps find the states, Newton's method the last
// digits.
#pragma once

#include <utility>

#include "body_contact.hpp"
#include "limits.hpp"

namespace vi_contact {

// A direction in which a contact moves less than this part of another is held: round-off.
inline constexpr double no_mobility = 1e-12;

// The impulse (n, b) of one contact alone, with u = free + W (n, b): open, sticking or sliding.
//
// Sliding, u_n = 0 and u_t = -x b with x > 0. Without n, u_t = c + S b, hence b = -(S + x I)^-1 c.
// As x grows from zero, |b| - mu n falls from the sticking impulse, outside the cone, to b = 0
// inside it: there is a root, also where friction jams (Painleve). Sought in s = x / (x + size).
//
// Where the link cannot move in the contact's normal there is no impulse; where it can slide along
// one line only, S = l w w', friction acts along that, and where not at all, it does not.
inline Vector3 solve_contact(const Matrix3& W, const Vector3& free, double mu) {
  if (!(free[0] < 0.0) || !(W(0, 0) > no_mobility * W.trace())) return Vector3::Zero();
  const double inverse = 1.0 / W(0, 0);
  const Vector2 along = W.block<2, 1>(1, 0), row = W.block<1, 2>(0, 1).transpose();
  const Vector2 c = free.tail<2>() - along * (free[0] * inverse);
  const Matrix2 S = W.bottomRightCorner<2, 2>() - along * row.transpose() * inverse;
  const double size = 0.5 * S.trace();
  const bool slides = size > no_mobility * W(0, 0);
  const bool one_line = !(std::abs(S.determinant()) > no_mobility * size * size);
  const Vector2 line = S.col(S(0, 0) > S(1, 1) ? 0 : 1).stableNormalized();
  const auto tangential = [&](double s, const Vector2& v) -> Vector2 {
    if (!slides) return Vector2::Zero();
    if (one_line) return line * (line.dot(v) / (2.0 * (1.0 - s) * size + s * size));
    const Matrix2 A = (1.0 - s) * S + s * size * Matrix2::Identity();
    return A.inverse() * v;
  };
  const auto impulse = [&](double s) -> Vector3 {
    const Vector2 b = tangential(s, (s - 1.0) * c);
    return {-(free[0] + row.dot(b)) * inverse, b.x(), b.y()};
  };
  const auto outside = [&](const Vector3& x) { return x.tail<2>().norm() - mu * x[0]; };
  Vector3 gamma = impulse(0.0);
  double low = 0.0, high = 1.0, f_low = outside(gamma), f_high = mu * free[0] * inverse;
  if (f_low <= 0.0) return gamma;
  int side = 0;
  for (int k = 0; k < 60 && high - low > 1e-15; ++k) {  // regula falsi, Illinois
    const double guess = (low * f_high - high * f_low) / (f_high - f_low);
    const double s = k % 4 == 3 ? 0.5 * (low + high) : guess;
    gamma = impulse(s);
    const double f = outside(gamma);
    if (std::abs(f) <= 1e-15 * mu * std::abs(gamma[0])) break;
    if (f > 0.0) {
      low = s, f_low = f;
      if (side == 1) f_high *= 0.5;
      side = 1;
    } else {
      high = s, f_high = f;
      if (side == -1) f_low *= 0.5;
      side = -1;
    }
  }
  const double n = std::max(gamma[0], 0.0), length = gamma.tail<2>().norm();
  if (length > mu * n) gamma.tail<2>() *= mu * n / length;
  return {n, gamma[1], gamma[2]};
}

// Every so many sweeps the change of the last is extrapolated.
inline constexpr int sweeps_to_extrapolation = 10;

// Laws that push each other to and fro, as where friction jams, get smaller and smaller changes.
inline constexpr int sweeps_to_relaxation = 40;
inline constexpr double least_relaxation = 0.05;

// All laws, contacts numbered through: those with the ground first, then those between bodies.
struct AllLaws {
  Contacts& ground;
  BodyContacts& bodies;
  JointLaws& joints;

  int ground_count() const { return static_cast<int>(ground.near.size()); }
  int contact_count() const { return ground_count() + static_cast<int>(bodies.near.size()); }
  ContactState& contact(int k) const {
    if (k < ground_count()) return ground.near[k];
    return bodies.near[k - ground_count()];
  }
  // Motion (n, t1, t2) by the increments of the tree.
  Vector3 motion(int k, const Elimination& tree) const {
    if (k < ground_count()) return ground.motion(ground.near[k], tree);
    return bodies.motion(bodies.near[k - ground_count()], tree);
  }
  // f += J0' gamma
  void add_wrench(int k, const Vector3& gamma, std::vector<Wrench>& f) const {
    if (k < ground_count()) {
      ground.add_wrench(ground.near[k], gamma, f[ground.near[k].link]);
    } else {
      bodies.add_wrench(bodies.near[k - ground_count()], gamma, f);
    }
  }
};

class Sweeps {
 public:
  std::vector<int> contacts, joints;  // the laws that take part, by their numbers in `AllLaws`

  int rows() const {
    return 3 * static_cast<int>(contacts.size()) + static_cast<int>(joints.size());
  }

  // Where the laws are before the sweeps: gaps and slips of contacts, increments of joints.
  double* displacements() { return u_.data(); }
  // Column j of W, the answer of all rows to impulse j.
  double* column(int j) { return W_.data() + static_cast<size_t>(j) * rows(); }

  void begin(const AllLaws& laws) {
    contacts.clear(), joints.clear();
    joints_at_ = laws.contact_count();
    in_.assign(joints_at_ + laws.joints.entries.size(), 0);
    for (int k = 0; k < laws.contact_count(); ++k) {
      laws.contact(k).start = laws.contact(k).impulse();
    }
    for (JointLaws::Entry& e : laws.joints.entries) {
      e.start_low = e.low.n, e.start_high = e.high.n, e.start_friction = e.friction.b.x();
    }
  }
  void add_contact(int k) {
    if (!std::exchange(in_[k], 1)) contacts.push_back(k);
  }
  void add_joint(int k) {
    if (!std::exchange(in_[joints_at_ + k], 1)) joints.push_back(k);
  }

  // Impulses as they were, and what the sweeps changed of them.
  void end(const AllLaws& laws) const {
    for (int k = 0; k < laws.contact_count(); ++k) {
      ContactState& c = laws.contact(k);
      c.change = c.impulse() - c.start;
      c.normal.n = c.start[0], c.friction.b = c.start.tail<2>();
    }
    for (JointLaws::Entry& e : laws.joints.entries) {
      e.change_low = e.low.n - e.start_low, e.low.n = e.start_low;
      e.change_high = e.high.n - e.start_high, e.high.n = e.start_high;
      e.change_friction = e.friction.b.x() - e.start_friction, e.friction.b.x() = e.start_friction;
    }
  }

  void resize() {
    u_.resize(rows());
    W_.resize(static_cast<size_t>(rows()) * rows());
  }

  // The motion of every row by the increments of the tree.
  void motions(const AllLaws& laws, const Elimination& tree, const double* dq, double* out) const {
    for (int k : contacts) {
      const Vector3 u = laws.motion(k, tree);
      out[0] = u[0], out[1] = u[1], out[2] = u[2];
      out += 3;
    }
    for (int k : joints) *out++ = dq[laws.joints.entries[k].v];
  }

  // Gaps and slips of contacts, and increments of joints, after the increments of the tree.
  void set_displacements(const AllLaws& laws, const Elimination& tree, const double* dq) {
    motions(laws, tree, dq, u_.data());
    double* out = u_.data();
    for (int k : contacts) {
      const Vector3 e = laws.contact(k).error();
      out[0] += e[0], out[1] += e[1], out[2] += e[2];
      out += 3;
    }
  }

  // One sweep; the largest displacement [m or rad] that a change of an impulse made to its own row.
  double sweep(const AllLaws& laws) {
    double largest = 0.0;
    int row = 0;
    for (int k : contacts) {
      ContactState& c = laws.contact(k);
      const Matrix3 W = own_block(row);
      const Vector3 old = c.impulse();
      const Vector3 free = Vector3(u_.data() + row) - W * old;
      const Vector3 gamma = old + relaxation_ * (solve_contact(W, free, c.mu) - old);
      c.normal.n = gamma[0], c.friction.b = gamma.tail<2>();
      for (int j = 0; j < 3; ++j) change(row + j, gamma[j] - old[j]);
      largest = std::max(largest, (W * (gamma - old)).cwiseAbs().maxCoeff());
      row += 3;
    }
    for (int k : joints) {
      JointLaws::Entry& e = laws.joints.entries[k];
      const double own = compliance(row, e.R);
      if (e.lower > -infinity) {
        const double n = std::max(0.0, e.low.n - relaxation_ * (e.low.g + u_[row]) / own);
        largest = std::max(largest, own * change(row, n - e.low.n));
        e.low.n = n;
      }
      if (e.upper < infinity) {
        const double n = std::max(0.0, e.high.n - relaxation_ * (e.high.g - u_[row]) / own);
        largest = std::max(largest, own * change(row, e.high.n - n));
        e.high.n = n;
      }
      if (e.torque > 0.0) {
        const double b =
            std::clamp(e.friction.b.x() - (e.friction.d.x() + u_[row]) / own, -e.bound, e.bound);
        largest = std::max(largest, own * change(row, b - e.friction.b.x()));
        e.friction.b.x() = b;
      }
      ++row;
    }
    return largest;
  }

  // What `set_answers` and `run` have taken since the last call, in Newton iterations of a robot of
  // so many bodies: a quarter of one for each row's answer, each row that looks at it and each
  // sweep over all rows little beside a body's share.
  double take_work(int bodies) {
    const double n = rows(), sweeps = std::exchange(sweeps_, 0);
    return 0.25 * n + n * n * (5e-3 + 5e-4 * sweeps) / bodies;
  }

  // Sweeps until impulses move their rows by less than `tolerance` [m or rad]; what the last moved.
  //
  // Redundant contacts that do not agree load each other by the same amount in every sweep until
  // one slides or opens: now and then the last change is extrapolated, at most until that happens.
  double run(const AllLaws& laws, double tolerance, int most) {
    double moved = 0.0, last = infinity;
    relaxation_ = 1.0;
    for (int count = 1; count <= most; ++count) {
      const bool look = count % sweeps_to_extrapolation == 0;
      const bool before = (count + 1) % sweeps_to_extrapolation == 0;
      if (look || before) gather(laws, start_);
      moved = sweep(laws);
      ++sweeps_;
      if (!(moved > tolerance)) break;
      if (!look && !before) continue;
      gather(laws, now_);
      std::swap(delta_, delta_before_);
      delta_.resize(now_.size());
      for (size_t i = 0; i < now_.size(); ++i) delta_[i] = now_[i] - start_[i];
      if (!look) continue;
      const bool drifts = extrapolate(laws);
      if (count % sweeps_to_relaxation != 0) continue;
      if (!drifts && moved > 0.5 * last) {
        relaxation_ = std::max(0.5 * relaxation_, least_relaxation);
      }
      last = moved;
    }
    return moved;
  }

 private:
  void gather(const AllLaws& laws, std::vector<double>& out) const {
    out.clear();
    for (int k : contacts) {
      const ContactState& c = laws.contact(k);
      out.insert(out.end(), {c.normal.n, c.friction.b.x(), c.friction.b.y()});
    }
    for (int k : joints) {
      const JointLaws::Entry& e = laws.joints.entries[k];
      out.insert(out.end(), {e.low.n, e.high.n, e.friction.b.x()});
    }
  }

  // gamma += a delta, a = rho / (1 - rho) for a geometric sequence of ratio rho, but no further
  // than to where an impulse vanishes or reaches its bound. False if it is none.
  bool extrapolate(const AllLaws& laws) {
    double same = 0.0, size = 0.0;
    for (size_t i = 0; i < delta_.size(); ++i) {
      same += delta_[i] * delta_before_[i];
      size += delta_before_[i] * delta_before_[i];
    }
    if (!(same > 0.3 * size)) return false;
    const double ratio = same / size;
    double a = ratio < 1.0 - 1e-6 ? ratio / (1.0 - ratio) : 1e6;
    const auto keep_above = [&](double x, double dx) {
      if (dx < 0.0) a = std::min(a, -x / dx);
    };
    size_t i = 0;
    for (int k : contacts) {
      const ContactState& c = laws.contact(k);
      const Vector2 b = c.friction.b, db(delta_[i + 1], delta_[i + 2]);
      const double m = c.mu * c.normal.n, dm = c.mu * delta_[i];
      keep_above(c.normal.n, delta_[i]);
      if (b.norm() < (1.0 - 1e-9) * m) a = std::min(a, cone_exit(m, b, dm, db));
      i += 3;
    }
    for (int k : joints) {
      const JointLaws::Entry& e = laws.joints.entries[k];
      keep_above(e.low.n, delta_[i]);
      keep_above(e.high.n, delta_[i + 1]);
      keep_above(e.bound - e.friction.b.x(), -delta_[i + 2]);
      keep_above(e.bound + e.friction.b.x(), delta_[i + 2]);
      i += 3;
    }
    if (!(a > 0.0)) return true;
    i = 0;
    int row = 0;
    for (int k : contacts) {
      ContactState& c = laws.contact(k);
      const double n = std::max(0.0, c.normal.n + a * delta_[i]);
      Vector2 b = c.friction.b + a * Vector2(delta_[i + 1], delta_[i + 2]);
      if (b.norm() > c.mu * n) b *= c.mu * n / b.norm();
      change(row, n - c.normal.n);
      change(row + 1, b.x() - c.friction.b.x());
      change(row + 2, b.y() - c.friction.b.y());
      c.normal.n = n, c.friction.b = b;
      i += 3, row += 3;
    }
    for (int k : joints) {
      JointLaws::Entry& e = laws.joints.entries[k];
      const double before = e.impulse();
      e.low.n = std::max(0.0, e.low.n + a * delta_[i]);
      e.high.n = std::max(0.0, e.high.n + a * delta_[i + 1]);
      e.friction.b.x() = std::clamp(e.friction.b.x() + a * delta_[i + 2], -e.bound, e.bound);
      change(row, e.impulse() - before);
      i += 3, ++row;
    }
    return true;
  }

  double compliance(int row, double R) {
    return std::max(column(row)[row], 1e-3 / R);  // below: a step too long to mean something
  }

  Matrix3 own_block(int row) {
    Matrix3 W;
    for (int j = 0; j < 3; ++j) W.col(j) = Vector3(column(row + j) + row);
    return W;
  }

  double change(int j, double impulse) {
    if (impulse == 0.0) return 0.0;
    const double* w = column(j);
    const int n = rows();
    for (int i = 0; i < n; ++i) u_[i] += impulse * w[i];
    return std::abs(impulse);
  }

  std::vector<double> u_, W_, start_, now_, delta_, delta_before_;
  std::vector<char> in_;  // whether a contact or joint takes part
  int joints_at_ = 0, sweeps_ = 0;
  double relaxation_ = 1.0;
};

}  // namespace vi_contact
