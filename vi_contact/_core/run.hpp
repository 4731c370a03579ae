// Many steps in one call, and many runs on many threads.
#pragma once

#include <atomic>
#include <thread>
#include <utility>

#include "books.hpp"
#include "contact_step.hpp"
#include "joint_forces.hpp"
#include "node_energy.hpp"
#include "probes.hpp"

namespace vi_contact {

// Arrays to write into, one row per node (q, v) or step (others); null for what is not wanted.
// `works` needs v: motor, external, damping, integration error, friction and impact. `counts` are
// iterations, parts that the step was split into, closed contacts, the method, the residual and,
// where v is there, the estimate of the error.
struct Recording {
  double *q, *v, *tau, *works, *counts;
};

// A contact that touched in a step of a run.
struct LoggedTouch {
  int step;
  Contacts::Touch touch;
};

// Smallest gap between two links at a node of a run.
struct LoggedGap {
  int node, name;
  double gap;
};

inline void record_node(Stepper& stepper, const Recording& record, int k) {
  const Model& model = stepper.model();
  if (record.q) stepper.get_q(record.q + static_cast<long>(k) * model.nq);
  if (record.v) stepper.get_v(record.v + static_cast<long>(k) * model.nv);
}

// Steps until done or failed; the number of steps done and the last step's report.
inline std::pair<int, StepReport> run(Stepper& stepper, int steps, const double* tau,
                                      bool tau_varies, const double* wrenches,
                                      const Recording& record, double time_step,
                                      std::vector<LoggedTouch>* log = nullptr,
                                      std::vector<LoggedGap>* gaps = nullptr) {
  const Model& model = stepper.model();
  const long nv = model.nv, nu = model.nu;
  StepReport report;
  stepper.keep_books = record.works != nullptr;
  record_node(stepper, record, 0);
  const auto log_gaps = [&](int node) {
    if (!gaps || model.pairs.empty()) return;
    for (const auto& [name, gap] : stepper.body_gaps()) gaps->push_back({node, name, gap});
  };
  log_gaps(0);
  int k = 0;
  for (; k < steps; ++k) {
    report = stepper.step(tau && tau_varies ? tau + k * nu : tau, wrenches, time_step);
    if (report.status != Status::converged) break;
    record_node(stepper, record, k + 1);
    log_gaps(k + 1);
    if (log) {
      for (const Contacts::Touch& touch : stepper.touches()) log->push_back({k, touch});
    }
    if (record.tau) {
      const VectorX& applied = stepper.applied_tau();
      std::copy(applied.data(), applied.data() + nu, record.tau + k * nu);
    }
    if (record.works) {
      const Work work = stepper.work(record.v + k * nv, record.v + (k + 1) * nv);
      double* row = record.works + 6L * k;
      row[0] = work.motor, row[1] = work.external, row[2] = work.damping, row[3] = work.integration;
      row[4] = work.friction, row[5] = work.impact;
    }
    if (record.counts) {
      double* row = record.counts + 6L * k;
      row[0] = report.iterations, row[1] = report.parts;
      row[2] = report.contacts, row[3] = static_cast<double>(report.method);
      row[4] = report.residual;
      const double* v = record.v + k * nv;
      row[5] = record.v ? stepper.error(v, v + nv) : 0.0;
    }
  }
  stepper.keep_books = false;
  return {k, report};
}

// scalars: rows (kinetic, potential, closure, linear momentum 3, angular momentum 3).
inline void observe(Stepper& stepper, int nodes, const double* q, const double* v, double* scalars,
                    double* poses, double* velocities) {
  const Model& model = stepper.model();
  const long n = model.size();
  for (long k = 0; k < nodes; ++k) {
    const auto o =
        stepper.observe(q + k * model.nq, v + k * model.nv, poses ? poses + 7 * n * k : nullptr,
                        velocities ? velocities + 6 * n * k : nullptr);
    double* row = scalars + 9 * k;
    row[0] = o.kinetic, row[1] = o.potential, row[2] = o.closure;
    Eigen::Map<Vector3>(row + 3, 3) = o.linear;
    Eigen::Map<Vector3>(row + 6, 3) = o.angular;
  }
}

// Independent runs; each is what a single run gives, bit for bit, whatever the threads.
inline void rollout(const Model& model, double h, const Vector3& gravity, const Settings& settings,
                    int count, int steps, const double* q, const double* v, const double* tau,
                    bool tau_per_run, double* q_out, double* v_out, double* done, int threads) {
  const long nodes = steps + 1L;
  std::atomic<int> next{0};
  const auto work = [&] {
    Stepper stepper(model, h, gravity, settings);
    for (int i = next++; i < count; i = next++) {
      const Recording record{q_out + i * nodes * model.nq, v_out + i * nodes * model.nv, nullptr,
                             nullptr, nullptr};
      stepper.reset(q + static_cast<long>(i) * model.nq, v + static_cast<long>(i) * model.nv);
      const double* t = tau && tau_per_run ? tau + static_cast<long>(i) * steps * model.nu : tau;
      const auto [finished, report] = run(stepper, steps, t, true, nullptr, record, h);
      done[2 * i] = finished;
      done[2 * i + 1] = static_cast<double>(report.status);
    }
  };
  std::vector<std::thread> pool;
  for (int t = 1; t < threads; ++t) pool.emplace_back(work);
  work();
  for (std::thread& thread : pool) thread.join();
}

}  // namespace vi_contact
