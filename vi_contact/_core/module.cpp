// Python bindings of the compiled equations: arrays in, arrays out.
#include <nanobind/eigen/dense.h>
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>

#include "joints.hpp"
#include "rotation.hpp"
#include "run.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace vi_contact {
namespace {

using Vector4 = Eigen::Vector4d;
using Vector7 = Eigen::Matrix<double, 7, 1>;
using Jacobian = Eigen::Matrix<double, Eigen::Dynamic, 6, Eigen::RowMajor>;

Quaternion quaternion(const Vector4& xyzw) { return Quaternion(xyzw); }

Pose pose(const Vector7& xyz_xyzw) { return {xyz_xyzw.head<3>(), Quaternion(xyz_xyzw.tail<4>())}; }

RotationStep rotation_step(const Vector3& w, double time_step) {
  const RotationStep step(w, time_step);
  if (!step.exists()) {
    throw std::invalid_argument(
        "no rotation step: |w| must be below 2 / time_step = " + std::to_string(2.0 / time_step) +
        " rad/s, it is " + std::to_string(w.norm()));
  }
  return step;
}

JointKind joint_kind(int kind) {
  if (kind < 0 || kind >= joint_kind_count) {
    throw std::invalid_argument("no joint kind " + std::to_string(kind) +
                                "; kinds are 0 floating, 1 revolute, 2 prismatic, 3 fixed, "
                                "4 spherical, 5 planar, 6 universal, 7 gliding");
  }
  return static_cast<JointKind>(kind);
}

std::tuple<Eigen::VectorXd, Jacobian, Jacobian> joint_constraint_arrays(
    int kind, const Vector3& p_WA, const Vector4& quat_WA_xyzw, const Vector3& p_WB,
    const Vector4& quat_WB_xyzw, const Vector7& frame_A, const Vector7& frame_B,
    const Vector3& axis, const Vector3& axis2) {
  const Joint joint{joint_kind(kind), pose(frame_A), pose(frame_B), axis, axis2};
  JointRows rows;
  joint_constraint(joint, {p_WA, quaternion(quat_WA_xyzw)}, {p_WB, quaternion(quat_WB_xyzw)}, rows);
  const int m = joint_row_count(joint.kind);
  return {rows.c.head(m), rows.jac_A.topRows(m), rows.jac_B.topRows(m)};
}

// ------------------------------------------------------------------------------ model and step
using Table = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using IntTable = Eigen::Matrix<int, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

Pose pose(const double* x) { return {Vector3(x), Quaternion(x[6], x[3], x[4], x[5])}; }

// Columns: see `vi_contact.solvers.newton.pack`, which writes these tables.
std::shared_ptr<Model> make_model(const IntTable& link_numbers, const Table& link_values,
                                  const Table& drives, const IntTable& loop_numbers,
                                  const Table& loop_values, const IntTable& mimic_numbers,
                                  const Table& mimic_values, const IntTable& spring_numbers,
                                  const Table& spring_values, const IntTable& contact_numbers,
                                  const Table& contact_values) {
  auto model = std::make_shared<Model>();
  for (int i = 0; i < link_numbers.rows(); ++i) {
    const int* k = link_numbers.row(i).data();
    const double* x = link_values.row(i).data();
    Link link;
    link.parent = k[0];
    link.kind = joint_kind(k[1]);
    link.nv = k[2], link.v = k[3], link.q = k[4];
    link.unbounded = k[5] != 0;
    link.c = model->nc;
    model->nc += link.kind == JointKind::floating    ? 7
                 : link.kind == JointKind::spherical ? 4
                                                     : link.nv;
    link.dense = link.nv > 1 ? model->dense++ : -1;
    link.wheel = k[7] != 0 ? static_cast<int>(model->wheels.size()) : -1;
    link.X_PF = pose(x);
    link.axis = Vector3(x + 7);
    link.turned_axis = link.X_PF.q * Quaternion(0.0, x[7], x[8], x[9]);
    link.column = -1;
    for (int j = 0; j < 3; ++j) {
      if (link.axis == Vector3::Unit(j)) link.column = j;
    }
    link.mass = x[10];
    link.com = Vector3(x + 11);
    link.inertia = Eigen::Map<const Matrix3>(x + 14);
    if (link.wheel >= 0) {
      const double axial = link.axis.dot(link.inertia * link.axis);
      model->wheels.push_back({i, axial, 0.5 * (link.inertia.trace() - axial)});
    }
    model->nq += k[6];
    model->nv += link.nv;
    model->mass += link.mass;
    model->links.push_back(link);
  }
  for (int j = 0; j < drives.rows(); ++j) {
    const double* x = drives.row(j).data();
    model->drives.push_back({static_cast<int>(x[0]), x[1], x[2], x[3], x[4], x[5] != 0.0, x[6],
                             x[7], x[8], x[9], x[10], x[11]});
    model->nu += x[0] >= 0.0;
  }
  for (int i = 0; i < loop_numbers.rows(); ++i) {
    const int* k = loop_numbers.row(i).data();
    const double* x = loop_values.row(i).data();
    model->loops.push_back(
        {{joint_kind(k[2]), pose(x), pose(x + 7), Vector3(x + 14), Vector3(x + 17)}, k[0], k[1]});
  }
  for (int i = 0; i < mimic_numbers.rows(); ++i) {
    model->mimics.push_back(
        {mimic_numbers(i, 0), mimic_numbers(i, 1), mimic_values(i, 0), mimic_values(i, 1)});
  }
  for (int i = 0; i < spring_numbers.rows(); ++i) {
    const double* x = spring_values.row(i).data();
    model->springs.push_back(
        {spring_numbers(i, 0), spring_numbers(i, 1), Vector3(x), Vector3(x + 3), x[6], x[7], x[8]});
  }
  for (int i = 0; i < contact_numbers.rows(); ++i) {
    const double* x = contact_values.row(i).data();
    model->contacts.push_back({contact_numbers(i, 0), Vector3(x), x[3], x[4]});
  }
  return model;
}

// vertices (n, 3) in the frame of the link; faces as loops of vertices, anticlockwise.
void add_shape(Model& model, int link, const Vector7& placement, double radius,
               const Table& vertices, const IntTable& edges,
               const std::vector<std::vector<int>>& faces, const Table& normals) {
  Shape shape{link, pose(placement), radius, {}, {}, {}};
  for (int i = 0; i < vertices.rows(); ++i) shape.vertices.push_back(vertices.row(i).transpose());
  for (int i = 0; i < edges.rows(); ++i) shape.edges.push_back({edges(i, 0), edges(i, 1)});
  for (size_t i = 0; i < faces.size(); ++i) {
    shape.faces.push_back({normals.row(static_cast<int>(i)).transpose(), faces[i]});
  }
  shape.finish();
  model.shapes.push_back(shape);
}

// The callable takes the pair and (24,) rotation (rows) and position of both shapes; it returns
// (10,) distance, normal from the first to the second, and the nearest points.
void set_separator(Model& model, nb::callable separate) {
  model.separate = [separate](int pair, const Matrix3& R_WA, const Vector3& p_WA,
                              const Matrix3& R_WB, const Vector3& p_WB) -> Separation {
    nb::gil_scoped_acquire acquire;
    Eigen::VectorXd poses(24);
    Eigen::Map<Rows3>(poses.data()) = R_WA;
    poses.segment<3>(9) = p_WA;
    Eigen::Map<Rows3>(poses.data() + 12) = R_WB;
    poses.segment<3>(21) = p_WB;
    const auto x = nb::cast<std::array<double, 10>>(separate(pair, poses));
    return {x[0], Vector3(x.data() + 1), Vector3(x.data() + 4), Vector3(x.data() + 7)};
  };
}

using Array = nb::ndarray<const double, nb::c_contig, nb::device::cpu>;
using Output = nb::ndarray<double, nb::c_contig, nb::device::cpu>;
using OptionalArray = std::optional<Array>;
using OptionalOutput = std::optional<Output>;
using OptionalNumber = std::optional<double>;

const double* data(const OptionalArray& array) { return array ? array->data() : nullptr; }
double* data(const OptionalOutput& array) { return array ? array->data() : nullptr; }

// (normal, height, restitution), or none.
Ground ground_plane(const std::optional<Eigen::VectorXd>& x) {
  if (!x) return {};
  return {true, x->head<3>(), (*x)[3], (*x)[4]};
}

// Throws what a signal's handler raises in Python, as KeyboardInterrupt.
void check_signals() {
  const nb::gil_scoped_acquire acquire;
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

// Whether a signal's handler raises an error, which is kept.
bool is_interrupted(std::exception_ptr& error) {
  try {
    check_signals();
  } catch (...) {
    error = std::current_exception();
  }
  return error != nullptr;
}

// A stepper with the model it points into.
struct OwningStepper {
  std::shared_ptr<Model> model;
  Settings settings;
  Vector3 gravity;
  Stepper stepper;
  std::vector<LoggedTouch> log;
  std::vector<LoggedGap> gaps;
  long taken = 0;  // steps, in all

  // Steps until done, failed or ended by Ctrl-C or another error, which is thrown: the state is
  // then that after the last whole step, and `taken` tells how many there were. Without the GIL.
  std::pair<int, StepReport> run_steps(int steps, const double* tau, bool tau_varies,
                                       const double* wrenches, const Recording& record, double h,
                                       std::vector<LoggedTouch>* touches = nullptr,
                                       std::vector<LoggedGap>* pair_gaps = nullptr) {
    std::exception_ptr error;
    Watch watch([&error] { return is_interrupted(error); });
    stepper.watch = &watch;
    const auto result =
        run(stepper, steps, tau, tau_varies, wrenches, record, h, touches, pair_gaps, &error);
    stepper.watch = nullptr;
    taken += result.first;
    if (error) std::rethrow_exception(error);
    return result;
  }

  double usual() const { return stepper.time_step(); }

  OwningStepper(std::shared_ptr<Model> m, double h, const Vector3& g, double momentum_tolerance,
                double velocity_tolerance, double closure_tolerance, int max_iterations,
                int max_halvings, double max_turn, double error_tolerance, double contact_tolerance,
                const std::optional<Eigen::VectorXd>& ground)
      : model(std::move(m)),
        settings{momentum_tolerance, velocity_tolerance, closure_tolerance,
                 max_iterations,     max_halvings,       max_turn,
                 error_tolerance,    contact_tolerance,  ground_plane(ground)},
        gravity(g),
        stepper(*model, h, gravity, settings) {}
};

using ReportTuple = std::tuple<int, int, double, double, int, int, int, int>;

ReportTuple tuple(const StepReport& r) {
  return {
      static_cast<int>(r.status), r.iterations, r.residual, r.closure, r.body, r.parts, r.contacts,
      static_cast<int>(r.method)};
}

// Rows (contact, force in world axes, sliding) of the last step.
Table touches(const OwningStepper& s) {
  const auto& all = s.stepper.touches();
  Table table(all.size(), 5);
  for (size_t i = 0; i < all.size(); ++i) {
    table.row(i) << all[i].index, all[i].impulse.transpose() / s.stepper.length(), all[i].sliding;
  }
  return table;
}

// Rows (step, contact, force in world axes, sliding) of the last run.
Table touch_log(const OwningStepper& s) {
  Table table(s.log.size(), 6);
  for (size_t i = 0; i < s.log.size(); ++i) {
    const LoggedTouch& t = s.log[i];
    table.row(i) << t.step, t.touch.index, t.touch.impulse.transpose() / s.stepper.length(),
        t.touch.sliding;
  }
  return table;
}

// Rows (step, point) of the touches of two links in that log.
Table point_log(const OwningStepper& s) {
  const int first = s.stepper.ground_contacts();
  const auto links = [&](const LoggedTouch& t) { return t.touch.index >= first; };
  Table table(std::count_if(s.log.begin(), s.log.end(), links), 4);
  int row = 0;
  for (const LoggedTouch& t : s.log) {
    if (links(t)) table.row(row++) << t.step, t.touch.point.transpose();
  }
  return table;
}

// Rows (node, pair of links, gap) of the last run; pairs that are far apart are left out.
Table gap_log(const OwningStepper& s) {
  Table table(s.gaps.size(), 3);
  for (size_t i = 0; i < s.gaps.size(); ++i) {
    table.row(i) << s.gaps[i].node, s.gaps[i].name, s.gaps[i].gap;
  }
  return table;
}

// An array to write `size` numbers into, or null.
double* room(const OptionalOutput& array, long size, const char* name) {
  if (array && static_cast<long>(array->size()) < size) {
    throw std::invalid_argument(std::string(name) + " has no room for all steps");
  }
  return data(array);
}

Recording recording(const Model& model, long steps, const OptionalOutput& q,
                    const OptionalOutput& v, const OptionalOutput& tau, const OptionalOutput& works,
                    const OptionalOutput& counts) {
  return {room(q, (steps + 1) * model.nq, "q"), room(v, (steps + 1) * model.nv, "v"),
          room(tau, steps * model.nu, "applied_tau"), room(works, steps * 6, "works"),
          room(counts, steps * 6, "counts")};
}

}  // namespace
}  // namespace vi_contact

