//! Motion of a state over time, and its display. Positions are fractions of the range of the motion, from 0 to 1.

use std::f64::consts::TAU;

use deadheat_base::time::Nanos;

/// A motion that repeats every second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Motion {
    /// Swing from one end to the other and back, like a pendulum.
    Sine,
    /// Jump from one end to the other every half second, at rest in between.
    Step,
    /// Thrown up, falling under gravity, and thrown up again where it lands.
    Bounce,
    /// From one end to the other and back, at a constant speed.
    Linear,
    /// A hand that reaches from one end to the other in 0.4 s, rests for a tenth of a second, and reaches back. Each reach
    /// has the least jerk, 10 t³ − 15 t⁴ + 6 t⁵ (Flash and Hogan, J. Neurosci. 5(7), 1985).
    Hand,
}

impl Motion {
    /// Returns its position, and its speed in ranges per second.
    pub(super) fn at(self, time: Nanos) -> (f64, f64) {
        let phase = (time.0 % 1_000_000_000) as f64 / 1e9;
        match self {
            Motion::Sine => (0.5 + 0.5 * (TAU * phase).sin(), 0.5 * TAU * (TAU * phase).cos()),
            Motion::Step if phase < 0.5 => (0.0, 0.0),
            Motion::Step => (1.0, 0.0),
            // A parabola with 0 at both ends and 1 in the middle.
            Motion::Linear if phase < 0.5 => (2.0 * phase, 2.0),
            Motion::Linear => (2.0 - 2.0 * phase, -2.0),
            Motion::Hand if phase < 0.5 => reach(phase),
            Motion::Hand => {
                let (position, speed) = reach(phase - 0.5);
                (1.0 - position, -speed)
            }
            Motion::Bounce => (4.0 * phase * (1.0 - phase), 4.0 - 8.0 * phase),
        }
    }
}

/// Duration of a reach, in seconds.
const REACH: f64 = 0.4;

/// Returns the position and the speed of a reach, at this time after its beginning.
fn reach(seconds: f64) -> (f64, f64) {
    let t = (seconds / REACH).min(1.0);
    let position = t.powi(3) * (10.0 - 15.0 * t + 6.0 * t * t);
    (position, 30.0 * t * t * (1.0 - t).powi(2) / REACH)
}

/// Display between updates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Display {
    /// Position of the newest update.
    Hold,
    /// Position of the newest update, extrapolated to now with its speed (dead reckoning).
    Extrapolate,
    /// Position between the two updates around the time now less this delay.
    Interpolate(Nanos),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn motions_stay_in_their_range_and_move_as_fast_as_they_say() {
        let step = Nanos(1_000);
        for motion in [Motion::Sine, Motion::Step, Motion::Bounce, Motion::Linear, Motion::Hand] {
            for ms in (1..2_000).filter(|ms| ms % 500 != 0) {
                let now = Nanos::from_millis(ms);
                let (position, speed) = motion.at(now);
                assert!((0.0..=1.0).contains(&position), "{motion:?} {ms}: {position}");
                let moved = motion.at(now + step).0 - position;
                assert!((moved - speed * 1e-6).abs() < 1e-9, "{motion:?} {ms}: {moved} {speed}");
            }
        }
    }
}
