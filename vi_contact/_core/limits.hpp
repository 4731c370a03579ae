// Joint limits and Coulomb friction of joints with one coordinate: the laws of contact in joint
// space.
//
//   limits    x(q1) - lower >= 0,  upper - x(q1) >= 0, each with an impulse that never pulls
//   friction  |f| <= h F, against the joint's increment of the step
//
// Impulses act at the left node, as those of contacts: hitting a limit is inelastic, and a joint
// that sticks stays where it is.
#pragma once

#include "contact_law.hpp"
#include "elimination.hpp"

namespace vi_contact {

// Stiffness of a limit within one Newton iteration, in inertias of the joint per time step.
inline constexpr double limit_hardness = 1e5;

class JointLaws {
 public:
  struct Entry {
    int link, v, c;
    double lower, upper, torque;  // torque: of Coulomb friction
    double inertia;
    double R = 1.0, hard = 1.0, bound = 0.0, x0 = 0.0, anchor = 0.0;
    bool sliding = false, sticking = false, closed = false;  // in the last step
    Unilateral low, high;
    Friction friction;
    double mean = 0.0;  // speed over the last step
    double kept_low = 0.0, kept_high = 0.0, kept_friction = 0.0;
    double start_low, start_high, start_friction;  // impulses where sweeps began
    double change_low, change_high, slack_low, slack_high, change_psi, change_slip;
    double c_low, C_low, c_high, C_high, c_friction, C_friction, change_friction;

    double impulse() const { return low.n - high.n + friction.b.x(); }
  };
  static constexpr int memory_size = 5;

  // frames: any configuration; it gives the order of magnitude of the joints' inertias.
  JointLaws(const Model& model, const Frames& frames) {
    const int n = model.size();
    std::vector<double> inertia(n, 0.0);
    for (int j = 0; j < n; ++j) {
      const Link& body = model.links[j];
      for (int i = j; i != world; i = model.links[i].parent) {
        const Vector3 lever = frames[j].p + frames[j].c - frames[i].p;
        inertia[i] += model.links[i].kind == JointKind::prismatic
                          ? body.mass
                          : body.mass * lever.squaredNorm() + body.inertia.trace() / 3.0;
      }
    }
    for (int i = 0; i < n; ++i) {
      const Link& link = model.links[i];
      if (link.nv != 1) continue;
      const Drive& drive = model.drives[link.v];
      const bool limited = !link.unbounded && (drive.lower > -infinity || drive.upper < infinity);
      if (!limited && !(drive.friction > 0.0)) continue;
      Entry& e = entries.emplace_back();
      e.link = i, e.v = link.v, e.c = link.c;
      e.lower = link.unbounded ? -infinity : drive.lower;
      e.upper = link.unbounded ? infinity : drive.upper;
      e.torque = drive.friction;
      e.inertia = std::max(inertia[i] + drive.armature, 1e-12);
    }
  }

  std::vector<Entry> entries;

  void begin(const double* x0, double h) {
    for (Entry& e : entries) {
      e.R = e.inertia / h;
      e.hard = limit_hardness * e.R;
      // half of the step before and half of this one, which after a start is all there is
      e.bound = (e.sliding || e.sticking ? 1.0 : 0.5) * h * e.torque;
      e.x0 = x0[e.c];
    }
  }

  void evaluate(const double* x1) {
    for (Entry& e : entries) {
      e.low.g = x1[e.c] - e.lower;
      e.high.g = e.upper - x1[e.c];
      e.friction.d = {x1[e.c] - e.x0 + e.anchor, 0.0};
    }
  }

  void subtract_forces(double* r) const {
    for (const Entry& e : entries) r[e.v] -= e.impulse();
  }

  void errors(double& largest, double& squares) const {
    for (const Entry& e : entries) {
      const double a = e.lower > -infinity ? e.low.error(e.R) : 0.0;
      const double b = e.upper < infinity ? e.high.error(e.R) : 0.0;
      const double f = e.torque > 0.0 ? e.friction.error(e.R, e.bound).x() : 0.0;
      squares += a * a + b * b + f * f;
      const double size = std::max({std::abs(a), std::abs(b), std::abs(f)}) / e.R;
      if (!(size <= largest) && !std::isnan(largest)) largest = size;
    }
  }

  unsigned long linearise_newton() {
    unsigned long pattern = entries.size();
    for (Entry& e : entries) {
      set(e.lower > -infinity, e.low.newton(e.R, e.hard), e.c_low, e.C_low);
      set(e.upper < infinity, e.high.newton(e.R, e.hard), e.c_high, e.C_high);
      set_friction(e, e.friction.newton(e.R, e.hard, e.bound, e.bound, 0.0));
      pattern =
          pattern * 1000003UL + (e.C_low > 0.0) + 2 * (e.C_high > 0.0) + 4 * (e.C_friction > 0.0);
    }
    return pattern;
  }

