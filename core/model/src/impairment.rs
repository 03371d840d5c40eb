//! A link's impairments as text: `loss` -> `1%`. For lab files, command lines and the API.
//!
//! | key                               | value                                                      |
//! |-----------------------------------|------------------------------------------------------------|
//! | `delay`                           | `10ms`                                                     |
//! | `jitter`                          | `1ms`, with a form and a correlation: `1ms pareto 25%`      |
//! | `loss`                            | `1%`; with a correlation: `1% 25%`;                        |
//! |                                   | `bursts enter=1% leave=25% bad=100% good=0%`; `pattern ..x` |
//! | `duplicate`, `reorder`, `corrupt` | `0.1%`                                                     |
//! | `rate`, `queue`, `mtu`, `seed`    | `100mbit`; packets `100` or a time `50ms`; `1400`; `7`     |
//! | `limit`, `drop`                   | `1000`; an expression of pcap-filter(7): `icmp or udp`     |
//!
//! Commas may replace blanks. `none` removes a key. Values are read one by one; [`check`] decides
//! whether they are compatible. In errors `found` is the given text.

pub mod text;

use std::time::Duration;

use netloom_config::{Kind, likely, resolve, units};
use netloom_impair::{Bursts, Distribution, Impairments, Jitter, Loss, Queue, RandomLoss, Share};

use crate::misread::{Misread, unknown_key};

/// An impairment in words: its key, how it is given on a command line, what it expects, and how it is read, removed and
/// written.
struct Setting {
    flag: Flag,
    what: &'static str,
    put: fn(&mut Impairments, &str) -> Result<(), Misread>,
    clear: fn(&mut Impairments),
    text: fn(&Impairments) -> Option<String>,
}

/// An impairment on a command line.
#[derive(Clone, Copy, Debug)]
pub struct Flag {
    /// Its key.
    pub key: &'static str,
    /// What stands for its value in a synopsis.
    pub value: &'static str,
    /// What it does, in a line.
    pub help: &'static str,
}

/// A field of [`Impairments`] as a setting: how it is given, what it expects, and how it is read and written.
macro_rules! setting {
    ($field:ident, $value:literal, $help:literal, $what:expr, $parse:expr, $text:expr) => {
        Setting {
            flag: Flag { key: stringify!($field), value: $value, help: $help },
            what: $what,
            put: |of, text| {
                of.$field = $parse(text)?.into();
                Ok(())
            },
            clear: |of| of.$field = Default::default(),
            text: |of| $text(&of.$field),
        }
    };
}

/// All of them, in their order in texts. A new one is an entry here and one of the file's keys.
const SETTINGS: [Setting; 12] = [
    setting!(delay, "TIME", "Delay of each packet, like 10ms", DELAY, parse_delay, text::delay),
    setting!(
        jitter,
        "TIME[,normal|pareto|uniform]",
        "Random part of the delay, like 1ms or 1ms,pareto",
        "a duration like 1ms or a map of jitter keys",
        parse_jitter,
        text::jitter
    ),
    setting!(
        loss,
        "SHARE",
        "Share of packets that are lost, like 0.1%",
        "a percentage like 0.1% or a map of loss keys",
        parse_loss,
        text::loss
    ),
    setting!(
        duplicate,
        "SHARE",
        "Share of packets that arrive twice, like 0.1%",
        SHARE,
        parse_share,
        text::some_share
    ),
    setting!(
        reorder,
        "SHARE",
        "Share of packets that overtake others, like 0.1%",
        SHARE,
        parse_share,
        text::some_share
    ),
    setting!(
        corrupt,
        "SHARE",
        "Share of packets in which one bit is inverted, like 0.1%",
        SHARE,
        parse_share,
        text::some_share
    ),
    setting!(
        rate,
        "RATE",
        "Highest rate in bits per second, like 100mbit",
        RATE,
        parse_rate,
        text::rate
    ),
    setting!(
        queue,
        "PACKETS|TIME",
        "Longest queue for that rate, in packets or as a time, like 100 or 50ms",
        QUEUE,
        parse_queue,
        text::queue
    ),
    setting!(
        limit,
        "PACKETS",
        "Most packets that wait for the rate or are delayed, together",
        LIMIT,
        parse_limit,
        text::number
    ),
    setting!(
        drop,
        "EXPRESSION",
        "Packets that are lost, in words as for tcpdump: icmp and host NODE",
        DROP,
        parse_drop,
        Option::clone
    ),
    setting!(
        mtu,
        "BYTES",
        "The largest packet in bytes; larger ones are lost",
        MTU,
        parse_mtu,
        text::number
    ),
    setting!(seed, "NUMBER", "Seed of the random numbers", SEED, parse_seed, text::number),
];