NB_MODULE(_compiled, m) {
  using namespace vi_contact;

  m.def(
      "quaternion_product",
      [](const Vector4& a, const Vector4& b) -> Vector4 {
        return (quaternion(a) * quaternion(b)).coeffs();
      },
      "a_xyzw"_a, "b_xyzw"_a, "The product a b of two quaternions x y z w.");

  m.def(
      "rotate",
      [](const Vector4& q, const Vector3& v) -> Vector3 {
        return quaternion(q).toRotationMatrix() * v;
      },
      "quat_WB_xyzw"_a, "v_B"_a, "The vector v_W = R_WB v_B, for a unit quaternion.");

  m.def(
      "quaternion_step",
      [](const Vector4& q, const Vector3& w, double h) -> Vector4 {
        return (quaternion(q) * rotation_step(w, h).quaternion()).coeffs();
      },
      "quat_WB_xyzw"_a, "w_WB_B"_a, "time_step"_a,
      "The quaternion a time step [s] later, at the midpoint angular velocity w [rad/s] in body "
      "axes; ValueError unless |w| < 2 / time_step.");

  m.def(
      "quaternion_step_tangent",
      [](const Vector3& w, double h) -> Matrix3 { return rotation_step(w, h).tangent(); },
      "w_WB_B"_a, "time_step"_a,
      "D (3, 3): the body turns by dtheta = time_step D dw, in body axes after the step.");

  m.def("joint_constraint", &joint_constraint_arrays, "kind"_a, "p_WA"_a, "quat_WA_xyzw"_a,
        "p_WB"_a, "quat_WB_xyzw"_a, "frame_A"_a, "frame_B"_a, "axis"_a, "axis2"_a,
        "Rows c (m,) of a joint between bodies A and B and their Jacobians (m, 6) for "
        "(dx in world axes, dphi in body axes) of A and of B.");

  nb::class_<Model>(m, "Model", "A robot as plain numbers, see `vi_contact.solvers.newton.pack`.")
      .def_ro("nq", &Model::nq)
      .def_ro("nv", &Model::nv)
      .def_ro("nu", &Model::nu)
      .def("add_shape", &add_shape, "link"_a, "placement"_a, "radius"_a, "vertices"_a, "edges"_a,
           "faces"_a, "normals"_a)
      .def(
          "add_pair",
          [](Model& model, int A, int B, double friction, int name) {
            model.pairs.push_back({A, B, friction, name});
          },
          "shape_1"_a, "shape_2"_a, "friction"_a, "name"_a)
      .def("set_separator", &set_separator, "separate"_a);
  m.def("make_model", &make_model, "link_numbers"_a, "link_values"_a, "drives"_a, "loop_numbers"_a,
        "loop_values"_a, "mimic_numbers"_a, "mimic_values"_a, "spring_numbers"_a, "spring_values"_a,
        "contact_numbers"_a, "contact_values"_a, "A model from tables with one row per part.");

  nb::class_<OwningStepper>(m, "Stepper", "The variational step of one model; holds its state.")
      .def(nb::init<std::shared_ptr<Model>, double, const Vector3&, double, double, double, int,
                    int, double, double, double, const std::optional<Eigen::VectorXd>&>(),
           "model"_a, "time_step"_a, "gravity"_a, "momentum_tolerance"_a, "velocity_tolerance"_a,
           "closure_tolerance"_a, "max_iterations"_a, "max_halvings"_a, "max_turn"_a,
           "error_tolerance"_a, "contact_tolerance"_a, "ground"_a.none())
      .def("reset", [](OwningStepper& s, Array q, Array v) { s.stepper.reset(q.data(), v.data()); })
      .def("state_size", [](const OwningStepper& s) { return s.stepper.state_size(); })
      .def("row_count", [](const OwningStepper& s) { return s.stepper.row_count(); })
      .def("get_state", [](const OwningStepper& s, Output out) { s.stepper.get_state(out.data()); })
      .def("set_state",
           [](OwningStepper& s, Array in) {
             s.stepper.check_state(in.data(), static_cast<long>(in.size()));
             s.stepper.set_state(in.data());
           })
      .def("steps_taken", [](const OwningStepper& s) { return s.taken; })
      .def("get_q", [](const OwningStepper& s, Output q) { s.stepper.get_q(q.data()); })
      .def("get_v", [](OwningStepper& s, Output v) { return s.stepper.get_v(v.data()); })
      .def("deepest_contact", [](const OwningStepper& s) { return s.stepper.deepest_contact(); })
      .def("touches", &touches)
      .def("log", &touch_log)
      .def("point_log", &point_log)
      .def("gap_log", &gap_log)
      .def("body_gaps", [](OwningStepper& s) { return s.stepper.body_gaps(); })
      .def("fastest_rotation",
           [](OwningStepper& s, Array v) { return s.stepper.fastest_rotation(v.data()); })
      .def(
          "free_acceleration",
          [](OwningStepper& s, Array v, OptionalArray tau, OptionalArray wrenches) {
            return s.stepper.free_acceleration(v.data(), data(tau), data(wrenches));
          },
          "v"_a, "tau"_a.none(), "wrenches"_a.none())
      .def(
          "error",
          [](const OwningStepper& s, Array v0, Array v1) {
            return s.stepper.error(v0.data(), v1.data());
          },
          "v0"_a, "v1"_a)
      .def(
          "step",
          [](OwningStepper& s, OptionalArray tau, OptionalArray wrenches, OptionalNumber h) {
            const double *t = data(tau), *w = data(wrenches);
            return tuple(s.run_steps(1, t, false, w, {}, h.value_or(s.usual())).second);
          },
          "tau"_a.none(), "wrenches"_a.none(), "time_step"_a = nb::none())
      .def("push", [](OwningStepper& s, Array impulse) { s.stepper.push(impulse.data()); })
      .def("interval_energy", [](const OwningStepper& s) { return s.stepper.interval_energy(); })
      .def("multipliers", [](const OwningStepper& s) { return VectorX(s.stepper.multipliers()); })
      .def("node_multipliers",
           [](const OwningStepper& s) { return VectorX(s.stepper.node_multipliers()); })
      .def(
          "set_servos",
          [](OwningStepper& s, OptionalArray servos) { s.stepper.set_servos(data(servos)); },
          "servos"_a.none())
      .def(
          "feedback", [](const OwningStepper& s, double h) { return s.stepper.feedback(h); },
          "time_step"_a)
      .def("spring_forces", [](const OwningStepper& s) { return s.stepper.spring_forces(); })
      .def(
          "spring_rule", [](OwningStepper& s, double h) { return s.stepper.spring_rule(h); },
          "time_step"_a)
      .def(
          "prescribe",
          [](OwningStepper& s, const Eigen::VectorXd& q1, const Eigen::VectorXd& lambda,
             const Table& contacts, const Table& joints, int iterations) {
            if (q1.size() != s.model->nq || lambda.size() != s.stepper.row_count() ||
                joints.rows() != s.model->nv || joints.cols() != 3 || contacts.cols() != 5) {
              throw std::invalid_argument("a solution for another robot");
            }
            s.stepper.prescribe({q1, lambda, contacts, joints, iterations});
          },
          "q1"_a, "multipliers"_a, "contacts"_a, "joints"_a, "iterations"_a)
      .def("get_tau",
           [](const OwningStepper& s, Output tau, Output saturated) {
             const VectorX &t = s.stepper.applied_tau(), &f = s.stepper.saturated();
             std::copy(t.data(), t.data() + t.size(), tau.data());
             std::copy(f.data(), f.data() + f.size(), saturated.data());
           })
      .def(
          "run",
          [](OwningStepper& s, int steps, OptionalArray tau, bool tau_varies,
             OptionalArray wrenches, OptionalOutput q, OptionalOutput v, OptionalOutput applied,
             OptionalOutput works, OptionalOutput counts, OptionalNumber h) {
            const Recording record = recording(*s.model, steps, q, v, applied, works, counts);
            const double *t = data(tau), *w = data(wrenches);
            std::pair<int, StepReport> result;
            {
              nb::gil_scoped_release release;
              s.log.clear(), s.gaps.clear();
              result = s.run_steps(steps, t, tau_varies, w, record, h.value_or(s.usual()), &s.log,
                                   &s.gaps);
            }
            return std::make_tuple(result.first, tuple(result.second));
          },
          "steps"_a, "tau"_a.none(), "tau_varies"_a, "wrenches"_a.none(), "q"_a.none(),
          "v"_a.none(), "applied_tau"_a.none(), "works"_a.none(), "counts"_a.none(),
          "time_step"_a = nb::none())
      .def(
          "observe",
          [](OwningStepper& s, Array q, Array v, Output scalars, OptionalOutput poses,
             OptionalOutput velocities) {
            std::exception_ptr error;
            Watch watch([&error] { return is_interrupted(error); });
            observe(s.stepper, static_cast<int>(q.shape(0)), q.data(), v.data(), scalars.data(),
                    data(poses), data(velocities), watch);
            if (error) std::rethrow_exception(error);
          },
          "q"_a, "v"_a, "scalars"_a, "poses"_a.none(), "velocities"_a.none())
      .def(
          "residual_at",
          [](OwningStepper& s, Array q1, Array lambda, OptionalArray tau, OptionalArray wrenches,
             Output r, Output errors) {
            s.stepper.residual_at(q1.data(), lambda.data(), data(tau), data(wrenches), r.data(),
                                  errors.data());
          },
          "q1"_a, "multipliers"_a, "tau"_a.none(), "wrenches"_a.none(), "r"_a, "errors"_a)
      .def("start_with",
           [](OwningStepper& s, int method) { s.stepper.start_with(static_cast<Method>(method)); })
      .def(
          "contact_rows",
          [](OwningStepper& s, Array q1, Output u, Output left, Output right) {
            s.stepper.contact_rows(q1.data(), u.data(), left.data(), right.data());
          },
          "q1"_a, "displacements"_a, "left"_a, "right"_a)
      .def("newton_direction", [](OwningStepper& s, Array r, Output dq) {
        return s.stepper.newton_direction(r.data(), dq.data());
      });

  m.def(
      "rollout",
      [](const OwningStepper& s, int count, int steps, Array q, Array v, OptionalArray tau,
         bool tau_per_run, Output q_out, Output v_out, Output done, int threads) {
        const double* t = data(tau);
        nb::gil_scoped_release release;
        rollout(*s.model, s.stepper.time_step(), s.gravity, s.settings, count, steps, q.data(),
                v.data(), t, tau_per_run, q_out.data(), v_out.data(), done.data(), threads,
                check_signals);
      },
      "stepper"_a, "count"_a, "steps"_a, "q"_a, "v"_a, "tau"_a.none(), "tau_per_run"_a, "q_out"_a,
      "v_out"_a, "done"_a, "threads"_a, "Many runs at once; `done` gets (steps, status) of each.");
}