  void add_blocks(Elimination& tree) const {
    for (const Entry& e : entries) tree.kappa[e.v] += e.C_low + e.C_high + e.C_friction;
  }

  void subtract_answers(double* r) const {
    for (const Entry& e : entries) r[e.v] -= e.c_low - e.c_high + e.c_friction;
  }

  void find_changes(const double* dq) {
    for (Entry& e : entries) {
      e.change_low = e.c_low - e.C_low * dq[e.v];
      e.change_high = e.c_high + e.C_high * dq[e.v];
      e.change_friction = e.c_friction - e.C_friction * dq[e.v];
    }
  }

  void take_step(double a) {
    for (Entry& e : entries) {
      e.low.n += a * e.change_low;
      e.high.n += a * e.change_high;
      e.friction.b.x() += a * e.change_friction;
    }
  }

  // ------------------------------------------------------------------------------- interior point
  void enter_interior(double scale) {  // of motions [rad or m]
    for (Entry& e : entries) {
      for (Unilateral* side : {&e.low, &e.high}) {
        side->slack = std::max(side->g, scale);
        side->n = std::max(side->n, std::min(1.0, scale / side->slack) * e.R * scale);
      }
      if (e.torque > 0.0) {
        e.friction.b.x() = std::clamp(e.friction.b.x(), -0.5 * e.bound, 0.5 * e.bound);
        e.friction.slack = e.friction.d;
        e.friction.psi = 1.5 * e.friction.d.norm() + scale;
      }
    }
  }

  void interior_errors(double kappa, double& product, double& slack, double& squares) const {
    for (const Entry& e : entries) {
      double p = 0.0, s = 0.0;
      if (e.lower > -infinity) side_errors(e.low, kappa, p, s);
      if (e.upper < infinity) side_errors(e.high, kappa, p, s);
      if (e.torque > 0.0) {
        p = std::max(p, e.friction.interior_error(kappa, e.bound));
        s = std::max(s, std::abs(e.friction.d.x() - e.friction.slack.x()));
      }
      if (!(p <= product)) product = p;
      if (!(s <= slack)) slack = s;
      squares += e.R * e.R * s * s + e.R * p;
    }
  }

  void linearise_interior(double kappa) {
    for (Entry& e : entries) {
      set(e.lower > -infinity, e.low.interior(kappa), e.c_low, e.C_low);
      set(e.upper < infinity, e.high.interior(kappa), e.c_high, e.C_high);
      if (e.torque > 0.0) {
        set_friction(e, e.friction.interior(kappa, e.bound, 0.0));
      } else {
        e.c_friction = e.C_friction = 0.0;
      }
    }
  }

  double find_interior_changes(const double* dq, double kappa) {
    double a = 1.0;
    find_changes(dq);
    for (Entry& e : entries) {
      e.slack_low = e.low.slack_change(dq[e.v]);
      e.slack_high = e.high.slack_change(-dq[e.v]);
      if (e.lower > -infinity) {
        a = std::min(a, step_inside(e.low.n, e.change_low));
        a = std::min(a, step_inside(e.low.slack, e.slack_low));
      }
      if (e.upper < infinity) {
        a = std::min(a, step_inside(e.high.n, e.change_high));
        a = std::min(a, step_inside(e.high.slack, e.slack_high));
      }
      e.change_slip = e.change_psi = 0.0;
      if (!(e.torque > 0.0)) continue;
      const Vector2 db(e.change_friction, 0.0), move(dq[e.v], 0.0);
      const Vector2 dz = e.friction.slack_change(move);
      e.change_slip = dz.x();
      e.change_psi = e.friction.psi_change(kappa, e.bound, 0.0, db, dz);
      a = std::min(a, step_inside_cone(e.bound, e.friction.b, 0.0, db));
      a = std::min(a, step_inside_cone(e.friction.psi, e.friction.slack, e.change_psi, dz));
    }
    return a;
  }

  void take_interior_step(double a) {
    take_step(a);
    for (Entry& e : entries) {
      if (e.lower > -infinity) e.low.slack += a * e.slack_low;
      if (e.upper < infinity) e.high.slack += a * e.slack_high;
      e.friction.slack.x() += a * e.change_slip;
      e.friction.psi += a * e.change_psi;
    }
  }