/// All of them for a command line.
pub fn flags() -> impl Iterator<Item = Flag> {
    SETTINGS.iter().map(|setting| setting.flag)
}

/// The keys of [`set`].
pub const KEYS: &[&str] = &{
    let mut keys = [""; SETTINGS.len()];
    let mut at = 0;
    while at < keys.len() {
        keys[at] = SETTINGS[at].flag.key;
        at += 1;
    }
    keys
};

/// The distributions of jitter.
pub(crate) const DISTRIBUTIONS: &[&str] = &["normal", "pareto", "uniform"];

pub(crate) const RATE: &str = "a rate like 100mbit or 1.5Gb/s";
pub(crate) const DELAY: &str = "a duration with its unit like 10ms";
pub(crate) const SHARE: &str = "a percentage from 0% to 100% like 0.1%";
pub(crate) const QUEUE: &str = "a number of packets, or a duration like 50ms";
pub(crate) const SEED: &str = "a whole number from 0 to 18446744073709551615";
pub(crate) const PATTERN: &str = "a pattern of x (lost) and . (passed) like ..x";
const MTU: &str = "a whole number from 68 to 65535";
const LIMIT: &str = "a number of packets from 1 to 4294967295";
const DROP: &str = "an expression as for tcpdump, like icmp or tcp port 80";

/// Sets one of [`KEYS`]; `none` removes it.
///
/// # Errors
/// The key, and its valid values.
pub fn set(impairments: &mut Impairments, key: &str, text: &str) -> Result<(), String> {
    if !KEYS.contains(&key) {
        return Err(unknown_key(key, KEYS).to_string());
    }
    // A file with such a value has a key without value, which is refused there too.
    if resolve(text) == Kind::Null {
        return Err(format!("{key}: expected {}, found nothing", what(key)));
    }
    if text == "none" {
        clear(impairments, key);
        return Ok(());
    }
    put(impairments, key, text).map_err(|problem| format!("{key}: {problem}"))
}

/// One of [`KEYS`].
fn setting(key: &str) -> Option<&'static Setting> {
    const ALL: &[Setting] = &SETTINGS;
    ALL.iter().find(|setting| setting.flag.key == key)
}

/// What a key expects, for messages.
pub(crate) fn what(key: &str) -> &'static str {
    setting(key).map_or("", |setting| setting.what)
}

/// Refuses impairments that are meaningless or would take too much memory.
///
/// # Errors
/// The first impossible key, and why.
pub fn check(impairments: &Impairments) -> Result<(), String> {
    impairments.check().map_err(|problem| format!("{}: {}", problem.key, problem.reason))
}

/// Sets one of [`KEYS`] to a value; the error does not contain the key.
pub(crate) fn put(of: &mut Impairments, key: &str, text: &str) -> Result<(), Misread> {
    setting(key).map_or(Ok(()), |setting| (setting.put)(of, text))
}

/// Removes one of [`KEYS`].
pub(crate) fn clear(of: &mut Impairments, key: &str) {
    if let Some(setting) = setting(key) {
        (setting.clear)(of);
    }
}

