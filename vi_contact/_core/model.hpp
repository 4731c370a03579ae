// A robot as the compiled step sees it: constant, plain numbers, built once.
//
// Link i is body i together with joint i that carries it; a parent stands before its children.
// The frame of a link is the joint's frame G: origin on the joint, axes of the body. Twists and
// wrenches are (linear, angular) in world axes at that origin.
#pragma once

#include <limits>
#include <vector>

#include "joints.hpp"
#include "shape.hpp"

namespace vi_contact {

using Vector6 = Eigen::Matrix<double, 6, 1>;
using Matrix6 = Eigen::Matrix<double, 6, 6>;
using VectorX = Eigen::VectorXd;

inline constexpr int world = -1;
inline constexpr double pi = 3.14159265358979323846;
inline constexpr double infinity = std::numeric_limits<double>::infinity();

struct Link {
  int parent;
  JointKind kind;
  int nv;
  int v;           // first velocity coordinate
  int q;           // first of pinocchio's configuration coordinates
  int c;           // first of our configuration coordinates, which have angles for (cos, sin)
  bool unbounded;  // pinocchio stores the angle as cosine and sine
  int dense;       // running number among the links with several velocity coordinates, or -1
  int wheel;       // running number among the wheels, or -1
  Pose X_PF;       // joint frame F in the frame of the parent link
  Vector3 axis;
  Quaternion turned_axis;  // Q_PF (0, axis)
  int column;              // 0, 1, 2 if the axis is x, y or z, else -1
  double mass;
  Vector3 com;      // in the frame of the link
  Matrix3 inertia;  // about the centre of mass
};

// A leaf link that may turn about its axis by any angle in a step, see wheels.hpp.
struct Wheel {
  int link;
  double axial, transverse;  // inertia of its symmetric part about its centre of mass
};

// What drives and brakes one velocity coordinate.
struct Drive {
  int input = -1;  // index in tau, -1 for none
  double damping = 0.0;
  double armature = 0.0;
  double effort = infinity;    // largest torque
  double velocity = infinity;  // speed at which the drive has no torque left
  bool motor = false;
  double stall = infinity;                     // torque at full voltage and speed zero: g kt V / R
  double slope = 0.0;                          // its fall with speed: g^2 kt^2 / R
  double peak = infinity;                      // torque at the current limit: g kt i_max
  double lower = -infinity, upper = infinity;  // of a joint with one coordinate
  double friction = 0.0;                       // Coulomb torque
};

struct LoopJoint {
  Joint joint;  // frames in body coordinates, origin at the centre of mass
  int A, B;     // bodies, A may be the world
};

// q_joint = multiplier q_source + offset
struct MimicJoint {
  int joint, source;
  double multiplier, offset;
};

struct SpringDamper {
  int A, B;
  Vector3 p_A, p_B;  // in the frames of the links
  double stiffness, rest_length, damping;
};

// A small sphere on a link; a point if the radius is zero.
struct ContactPoint {
  int link;
  Vector3 p;  // its centre, in the frame of the link
  double radius, friction;
};

// The plane normal.p = height.
struct Ground {
  bool present = false;
  Vector3 normal = Vector3::UnitZ();
  double height = 0.0;
  double restitution = 0.0;
};

struct Model {
  std::vector<Link> links;
  std::vector<Wheel> wheels;
  std::vector<Drive> drives;  // one per velocity coordinate
  std::vector<LoopJoint> loops;
  std::vector<MimicJoint> mimics;
  std::vector<SpringDamper> springs;
  std::vector<ContactPoint> contacts;
  std::vector<Shape> shapes;  // of bodies that meet each other or obstacles
  std::vector<ShapePair> pairs;
  Separator separate;
  int nq = 0, nv = 0, nc = 0, nu = 0;
  int dense = 0;  // links with several velocity coordinates
  double mass = 0.0;

  int size() const { return static_cast<int>(links.size()); }
};

}  // namespace vi_contact
