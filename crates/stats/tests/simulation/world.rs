//! Hosts and trials to race on: a timeline of host states, and the noise of each trial.

use deadheat_stats::rng::SplitMix64;

/// How long a trial takes, start of its processes included: three make a block of about 0.4 s.
pub(crate) const TRIAL_S: f64 = 0.13;

/// What disturbs the figures of a race, as factors given by their logarithms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Noise {
    /// Log-normal trials with this standard deviation.
    Scatter(f64),
    /// Trials whose logarithm is Student's t with two degrees of freedom: no variance.
    Heavy,
    /// Log-normal trials, one in ten slowed by a Pareto factor without a mean.
    Contaminated,
    /// Trials whose logarithm is exponential, with a mean of 0.6: most are fast, and some much slower.
    Skewed,
    /// Each trial on its own is five times slower with probability 0.3.
    TwoKinds,
    /// A level that wanders over the whole race, common to all contenders.
    Drift,
    /// A host that is half as slow again for a while, for so many seconds on average.
    Regimes(f64),
    /// Each contender has times of its own: log-ratios of neighbouring blocks correlate by this much.
    Serial(f64),
}

/// All kinds that a level is promised for.
pub(crate) const NOISES: [Noise; 14] = [
    Noise::Scatter(0.025),
    Noise::Scatter(0.08),
    Noise::Scatter(0.2),
    Noise::Heavy,
    Noise::Contaminated,
    Noise::Skewed,
    Noise::TwoKinds,
    Noise::Drift,
    Noise::Regimes(0.3),
    Noise::Regimes(3.0),
    Noise::Regimes(30.0),
    Noise::Serial(0.0),
    Noise::Serial(0.2),
    Noise::Serial(0.4),
];

impl Noise {
    pub(crate) fn name(self) -> String {
        match self {
            Noise::Scatter(sd) => format!("scatter {:.1} %", 100.0 * sd),
            Noise::Heavy => "heavy tails".to_owned(),
            Noise::Contaminated => "one trial in ten slow".to_owned(),
            Noise::Skewed => "skewed trials".to_owned(),
            Noise::TwoKinds => "two kinds of trials".to_owned(),
            Noise::Drift => "drift".to_owned(),
            Noise::Regimes(seconds) => format!("regimes of {seconds} s"),
            Noise::Serial(r) => format!("AR(1) {r}"),
        }
    }

    /// Standard deviation of a trial's logarithm that a plan would reckon with.
    pub(crate) fn scatter(self) -> f64 {
        match self {
            Noise::Scatter(sd) => sd,
            Noise::TwoKinds => 0.7,
            Noise::Skewed => 0.6,
            // The pilot takes a second, in which only a short regime ends.
            Noise::Regimes(mean) if mean < 1.0 => 0.2,
            Noise::Serial(_) => SERIAL_SD,
            Noise::Heavy | Noise::Contaminated | Noise::Drift | Noise::Regimes(_) => 0.03,
        }
    }
}

const SERIAL_SD: f64 = 0.08;

/// A host on which trials run one after the other.
pub(crate) struct World {
    noise: Noise,
    rng: SplitMix64,
    level: f64,
    /// Of each contender, for [`Noise::Serial`].
    own: Vec<f64>,
}

impl World {
    pub(crate) fn new(noise: Noise, contenders: usize, seed: u64) -> World {
        let mut rng = SplitMix64::new(seed);
        let own = (0..contenders).map(|_| SERIAL_SD * rng.normal()).collect();
        let slow = matches!(noise, Noise::Regimes(_)) && rng.unit() < 0.5;
        World { noise, rng, level: if slow { SLOW } else { 0.0 }, own }
    }

    /// The logarithm of each contender's figure in one block, in random order.
    pub(crate) fn block(&mut self, truth: &[f64]) -> Vec<f64> {
        let mut order: Vec<usize> = (0..truth.len()).collect();
        self.rng.shuffle(&mut order);
        let mut figures = vec![0.0; truth.len()];
        for contender in order {
            self.pass(TRIAL_S);
            figures[contender] = truth[contender] + self.level + self.trial(contender);
        }
        // The copy runs too.
        self.pass(TRIAL_S);
        figures
    }

    /// Moves the host on by so many seconds.
    fn pass(&mut self, seconds: f64) {
        match self.noise {
            Noise::Drift => self.level += 0.03 + 0.07 * self.rng.normal(),
            Noise::Regimes(mean) if self.rng.unit() < 1.0 - (-seconds / mean).exp() => {
                self.level = SLOW - self.level;
            }
            _ => {}
        }
    }

    fn trial(&mut self, contender: usize) -> f64 {
        let rng = &mut self.rng;
        let small = 0.03 * rng.normal();
        match self.noise {
            Noise::Scatter(sd) => sd / 0.03 * small,
            // χ² with two degrees of freedom is twice an exponential.
            Noise::Heavy => small / (-(1.0 - rng.unit()).ln()).sqrt(),
            Noise::Contaminated if rng.unit() < 0.1 => small - (1.0 - rng.unit()).ln(),
            Noise::Skewed => -0.6 * (1.0 - rng.unit()).ln(),
            Noise::TwoKinds if rng.unit() < 0.3 => small + 5.0f64.ln(),
            Noise::Contaminated | Noise::TwoKinds | Noise::Drift | Noise::Regimes(_) => small,
            Noise::Serial(r) => {
                let now = self.own[contender];
                let news = SERIAL_SD * (1.0 - r * r).sqrt() * rng.normal();
                self.own[contender] = r * now + news;
                now
            }
        }
    }
}

/// A slow regime takes half as long again.
const SLOW: f64 = 0.405;

/// A shared virtual machine as time goes by: the level wanders within a second and within a quarter of
/// a minute, and each tenth of a second has noise of its own.
pub(crate) struct Host {
    rng: SplitMix64,
    fast: f64,
    slow: f64,
}

impl Host {
    pub(crate) fn new(seed: u64) -> Host {
        let mut rng = SplitMix64::new(seed);
        let (fast, slow) = (rng.normal(), rng.normal());
        Host { rng, fast, slow }
    }

    /// The logarithm of the factor by which a trial is slowed that runs now.
    pub(crate) fn trial(&mut self) -> f64 {
        let wander = |rng: &mut SplitMix64, level: f64, seconds: f64| {
            let stays = (-TRIAL_S / seconds).exp();
            stays * level + (1.0 - stays * stays).sqrt() * rng.normal()
        };
        self.fast = wander(&mut self.rng, self.fast, 1.0);
        self.slow = wander(&mut self.rng, self.slow, 15.0);
        0.05 * self.fast + 0.1 * self.slow + 0.08 * self.rng.normal()
    }
}
