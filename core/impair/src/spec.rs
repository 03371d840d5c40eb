//! The configured impairments of one direction of a wire.
//!
//! Probabilities are whole parts of 10^9, so that values compare exactly and a share in a file
//! stays as written. [`Impairments::check`] refuses values that need unbounded memory.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A probability in parts of 10^9.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(maximum = 1_000_000_000))]
pub struct Share(pub u32);

impl Share {
    /// Never.
    pub const NONE: Share = Share(0);
    /// Always.
    pub const ALL: Share = Share(1_000_000_000);
}

/// What one direction of a link does to its frames. The default does nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = PlannedImpairments))]
pub struct Impairments {
    /// How long every packet is held, after its transmission at `rate`.
    #[serde(default, with = "netloom_form::duration")]
    #[cfg_attr(feature = "schema", schema(required = true, value_type = netloom_form::schema::Duration))]
    pub delay: Duration,
    /// A random part of the delay, which is never negative: without a delay, about half of the packets have none.
    pub jitter: Option<Jitter>,
    /// Which packets are lost.
    pub loss: Option<Loss>,
    /// How many packets are duplicated.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(required = true))]
    pub duplicate: Share,
    /// How many packets overtake earlier ones by not being delayed.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(required = true))]
    pub reorder: Share,
    /// In how many packets one bit is flipped.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(required = true))]
    pub corrupt: Share,
    /// Bits per second, counted over whole Ethernet frames without preamble and check sequence.
    pub rate: Option<u64>,
    /// How much may wait for transmission at `rate`; a thousand packets by default.
    pub queue: Option<Queue>,
    /// How many packets are held at a time: those that wait for transmission and those that are delayed, copies included.
    pub limit: Option<u32>,
    /// Which packets are lost: those that an expression of pcap-filter(7) matches. The carrier compiles it and says of each
    /// packet whether it does ([`Packet::dropped`](crate::Packet)).
    pub drop: Option<String>,
    /// Frames whose network packet is longer are lost (as on a path with a smaller MTU).
    pub mtu: Option<u32>,
    /// Seed of all random numbers; from the link's name by default.
    #[serde(default, with = "netloom_form::exact")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<netloom_form::schema::Exact>))]
    pub seed: Option<u64>,
}

/// A random part of the delay. Packets keep their order: one that would overtake leaves with the
/// previous one; only `reorder` lets packets overtake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Jitter {
    /// Normal: the standard deviation. Uniform: the delay is up to this much shorter or longer.
    /// Pareto: the mean of the addition. A delay below zero counts as zero.
    #[serde(with = "netloom_form::duration")]
    #[cfg_attr(feature = "schema", schema(value_type = netloom_form::schema::Duration))]
    pub spread: Duration,
    /// Its distribution.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(required = true))]
    pub distribution: Distribution,
    /// How much a packet's value depends on the previous one (first-order autocorrelation).
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(required = true))]
    pub correlation: Share,
}

/// The distribution of jitter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum Distribution {
    /// Gaussian.
    #[default]
    Normal,
    /// Heavy-tailed: shape 3, starting at zero (Lomax), scaled to the mean `spread`, added to the
    /// delay; the sum never exceeds [`LONGEST`].
    Pareto,
    /// Uniform between -spread and +spread.
    Uniform,
}

/// Which packets are lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum Loss {
    /// Each packet at random.
    Random(RandomLoss),
    /// The Gilbert-Elliott model.
    Bursts(Bursts),
    /// Exactly these, repeated: `true` is lost. At most 65,536 packets.
    Pattern(Vec<bool>),
}

/// Random loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RandomLoss {
    /// How many packets.
    pub share: Share,
    /// How much a packet's fate depends on the previous one.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(required = true))]
    pub correlation: Share,
}

/// Gilbert-Elliott: a good and a bad state; before each packet the state may change. It starts in the
/// good state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Bursts {
    /// Probability of changing from good to bad.
    pub enter: Share,
    /// Probability of changing from bad to good; the mean length of a burst is its inverse.
    pub leave: Share,
    /// Loss in the bad state; all by default.
    #[serde(default = "all")]
    #[cfg_attr(feature = "schema", schema(required = true))]
    pub bad: Share,
    /// Loss in the good state; none by default.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(required = true))]
    pub good: Share,
}

impl Share {
    /// As a number between 0 and 1.
    pub fn ratio(self) -> f64 {
        f64::from(self.0) / f64::from(Share::ALL.0)
    }
}

impl Bursts {
    /// The mean loss, 0 to 1: the state is bad for enter / (enter + leave) of the packets, hence
    /// (enter x bad + leave x good) / (enter + leave): the stationary
    /// distribution of a Markov chain of two states.
    pub fn mean_loss(&self) -> f64 {
        let (enter, leave) = (self.enter.ratio(), self.leave.ratio());
        if enter + leave == 0.0 {
            return self.good.ratio();
        }
        (enter * self.bad.ratio() + leave * self.good.ratio()) / (enter + leave)
    }
}

fn all() -> Share {
    Share::ALL
}

/// How much may wait for transmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum Queue {
    /// This many packets.
    Packets(u32),
    /// As much as is transmitted within this time.
    #[serde(with = "netloom_form::duration")]
    #[cfg_attr(feature = "schema", schema(value_type = netloom_form::schema::Duration))]
    Time(Duration),
}

impl Queue {
    /// A thousand packets.
    pub const DEFAULT: Queue = Queue::Packets(1000);
}

/// Why impairments are refused: the key and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The key as in the lab file, e.g. `delay`.
    pub key: &'static str,
    /// In words, with figures.
    pub reason: String,
}

/// Bytes that one direction may hold at most.
pub const MOST_HELD: u64 = 256 << 20;

/// The longest delay, jitter included, without a rate to bound the memory.
pub const LONGEST_UNBOUNDED: Duration = Duration::from_secs(10);

/// The longest delay, jitter included, in any case.
pub const LONGEST: Duration = Duration::from_secs(3600);

impl Impairments {
    /// Whether nothing is impaired, so that no wire is needed.
    pub fn is_none(&self) -> bool {
        let lossless = |loss: &Loss| match loss {
            Loss::Random(random) => random.share == Share::NONE,
            Loss::Bursts(bursts) => bursts.bad == Share::NONE && bursts.good == Share::NONE,
            Loss::Pattern(lost) => !lost.contains(&true),
        };
        let acting = Impairments {
            seed: None,
            queue: None,
            limit: None,
            loss: self.loss.clone().filter(|loss| !lossless(loss)),
            jitter: self.jitter.filter(|jitter| !jitter.spread.is_zero()),
            ..self.clone()
        };
        acting == Impairments::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::RandomLoss;

    #[test]
    fn what_changes_nothing_is_none() {
        let random = |share| Loss::Random(RandomLoss { share, correlation: Share::NONE });
        let with = |loss| Impairments { loss: Some(loss), seed: Some(1), ..Impairments::default() };
        assert!(Impairments::default().is_none());
        assert!(with(random(Share::NONE)).is_none());
        assert!(with(Loss::Pattern(vec![false, false])).is_none());
        assert!(!with(random(Share(1))).is_none());
        assert!(!with(Loss::Pattern(vec![false, true])).is_none());
        assert!(Impairments { limit: Some(1), ..Impairments::default() }.is_none());
        assert!(!Impairments { drop: Some("icmp".into()), ..Impairments::default() }.is_none());
        assert!(!Impairments { mtu: Some(1400), ..Impairments::default() }.is_none());
    }
}