/// Bits per second: `100mbit`, `1.5Gb/s`.
///
/// # Errors
/// The expected form.
pub fn parse_rate(text: &str) -> Result<u64, Misread> {
    units::rate(text).ok_or_else(|| Misread::expected(RATE, text).with(likely::rate(text)))
}

/// `10ms`. A unit is required except for `0`.
///
/// # Errors
/// The expected form.
pub fn parse_delay(text: &str) -> Result<Duration, Misread> {
    let has_unit = text.ends_with(|c: char| c.is_ascii_alphabetic()) || text == "0";
    let delay = has_unit.then(|| units::duration(text)).flatten();
    delay.ok_or_else(|| Misread::expected(DELAY, text).with(likely::delay(text)))
}

/// `0.1%`, exactly; at most seven digits after the point.
///
/// # Errors
/// The expected form.
pub fn parse_share(text: &str) -> Result<Share, Misread> {
    let share = units::share(text).map(Share);
    share.ok_or_else(|| Misread::expected(SHARE, text).with(likely::share(text)))
}

/// Packets, `100`, or their maximum waiting time, `50ms`.
///
/// # Errors
/// The expected form.
pub fn parse_queue(text: &str) -> Result<Queue, Misread> {
    let packets = text.parse().ok().filter(|_| !text.starts_with('+')).map(Queue::Packets);
    let queue = packets.or_else(|| parse_delay(text).ok().map(Queue::Time));
    queue.ok_or_else(|| Misread::expected(QUEUE, text).with(likely::duration(text)))
}

/// Packets, `100`.
///
/// # Errors
/// The expected form.
pub fn parse_limit(text: &str) -> Result<u32, Misread> {
    let limit = text.parse().ok().filter(|_| !text.starts_with('+'));
    limit.ok_or_else(|| Misread::expected(LIMIT, text))
}

/// An expression of pcap-filter(7), which libpcap reads where the link is made.
///
/// # Errors
/// A share of packets, which is meant for `loss`.
pub fn parse_drop(text: &str) -> Result<String, Misread> {
    match units::share(text).is_some() || text.parse::<f64>().is_ok() {
        true => Err(Misread::expected(DROP, text).with(Some(format!("write loss: {text}")))),
        false => Ok(text.trim().to_owned()),
    }
}

/// `1400`.
///
/// # Errors
/// The expected form.
pub fn parse_mtu(text: &str) -> Result<u32, Misread> {
    match resolve(text) {
        Kind::Int(mtu @ 68..=65535) => u32::try_from(mtu).ok(),
        _ => None,
    }
    .ok_or_else(|| Misread::expected(MTU, text))
}

/// Any 64-bit number.
///
/// # Errors
/// The expected form.
pub fn parse_seed(text: &str) -> Result<u64, Misread> {
    text.parse().map_err(|_| Misread::expected(SEED, text))
}

/// `1ms`, `1ms pareto`, `1ms normal 25%`, or with names: `spread=1ms correlation=25%`.
///
/// # Errors
/// The expected form.
pub fn parse_jitter(text: &str) -> Result<Jitter, Misread> {
    let (mut spread, mut distribution, mut correlation) = (None, None, None);
    for (index, word) in words(text).enumerate() {
        let (name, value) = match word.split_once('=') {
            Some(pair) => pair,
            None if index == 0 => ("spread", word),
            None if word.ends_with('%') => ("correlation", word),
            None => ("distribution", word),
        };
        let first = match name {
            "spread" => spread.replace(parse_delay(value)?).is_none(),
            "distribution" => distribution.replace(parse_distribution(value)?).is_none(),
            "correlation" => correlation.replace(parse_share(value)?).is_none(),
            _ => return Err(unknown_key(name, &["spread", "distribution", "correlation"])),
        };
        once(name, first)?;
    }
    let spread = spread.ok_or_else(|| Misread::expected("a duration like 1ms", text))?;
    let (distribution, correlation) =
        (distribution.unwrap_or_default(), correlation.unwrap_or_default());
    Ok(Jitter { spread, distribution, correlation })
}

