// Semismooth Newton, with or without a line search, and an interior point for the step with
// contacts. Both move the same unknowns: joint increments and impulses.
//
// System holds the unknowns; see `StepWithLaws`:
//   distance(interior, kappa)    evaluates at the current iterate
//   linearise(interior, kappa)   the laws; a number that tells which of them act
//   factor(), direction()        the linear system and its solution
//   find_changes(...)            of the impulses; the longest step that stays inside the cones
//   take(a, interior, kappa)     goes a times the direction from where `begin_search` was called
//   spend()                      false where the step has had enough iterations
#pragma once

#include "laws.hpp"

namespace vi_contact {

inline constexpr int newton_limit = 12;  // iterations of Newton's method alone
inline constexpr int interior_limit = 100;
inline constexpr int polish_limit = 12;  // of Newton's method after sweeps or the interior point

// How far an iterate is from a solution.
struct Distance {
  bool exists = false;  // no body turns by half a turn or more
  double size = 0.0;    // largest residual in tolerances
  double merit = 0.0;   // their sum of squares, as momenta [N s]
};

template <class System>
class ContactSolver {
 public:
  explicit ContactSolver(System& system) : s_(system) {}

  int iterations = 0;

  // Newton's method from the current iterate. `stick`: the first iteration takes every contact for
  // sticking; where friction jams (Painleve) only that leads to the solution.
  bool newton(bool search, int limit, bool stick = false) {
    Distance now = s_.distance(false, 0.0);
    if (!now.exists) {
      s_.start_without_motion();
      now = s_.distance(false, 0.0);
    }
    double recent[4];
    std::fill(recent, recent + 4, now.merit);
    unsigned long pattern = 0;
    bool factored = false;
    double last = 0.0;
    for (int k = 0;; ++k) {
      if (now.exists && now.size <= 1.0) return true;
      if (k >= limit || !now.exists || !std::isfinite(now.size) || !s_.spend()) return false;
      ++iterations;
      const unsigned long is = stick && k == 0 ? s_.linearise_stick() : s_.linearise(false, 0.0);
      if (!factored || is != pattern || !(now.size * 50.0 < last)) {
        factored = s_.factor();
        if (!factored) return false;
        pattern = is;
      }
      s_.direction();
      double a = s_.find_changes(false, 0.0);
      last = now.size;
      s_.begin_search();
      now = s_.take(a, false, 0.0);
      const double bar = *std::max_element(recent, recent + 4);
      const int most = search ? 7 : 3;
      for (int halvings = 0; halvings < most; ++halvings) {
        const bool fine = now.exists && (!search || now.size <= 1.0 || now.merit < 0.9999 * bar);
        if (fine) break;
        a *= 0.5;
        now = s_.take(a, false, 0.0);
      }
      recent[k % 4] = now.merit;
    }
  }

  // Path following: kappa falls while the steps are long.
  bool interior(double scale, double kappa, double last_kappa) {
    if (!s_.distance(false, 0.0).exists) {
      s_.start_without_motion();
      s_.distance(false, 0.0);
    }
    s_.enter_interior(scale);
    return follow(scale, kappa, last_kappa);
  }

  // The same from inside.
  bool follow(double scale, double kappa, double last_kappa) {
    Distance now = s_.distance(true, kappa);
    const double first = kappa;
    int stuck = 0, again = 0;
    for (int k = 0; k < interior_limit; ++k) {
      if (!now.exists || !std::isfinite(now.merit)) return false;
      if (kappa <= last_kappa && now.size <= 1.0) return true;
      if (!s_.spend()) return false;
      ++iterations;
      s_.linearise(true, kappa);
      if (!s_.factor()) return false;
      s_.direction();
      double a = s_.find_changes(true, kappa);
      s_.begin_search();
      const double bar = now.merit;
      now = s_.take(a, true, kappa);
      for (int halvings = 0; halvings < 6; ++halvings) {
        // at the end only round-off is left of the merit
        if (now.exists && (now.size <= 1.0 || now.merit <= 1.0001 * bar)) break;
        a *= 0.5;
        now = s_.take(a, true, kappa);
      }
      // pressed against a cone: begin again from here, farther inside
      stuck = a < 1e-2 ? stuck + 1 : 0;
      if (stuck == 3 && again++ < 4) {
        stuck = 0;
        scale *= 2.0;
        kappa = 4.0 * std::max(kappa, 0.01 * first);
        s_.enter_interior(scale);
        now = s_.distance(true, kappa);
        continue;
      }
      if (a > 0.9) {
        kappa = std::max(last_kappa, 0.2 * kappa);
        now = s_.distance(true, kappa);
      }
    }
    return false;
  }

 private:
  System& s_;
};

}  // namespace vi_contact
