// The laws of contact, for one contact at a time and without geometry.
//
//   unilateral:  n >= 0,  g >= 0,  n g = 0
//   friction:    |b| <= m,  b = -m d / |d| where d != 0     (m = mu n, d the slip of the step)
//
// n and b are impulses [N s], g and d displacements [m]. Each law gives its answer to a motion of
// the contact, linearised: d(impulse) = c - C d(displacement). Two forms:
//
// Newton: the law is the root of n - max(0, n - R g), b - disc_m(b - R d), for any R > 0. `hard`
// stands for the infinite stiffness of a closed or sticking contact. It acts on the change within
// one iteration only, so it costs convergence speed, not accuracy, and redundant contacts (a box on
// four corners) are no singularity.
//
// Interior point: n g = kappa and the second-order cones (m, b), (psi, d) with
// m psi + b.d = kappa, m d + psi b = 0, all strictly inside, kappa towards zero.
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <limits>

namespace vi_contact {

using Vector2 = Eigen::Vector2d;
using Matrix2 = Eigen::Matrix2d;

// The last step to the boundary of a cone that an interior point takes, as a fraction.
inline constexpr double to_boundary = 0.99;

struct Unilateral {
  double n = 0.0;      // impulse
  double g = 0.0;      // gap at the end of the step
  double slack = 1.0;  // the interior point's gap, above zero

  struct Answer {
    double c, C;
  };

  double trial(double R) const { return std::max(0.0, n - R * g); }
  double error(double R) const { return n - trial(R); }

  Answer newton(double R, double hard) const {
    if (n - R * g > 0.0) return {-hard * g, hard};
    return {-n, 0.0};
  }

  // slack + dslack = g + dg,  n dslack + slack dn = kappa - n slack
  Answer interior(double kappa) const {
    const double w = n / slack;
    return {(kappa - n * slack) / slack - w * (g - slack), w};
  }
  double slack_change(double dg) const { return g - slack + dg; }
  double interior_error(double kappa) const { return n * slack - kappa; }
};

// Longest a <= 1 with x + a dx >= (1 - to_boundary) x.
inline double step_inside(double x, double dx) {
  return dx < 0.0 ? std::min(1.0, -to_boundary * x / dx) : 1.0;
}

// Smallest a >= 0 with (t, x) + a (dt, dx) on the cone t = |x|, from inside; infinite if none.
inline double cone_exit(double t, const Vector2& x, double dt, const Vector2& dx) {
  // (dt^2 - dx.dx) a^2 + 2 (t dt - x.dx) a + (t^2 - x.x) = 0, smallest root above zero
  const double A = dt * dt - dx.squaredNorm(), B = t * dt - x.dot(dx);
  const double C = std::max(0.0, t * t - x.squaredNorm());
  double a = std::numeric_limits<double>::infinity();
  const double D = B * B - A * C;
  if (A < 0.0) {
    a = (-B - std::sqrt(std::max(0.0, D))) / A;
  } else if (B < 0.0 && D >= 0.0) {
    a = C / (-B + std::sqrt(D));
  }
  if (dt < 0.0) a = std::min(a, -t / dt);
  return std::max(a, 0.0);
}

// Longest a <= 1 with (t, x) + a / to_boundary (dt, dx) in the cone t >= |x|.
inline double step_inside_cone(double t, const Vector2& x, double dt, const Vector2& dx) {
  return std::min(1.0, to_boundary * cone_exit(t, x, dt, dx));
}

struct Friction {
  Vector2 b = Vector2::Zero();      // impulse
  Vector2 d = Vector2::Zero();      // slip
  Vector2 slack = Vector2::Zero();  // the interior point's slip
  double psi = 1.0;

  // db = c - C dd + along dn, for n the impulse that sets the radius m = mu n
  struct Answer {
    Vector2 c, along;
    Matrix2 C;
  };

  // The projection of b - R d on the disc of radius m.
  Vector2 trial(double R, double m) const {
    const Vector2 s = b - R * d;
    const double length = s.norm();
    return length > m ? Vector2(s * (m / length)) : s;
  }
  bool sticks(double R, double m) const { return (b - R * d).norm() < m; }
  Vector2 error(double R, double m) const { return b - trial(R, m); }

  // m_trial is the radius of the projection, m the one of the current impulse.
  //   stick: d + dd + db / hard = 0
  //   slip:  along t = s / |s|, s = b - R d:   b + db = m + mu dn
  //          across, a = m_trial / |s|:        (1 - a) db = -a R dd - b
  Answer newton(double R, double hard, double m_trial, double m, double mu) const {
    const Vector2 s = b - R * d;
    const double length = s.norm();
    Answer answer{-hard * d, Vector2::Zero(), hard * Matrix2::Identity()};
    if (length < m_trial) return answer;
    answer.C.setZero();
    if (!(length > 0.0)) {
      answer.c = -b;
      return answer;
    }
    const Vector2 t = s / length, across(-t.y(), t.x());
    const double a = m_trial / length;
    const double rest = std::max(1.0 - a, R / hard);
    answer.c = (m - t.dot(b)) * t - (across.dot(b) / rest) * across;
    answer.C = (a * R / rest) * across * across.transpose();
    answer.along = mu * t;
    return answer;
  }

  //   m dpsi + psi dm + b.dz + z.db = e1,   m dz + z dm + psi db + b dpsi = e2,   dz = d - z + dd
  // dpsi from the first, put into the second:
  //   (psi I - b z'/m) db = e2 - b e1/m + (b b'/m - m I) dz + (psi b/m - z) dm
  Answer interior(double kappa, double m, double mu) const {
    const Vector2& z = slack;
    const double e1 = kappa - m * psi - b.dot(z);
    const Vector2 e2 = -m * z - psi * b;
    const Matrix2 A = psi * Matrix2::Identity() - b * z.transpose() / m;
    const Matrix2 inverse = A.inverse();
    const Matrix2 Z = inverse * (b * b.transpose() / m - m * Matrix2::Identity());
    return {inverse * (e2 - b * (e1 / m)) + Z * (d - z), mu * (inverse * (psi * b / m - z)), -Z};
  }
  Vector2 slack_change(const Vector2& dd) const { return d - slack + dd; }
  double psi_change(double kappa, double m, double dm, const Vector2& db, const Vector2& dz) const {
    return (kappa - m * psi - b.dot(slack) - psi * dm - b.dot(dz) - slack.dot(db)) / m;
  }
  double interior_error(double kappa, double m) const {
    const Vector2 e2 = m * slack + psi * b;
    return std::max(std::abs(m * psi + b.dot(slack) - kappa), e2.cwiseAbs().maxCoeff());
  }
};

}  // namespace vi_contact