  // ------------------------------------------------------------------------------- velocities
  // At a node: limits that were reached hold, friction of half a step acts.
  void begin_velocities(double h) {
    for (Entry& e : entries) {
      e.kept_low = e.low.n, e.kept_high = e.high.n, e.kept_friction = e.friction.b.x();
      e.R = e.inertia;
      e.hard = limit_hardness * e.R;
      e.bound = e.sliding || e.sticking ? 0.5 * h * e.torque : 0.0;
      e.low.n = e.high.n = 0.0;
      e.friction.b.setZero();
      e.low.g = e.high.g = e.friction.d.x() = 0.0;
    }
  }
  void end_velocities() {
    for (Entry& e : entries) {
      e.low.n = e.kept_low, e.high.n = e.kept_high, e.friction.b.x() = e.kept_friction;
    }
  }
  void begin_sweeps() {
    for (Entry& e : entries) {
      e.low.g = e.kept_low > 0.0 ? 0.0 : infinity;
      e.high.g = e.kept_high > 0.0 ? 0.0 : infinity;
      e.friction.d.x() = 0.0;
    }
  }
  void evaluate_velocities(const double* v) {
    for (Entry& e : entries) {
      e.low.g = e.kept_low > 0.0 ? v[e.v] : infinity;
      e.high.g = e.kept_high > 0.0 ? -v[e.v] : infinity;
      e.friction.d.x() = v[e.v];
    }
  }
  void add_velocity_answers(const double* v, double* p) const {
    for (const Entry& e : entries) {
      p[e.v] += e.impulse() + e.c_low - e.c_high + e.c_friction +
                (e.C_low + e.C_high + e.C_friction) * v[e.v];
    }
  }
  // From velocities v to w.
  void change_by_velocities(const double* v, const double* w) {
    for (Entry& e : entries) {
      const double dv = w[e.v] - v[e.v];
      e.low.n += e.c_low - e.C_low * dv;
      e.high.n += e.c_high + e.C_high * dv;
      e.friction.b.x() += e.c_friction - e.C_friction * dv;
    }
  }
  bool act() const {
    for (const Entry& e : entries) {
      if (e.low.n > 0.0 || e.high.n > 0.0 || e.sliding || e.sticking) return true;
    }
    return false;
  }
  void scale(double factor) {
    for (Entry& e : entries) e.low.n *= factor, e.high.n *= factor, e.friction.b *= factor;
  }

  // ------------------------------------------------------------------------------- steps
  bool commit() {
    bool changed = false;
    for (Entry& e : entries) {
      const bool closed = e.low.trial(e.R) > 0.0 || e.high.trial(e.R) > 0.0;
      e.low.n = e.low.trial(e.R) > 0.0 ? std::max(0.0, e.low.n) : 0.0;
      e.high.n = e.high.trial(e.R) > 0.0 ? std::max(0.0, e.high.n) : 0.0;
      const bool sticking = e.torque > 0.0 && e.friction.sticks(e.R, e.bound);
      const bool sliding = e.torque > 0.0 && !sticking;
      e.anchor = sticking ? e.friction.d.x() : 0.0;
      changed |= closed != e.closed || sliding != e.sliding;
      e.closed = closed, e.sliding = sliding, e.sticking = sticking;
    }
    return changed;
  }

  void forget() {
    for (Entry& e : entries) {
      e.low.n = e.high.n = e.friction.b.x() = e.anchor = 0.0;
      e.sliding = e.sticking = e.closed = false;
    }
  }

  void get_state(double* out) const {
    for (const Entry& e : entries) {
      *out++ = e.low.n, *out++ = e.high.n, *out++ = e.friction.b.x(), *out++ = e.anchor;
      *out++ = (e.sliding ? 1.0 : 0.0) + (e.sticking ? 2.0 : 0.0) + (e.closed ? 4.0 : 0.0);
    }
  }
  void set_state(const double* in) {
    for (Entry& e : entries) {
      e.low.n = *in++, e.high.n = *in++, e.friction.b.x() = *in++, e.anchor = *in++;
      const int flags = static_cast<int>(*in++);
      e.sliding = flags & 1, e.sticking = flags & 2, e.closed = flags & 4;
    }
  }
  // Whether the flags in a state are such.
  bool are_flags(const double* in) const {
    for (size_t i = 0; i < entries.size(); ++i, in += memory_size) {
      if (!(in[4] >= 0.0 && in[4] <= 7.0 && in[4] == std::floor(in[4]))) return false;
    }
    return true;
  }
  void load_impulses(const double* in) {
    for (Entry& e : entries) {
      e.low.n = in[0], e.high.n = in[1], e.friction.b.x() = in[2];
      in += memory_size;
    }
  }
  int state_size() const { return memory_size * static_cast<int>(entries.size()); }

 private:
  static void set(bool there, const Unilateral::Answer& answer, double& c, double& C) {
    c = there ? answer.c : 0.0, C = there ? answer.C : 0.0;
  }
  static void set_friction(Entry& e, const Friction::Answer& answer) {
    e.c_friction = e.torque > 0.0 ? answer.c.x() : 0.0;
    e.C_friction = e.torque > 0.0 ? answer.C(0, 0) : 0.0;
  }
  static void side_errors(const Unilateral& side, double kappa, double& p, double& s) {
    p = std::max(p, std::abs(side.interior_error(kappa)));
    s = std::max(s, std::abs(side.g - side.slack));
  }
};

}  // namespace vi_contact