/// `normal`, `pareto` or `uniform`.
pub(crate) fn parse_distribution(text: &str) -> Result<Distribution, Misread> {
    Ok(match text {
        "normal" => Distribution::Normal,
        "pareto" => Distribution::Pareto,
        "uniform" => Distribution::Uniform,
        _ => return Err(Misread::expected(&format!("one of {}", DISTRIBUTIONS.join(", ")), text)),
    })
}

/// `1%`, `1% 25%`, `bursts enter=1% leave=25%` or `pattern ..x`.
///
/// # Errors
/// The expected form.
pub fn parse_loss(text: &str) -> Result<Loss, Misread> {
    let mut words = words(text);
    match words.next() {
        Some("bursts") => parse_bursts(words).map(Loss::Bursts),
        Some("pattern") => match (words.next(), words.next()) {
            (Some(pattern), None) => parse_pattern(pattern).map(Loss::Pattern),
            _ => Err(Misread::expected(PATTERN, text.trim_start_matches("pattern").trim())),
        },
        Some(share) => parse_random(share, words).map(Loss::Random),
        None => Err(Misread::expected("a percentage, bursts or a pattern", text)),
    }
}

fn parse_random<'t>(
    share: &str,
    rest: impl Iterator<Item = &'t str>,
) -> Result<RandomLoss, Misread> {
    let share = parse_share(share.strip_prefix("random=").unwrap_or(share))?;
    let mut correlation = None;
    for word in rest {
        let value = parse_share(word.strip_prefix("correlation=").unwrap_or(word))?;
        once("correlation", correlation.replace(value).is_none())?;
    }
    Ok(RandomLoss { share, correlation: correlation.unwrap_or_default() })
}

fn parse_bursts<'t>(words: impl Iterator<Item = &'t str>) -> Result<Bursts, Misread> {
    const NAMES: &[&str] = &["enter", "leave", "bad", "good"];
    let mut values = [None; 4];
    for word in words {
        let Some((name, value)) = word.split_once('=') else {
            return Err(Misread::expected(
                "enter=SHARE leave=SHARE and, if wanted, bad=, good=",
                word,
            ));
        };
        let index = NAMES.iter().position(|n| *n == name);
        let index = index.ok_or_else(|| unknown_key(name, NAMES))?;
        let value = parse_share(value).map_err(|misread| {
            Misread::from(format!("{name}: {}", misread.problem)).with(misread.help)
        })?;
        once(name, values[index].replace(value).is_none())?;
    }
    let [enter, leave, bad, good] = values;
    let missing =
        |name| Misread::from(format!("bursts need {name}=SHARE, like bursts enter=1% leave=25%"));
    Ok(Bursts {
        enter: enter.ok_or_else(|| missing("enter"))?,
        leave: leave.ok_or_else(|| missing("leave"))?,
        // The Gilbert model: all is lost in the bad state, nothing in the good one.
        bad: bad.unwrap_or(Share::ALL),
        good: good.unwrap_or(Share::NONE),
    })
}

/// `..x`: the third of every three is lost.
///
/// # Errors
/// The expected form.
pub fn parse_pattern(text: &str) -> Result<Vec<bool>, Misread> {
    let lost = |c: char| match c {
        'x' => Some(true),
        '.' => Some(false),
        _ => None,
    };
    let pattern: Option<Vec<bool>> = text.chars().map(lost).collect();
    pattern.filter(|p| !p.is_empty()).ok_or_else(|| Misread::expected(PATTERN, text))
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split([' ', ',']).filter(|word| !word.is_empty())
}

fn once(name: &str, first: bool) -> Result<(), Misread> {
    if first { Ok(()) } else { Err(format!("{name} is given twice").into()) }
}

#[cfg(test)]
mod tests;
