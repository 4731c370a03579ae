// First guess of a step: the polynomial through the increments of the last ones.
//
// With backward differences D0 = d_k, D1 = d_k - d_k-1, D2 = D1 - D1 of the step before, ..., the
// polynomial through the last n increments goes on with D0 + D1 + ... + Dn-1, and Dn is about how
// far that was off in the last step. The order with the smallest Dn is taken: smooth motion is
// followed to round-off, a flailing arm by a line.
#pragma once

#include <algorithm>
#include <cmath>

#include "model.hpp"

namespace vi_contact {

class Predictor {
 public:
  explicit Predictor(int size) : D_(Eigen::MatrixXd::Zero(size, most + 1)), kept_(size) {}

  int state_size() const { return static_cast<int>(D_.size()) + 1; }

  void get_state(double* out) const {
    *out++ = count_;
    std::copy(D_.data(), D_.data() + D_.size(), out);
  }

  void set_state(const double* in) {
    count_ = static_cast<int>(*in++);
    std::copy(in, in + D_.size(), D_.data());
  }

  // Whether a number, of a state, counts columns.
  static bool has_count(double count) {
    return count >= 0.0 && count <= most + 1 && count == std::floor(count);
  }

  auto last() const { return D_.col(0); }

  // Begins with a guess of the first increment.
  void restart(const VectorX& guess) {
    D_.setZero();
    D_.col(0) = guess;
    count_ = 0;
  }

  // Forgets all but the last increment, and scales that to a step of another length.
  void rescale(double factor) {
    D_.rightCols(most).setZero();
    D_.col(0) *= factor;
    count_ = std::min(count_, 1);
  }

  void add(const VectorX& increment) {
    const int orders = std::min(count_, most);
    kept_ = increment;
    for (int n = 0; n < orders; ++n) {
      double *now = kept_.data(), *column = D_.col(n).data();
      for (Eigen::Index j = 0; j < kept_.size(); ++j) {
        const double before = column[j];
        column[j] = now[j];
        now[j] -= before;
      }
    }
    D_.col(orders) = kept_;
    count_ = std::min(count_ + 1, most + 1);
  }

  void predict(VectorX& out) const {
    out = D_.col(0);
    if (count_ == 2) out += D_.col(1);
    if (count_ <= 2) return;
    double off = D_.col(1).squaredNorm();
    for (int n = 1; n + 1 < count_; ++n) {
      const double next = D_.col(n + 1).squaredNorm();
      if (!(next < off)) return;
      out += D_.col(n);
      off = next;
    }
  }

 private:
  static constexpr int most = 7;  // orders; noise doubles with each

  Eigen::MatrixXd D_;  // column n: the n-th difference
  VectorX kept_;
  int count_ = 0;  // columns that mean something
};

}  // namespace vi_contact
