// Many steps in one call, and many runs on many threads.
#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
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

// Torques, works and counts of step k.
inline void record_step(Stepper& stepper, const StepReport& report, const Recording& record,
                        int k) {
  const long nv = stepper.model().nv, nu = stepper.model().nu;
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

// Steps until done, failed or interrupted; the number of steps done and the last step's report. An
// exception, as of the separator, leaves the stepper where the last of them ended.
inline std::pair<int, StepReport> run(Stepper& stepper, int steps, const double* tau,
                                      bool tau_varies, const double* wrenches,
                                      const Recording& record, double time_step,
                                      std::vector<LoggedTouch>* log = nullptr,
                                      std::vector<LoggedGap>* gaps = nullptr,
                                      std::exception_ptr* error = nullptr) {
  const Model& model = stepper.model();
  const long nu = model.nu;
  StepReport report;
  stepper.keep_books = record.works != nullptr;
  record_node(stepper, record, 0);
  const auto log_gaps = [&](int node) {
    if (!gaps || model.pairs.empty()) return;
    for (const auto& [name, gap] : stepper.body_gaps()) gaps->push_back({node, name, gap});
  };
  VectorX before;
  int done = 0;
  bool between = true;  // steps
  try {
    log_gaps(0);
    while (done < steps) {
      if (stepper.watch && stepper.watch->stops()) {
        report.status = Status::interrupted;
        break;
      }
      if (!model.pairs.empty()) {
        before.resize(stepper.state_size());
        stepper.get_state(before.data());
      }
      const int k = done;
      between = false;
      report = stepper.step(tau && tau_varies ? tau + k * nu : tau, wrenches, time_step);
      between = true;
      if (report.status != Status::converged) break;
      ++done;
      record_node(stepper, record, k + 1);
      if (log) {
        for (const Contacts::Touch& touch : stepper.touches()) log->push_back({k, touch});
      }
      record_step(stepper, report, record, k);
      log_gaps(k + 1);
    }
  } catch (...) {
    if (!error) throw;
    *error = std::current_exception();
    if (!between && before.size() > 0) stepper.take_back_step(before.data());
  }
  stepper.keep_books = false;
  return {done, report};
}

// scalars: rows (kinetic, potential, closure, linear momentum 3, angular momentum 3).
inline void observe(Stepper& stepper, int nodes, const double* q, const double* v, double* scalars,
                    double* poses, double* velocities, Watch& watch) {
  const Model& model = stepper.model();
  const long n = model.size();
  for (long k = 0; k < nodes && !watch.stops(); ++k) {
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
//
// The calling thread only waits, and asks `interrupted` now and then: an exception must not pass
// threads that run. The first one of a worker, or of `interrupted`, ends all and is thrown again.
inline void rollout(const Model& model, double h, const Vector3& gravity, const Settings& settings,
                    int count, int steps, const double* q, const double* v, const double* tau,
                    bool tau_per_run, double* q_out, double* v_out, double* done, int threads,
                    const std::function<void()>& interrupted) {
  const long nodes = steps + 1L;
  std::atomic<int> next{0};
  std::atomic<bool> stop{false};
  std::mutex mutex;
  std::condition_variable ended;
  std::exception_ptr error;
  int working = 0;
  const auto fail = [&] {
    const std::lock_guard lock(mutex);
    if (!error) error = std::current_exception();
    stop = true;
  };
  const auto runs = [&] {
    Watch watch([&] { return stop.load(); });
    Stepper stepper(model, h, gravity, settings);
    stepper.watch = &watch;
    for (int i = next++; i < count && !stop; i = next++) {
      const Recording record{q_out + i * nodes * model.nq, v_out + i * nodes * model.nv, nullptr,
                             nullptr, nullptr};
      stepper.reset(q + static_cast<long>(i) * model.nq, v + static_cast<long>(i) * model.nv);
      const double* t = tau && tau_per_run ? tau + static_cast<long>(i) * steps * model.nu : tau;
      const auto [finished, report] = run(stepper, steps, t, true, nullptr, record, h);
      done[2 * i] = finished;
      done[2 * i + 1] = static_cast<double>(report.status);
    }
  };
  const auto work = [&] {
    try {
      runs();
    } catch (...) {
      fail();
    }
    const std::lock_guard lock(mutex);
    --working;
    ended.notify_one();
  };
  std::vector<std::thread> pool;
  try {
    for (int t = 0; t < threads; ++t) {
      const std::lock_guard lock(mutex);
      pool.emplace_back(work);
      ++working;
    }
  } catch (...) {  // no more threads: those that run do it all, if there are any
    if (pool.empty()) throw;
  }
  for (bool waits = true; waits;) {
    {
      std::unique_lock lock(mutex);
      waits = !ended.wait_for(lock, std::chrono::milliseconds(50), [&] { return working == 0; });
    }
    if (!waits || stop) continue;
    try {
      interrupted();
    } catch (...) {
      fail();
    }
  }
  for (std::thread& thread : pool) thread.join();
  if (error) std::rethrow_exception(error);
}

}  // namespace vi_contact
