// The laws of one contact with friction, as unknowns that the solver moves; see contact_law.hpp.
#pragma once

#include "contact_law.hpp"
#include "kinematics.hpp"

namespace vi_contact {

// Slip that is round-off [m]: where a robot cannot move at all, as sideways on a rail, friction
// must not add it up.
inline constexpr double no_slip = 1e-14;

// A contact that begins the motion no farther from the ground, or from another body, touches [m].
inline constexpr double touching = 1e-6;

struct ContactState {
  double mu = 0.0;
  double R = 1.0, hard = 1.0;  // masses per time step: for the choice of the state, and when closed
  bool rests = false;          // on the ground, or on another body, where the motion begins
  Vector2 anchor = Vector2::Zero(), slip = Vector2::Zero();  // slip of the last step, of both
  Unilateral normal;
  Friction friction;
  Vector3 c = Vector3::Zero();       // answer to no motion
  Matrix3 C = Matrix3::Zero();       // d(impulse) = c - C motion
  Vector3 start = Vector3::Zero();   // impulses where sweeps began
  Vector3 change = Vector3::Zero();  // of the impulses in this iteration
  double change_slack = 0.0, change_psi = 0.0;
  Vector2 change_slip = Vector2::Zero();

  Vector3 impulse() const { return {normal.n, friction.b.x(), friction.b.y()}; }
  Vector3 error() const { return {normal.g, friction.d.x(), friction.d.y()}; }

  // The slip over this step; what the last one left is made up for.
  void set_slip(const Vector2& over_step) {
    slip = over_step + anchor;
    for (int j = 0; j < 2; ++j) friction.d[j] = std::abs(slip[j]) < no_slip ? 0.0 : slip[j];
  }

  // An impulse at a node is that of half the step before and half this one, lengths h0 and h; of
  // its mean force, the impulse over this step. A contact that has just closed takes an impact.
  Vector3 over_step(const Vector3& gamma, bool was_closed, double h0, double h) const {
    return was_closed || rests ? Vector3(2.0 * h / (h0 + h) * gamma) : gamma;
  }

  // Largest error of the laws [m] and the sum of squares of R times them [N s].
  void add_errors(double& largest, double& squares) const {
    const double e = normal.error(R);
    const Vector2 f = friction.error(R, mu * normal.trial(R));
    squares += e * e + f.squaredNorm();
    const double size = std::max(std::abs(e), f.cwiseAbs().maxCoeff()) / R;
    if (!(size <= largest) && !std::isnan(largest)) largest = size;
  }

  // 1 if it is open, 2 if it sticks, 3 if it slides.
  int linearise_newton() {
    const Unilateral::Answer n = normal.newton(R, hard);
    const double m_trial = mu * normal.trial(R);
    if (n.C == 0.0) {
      set_answer(n, {-friction.b, Vector2::Zero(), Matrix2::Zero()});
      return 1;
    }
    set_answer(n, friction.newton(R, hard, m_trial, mu * normal.n, mu));
    return friction.sticks(R, m_trial) ? 2 : 3;
  }

  void linearise_stick() {
    const bool closed = normal.n > 0.0 || normal.g < 0.0;
    c = closed ? Vector3(-hard * error()) : Vector3(-impulse());
    C = closed ? Matrix3(hard * Matrix3::Identity()) : Matrix3(Matrix3::Zero());
  }

  void take(double a) {
    normal.n += a * change[0];
    friction.b += a * change.tail<2>();
  }

  // ------------------------------------------------------------------------------- interior point
  void enter_interior(double gap_scale) {
    normal.slack = std::max(normal.g, gap_scale);
    normal.n = std::max(normal.n, R * gap_scale * (gap_scale / normal.slack));
    const double m = mu * normal.n, length = friction.b.norm();
    if (length > 0.5 * m) friction.b *= 0.5 * m / length;
    friction.slack = friction.d;
    friction.psi = 1.5 * friction.d.norm() + gap_scale;
  }

  void add_interior_errors(double kappa, double& product, double& slack, double& squares) const {
    double p = std::abs(normal.interior_error(kappa));
    double s = std::abs(normal.g - normal.slack);
    if (mu > 0.0) {
      p = std::max(p, friction.interior_error(kappa, mu * normal.n));
      s = std::max(s, (friction.d - friction.slack).cwiseAbs().maxCoeff());
    }
    if (!(p <= product)) product = p;
    if (!(s <= slack)) slack = s;
    squares += R * R * s * s + R * p;
  }

  void linearise_interior(double kappa) {
    const Unilateral::Answer n = normal.interior(kappa);
    if (mu > 0.0) {
      set_answer(n, friction.interior(kappa, mu * normal.n, mu));
    } else {
      set_answer(n, {-friction.b, Vector2::Zero(), Matrix2::Zero()});
    }
  }

  // Changes of all variables by a motion, `change` being known; the longest step that stays inside.
  double find_interior_change(const Vector3& motion, double kappa) {
    change_slack = normal.slack_change(motion[0]);
    double a = std::min(step_inside(normal.n, change[0]), step_inside(normal.slack, change_slack));
    change_slip.setZero(), change_psi = 0.0;
    if (!(mu > 0.0)) return a;
    const double m = mu * normal.n, dm = mu * change[0];
    const Vector2 db = change.tail<2>();
    change_slip = friction.slack_change(motion.tail<2>());
    change_psi = friction.psi_change(kappa, m, dm, db, change_slip);
    a = std::min(a, step_inside_cone(m, friction.b, dm, db));
    return std::min(a, step_inside_cone(friction.psi, friction.slack, change_psi, change_slip));
  }

  void take_interior(double a) {
    take(a);
    normal.slack += a * change_slack;
    friction.slack += a * change_slip;
    friction.psi += a * change_psi;
  }

 private:
  void set_answer(const Unilateral::Answer& n, const Friction::Answer& f) {
    c << n.c, f.c + f.along * n.c;
    C(0, 0) = n.C;
    C.block<1, 2>(0, 1).setZero();
    C.block<2, 1>(1, 0) = f.along * n.C;
    C.block<2, 2>(1, 1) = f.C;
  }
};

}  // namespace vi_contact
