// Forces on joints and between points.
#pragma once

#include <algorithm>

#include "momentum.hpp"

namespace vi_contact {

// Where a drive begins to fade: at this fraction of the velocity limit.
inline constexpr double fade_start = 0.9;

struct DriveTorque {
  double torque;
  double slope;  // d torque / d speed, never positive
  double gain;   // d torque / d command, from 0 to 1
  bool saturated;
};

// A spring and damper in the drive: command + stiffness (angle - q) + damping (speed - v), with the
// joint at the middle of the step.
struct Servo {
  double angle = 0.0, speed = 0.0, stiffness = 0.0, damping = 0.0;
};

// The torque of a drive at the mean joint speed of the step, when `command` is asked for.
//
// Motor: at rotor speed w the voltage allows (+-V kt - kt^2 w) / R and the current kt i_max; at
// the joint that is +-stall - slope speed, cut to +-peak. With or without a motor, a velocity limit
// takes what is left of a driving torque to zero, linearly over the last tenth before the limit;
// braking is free.
inline DriveTorque drive_torque(const Drive& drive, double command, double speed) {
  double torque = std::clamp(command, -drive.effort, drive.effort);
  double slope = 0.0, gain = torque == command ? 1.0 : 0.0;
  if (drive.motor) {
    const double upper = drive.stall - drive.slope * speed;
    const double lower = -drive.stall - drive.slope * speed;
    if (torque > upper) torque = upper, slope = -drive.slope, gain = 0.0;
    if (torque < lower) torque = lower, slope = -drive.slope, gain = 0.0;
    if (std::abs(torque) > drive.peak) {
      torque = std::copysign(drive.peak, torque), slope = gain = 0.0;
    }
  }
  if (drive.velocity < infinity) {
    const double driving = torque > 0.0 ? speed : -speed;
    const double band = (1.0 - fade_start) * drive.velocity;
    if (driving > drive.velocity) {
      torque = slope = gain = 0.0;
    } else if (driving > fade_start * drive.velocity) {
      const double left = (drive.velocity - driving) / band;
      slope = slope * left - std::abs(torque) / band;
      torque *= left, gain *= left;
    }
  }
  return {torque, slope, gain, torque != command};
}

// Line from point A to point B, world axes; without a length it has no direction.
struct Line {
  Vector3 way;  // from A to B
  double length;
  Vector3 direction;
  Vector3 lever_A, lever_B;  // from the origins of the links
};

inline Line line_between(const SpringDamper& spring, const Frames& frames) {
  Line line;
  line.lever_A = spring.A == world ? spring.p_A : Vector3(frames[spring.A].R * spring.p_A);
  line.lever_B = spring.B == world ? spring.p_B : Vector3(frames[spring.B].R * spring.p_B);
  line.way = line.lever_B - line.lever_A;
  if (spring.B != world) line.way += frames[spring.B].p;
  if (spring.A != world) line.way -= frames[spring.A].p;
  line.length = line.way.norm();
  line.direction = line.length > 0.0 ? Vector3(line.way / line.length) : Vector3::Zero();
  return line;
}

}  // namespace vi_contact
