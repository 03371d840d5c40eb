//! `tc qdisc add dev IFACE root netem|tbf ...` of startup files: what it does becomes the link's impairment.

use crate::draft;

/// What a line shapes: the interface, and the keys of a direction. `None` for any other line, and for a form that has
/// no equal.
pub(super) fn shaping(line: &str) -> Option<(String, Vec<(&'static str, String)>)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let words = words.strip_prefix(["tc", "qdisc"].as_slice())?;
    let words = match words {
        ["add" | "replace", "dev", iface, "root", rest @ ..] => (*iface, rest),
        _ => return None,
    };
    let (iface, mut rest) = words;
    if let ["handle", _, after @ ..] = rest {
        rest = after;
    }
    let keys = match rest {
        ["netem", rest @ ..] => netem(rest)?,
        ["tbf", rest @ ..] => tbf(rest)?,
        _ => return None,
    };
    (!keys.is_empty()).then(|| (iface.to_owned(), keys))
}

fn netem(mut words: &[&str]) -> Option<Vec<(&'static str, String)>> {
    let (mut keys, mut limit) = (vec![], None);
    while let Some((word, rest)) = words.split_first() {
        let key = match *word {
            "delay" | "latency" => {
                let (delay, after) = rest.split_first()?;
                keys.push(("delay", time(delay)?));
                words = after;
                if let Some((jitter, after)) =
                    words.split_first().filter(|(w, _)| time(w).is_some())
                {
                    let correlation = after.first().filter(|w| percent(w).is_some());
                    words = &after[usize::from(correlation.is_some())..];
                    // Without a table netem draws from all of the range alike, whatever its manual says.
                    let mut distribution = "uniform";
                    if let ["distribution", name, after @ ..] = words {
                        let known = ["uniform", "normal", "pareto"].iter().find(|d| *d == name)?;
                        (distribution, words) = (known, after);
                    }
                    let more = correlation.map(|w| format!(" {w}")).unwrap_or_default();
                    keys.push(("jitter", format!("{} {distribution}{more}", time(jitter)?)));
                }
                continue;
            }
            "loss" | "drop" => "loss",
            "duplicate" => "duplicate",
            "corrupt" => "corrupt",
            "reorder" => "reorder",
            "rate" => {
                keys.push(("rate", rate(rest.first()?)?));
                words = &rest[1..];
                continue;
            }
            "limit" => {
                limit = Some(rest.first()?.parse::<u32>().ok()?);
                words = &rest[1..];
                continue;
            }
            _ => return None,
        };
        let rest = rest.strip_prefix(["random"].as_slice()).unwrap_or(rest);
        keys.push((key, percent(rest.first()?)?));
        words = &rest[1..];
    }
    // It counts what waits for the rate and what is delayed alike; alone it changes nothing.
    let bounds = [("rate", "queue"), ("delay", "limit")].into_iter();
    let bounds = bounds.filter(|(of, _)| keys.iter().any(|(key, _)| key == of));
    let bounds: Vec<_> = bounds.filter_map(|(_, key)| Some((key, limit?.to_string()))).collect();
    keys.extend(bounds);
    Some(keys)
}

fn tbf(words: &[&str]) -> Option<Vec<(&'static str, String)>> {
    let mut keys = vec![];
    for pair in words.chunks(2) {
        match pair {
            ["rate", value] => keys.push(("rate", rate(value)?)),
            ["latency", value] => keys.push(("queue", time(value)?)),
            ["burst" | "buffer" | "maxburst" | "limit" | "mtu" | "minburst" | "peakrate", _] => {}
            _ => return None,
        }
    }
    keys.iter().any(|(key, _)| *key == "rate").then_some(keys)
}

fn number(text: &str) -> Option<(f64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    Some((text[..end].parse().ok()?, &text[end..]))
}

fn time(text: &str) -> Option<String> {
    let (number, unit) = number(text)?;
    let us = match unit {
        "s" | "sec" | "secs" => number * 1e6,
        "ms" | "msec" | "msecs" => number * 1e3,
        // tc(8): a time without a unit is in microseconds, `bps` below is bytes a second.
        "" | "us" | "usec" | "usecs" => number,
        _ => return None,
    };
    Some(draft::time(us))
}

fn percent(text: &str) -> Option<String> {
    let (number, unit) = number(text)?;
    (unit == "%" && number <= 100.0).then(|| format!("{number}%"))
}

fn rate(text: &str) -> Option<String> {
    let lower = text.to_ascii_lowercase();
    let (number, unit) = number(&lower)?;
    let bits = match unit {
        "" | "bit" => number,
        "kbit" | "k" => number * 1e3,
        "mbit" | "m" => number * 1e6,
        "gbit" | "g" => number * 1e9,
        "bps" => number * 8.0,
        "kbps" => number * 8e3,
        "mbps" => number * 8e6,
        _ => return None,
    };
    (bits >= 1000.0).then(|| draft::rate(bits))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(line: &str) -> Option<String> {
        let (iface, keys) = shaping(line)?;
        let keys: Vec<String> = keys.iter().map(|(k, v)| format!("{k}={v}")).collect();
        Some(format!("{iface} {}", keys.join(" ")))
    }

    #[test]
    fn netem_and_tbf_become_keys() {
        for (line, want) in [
            ("tc qdisc add dev eth0 root netem delay 100ms", "eth0 delay=100ms"),
            (
                "tc qdisc add dev eth1 root handle 1: netem delay 1s 10ms 25% loss 0.5%",
                "eth1 delay=1000ms jitter=10ms uniform 25% loss=0.5%",
            ),
            (
                "tc qdisc add dev eth0 root netem delay 10ms 5ms distribution normal rate 1mbit",
                "eth0 delay=10ms jitter=5ms normal rate=1mbit",
            ),
            (
                "tc qdisc add dev eth0 root tbf rate 1mbit burst 32kbit latency 400ms",
                "eth0 rate=1mbit queue=400ms",
            ),
            ("tc qdisc add dev eth0 root netem rate 10Mbit limit 50", "eth0 rate=10mbit queue=50"),
            ("tc qdisc add dev eth0 root netem limit 50 delay 10ms", "eth0 delay=10ms limit=50"),
        ] {
            assert_eq!(shown(line).as_deref(), Some(want), "{line}");
        }
        for line in [
            "tc qdisc add dev eth0 root htb default 1",
            "tc qdisc add dev eth0 parent 1:1 netem delay 1ms",
            "tc qdisc add dev eth0 root netem slot 1ms",
            "tc qdisc add dev eth0 root netem delay 1ms 1ms distribution own",
            "tc class add dev eth0 root netem delay 1ms",
            "ip link set eth0 up",
        ] {
            assert_eq!(shown(line), None, "{line}");
        }
    }
}
