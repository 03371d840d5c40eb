//! Flags as what a session measures, and errors in them.

use netloom_session::measure::{Flows, Method};

use crate::flags::Measure;

/// The flows given by flags.
pub(super) fn flows(args: &Measure) -> Flows {
    let what = &args.what;
    Flows {
        proto: what.proto.clone(),
        src_port: what.src_port,
        dst_port: what.dst_port,
        each: what.flow.clone(),
        connected: what.flows,
    }
}

/// The method given by flags.
pub(super) fn method(args: &Measure) -> Method {
    Method {
        period: args.period,
        duration: args.duration,
        guard: args.guard,
        program: args.program,
        samples: args.samples,
        hash_length: args.hash_length,
        marks: args.marks,
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use anyhow::Result;
    use clap::Parser;
    use netloom_marking::session::Configuration;
    use netloom_session::measure::configuration;

    use super::*;
    use crate::Usage;
    use crate::verbs::wording::worded;

    fn args(line: &str) -> Measure {
        let cli =
            crate::flags::Cli::try_parse_from(format!("netloom measure a b{line}").split(' '));
        let crate::flags::Verb::Measure(args) = cli.unwrap().verb else { panic!("{line}") };
        *args
    }

    fn address(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    fn configured(line: &str) -> Result<Configuration> {
        let args = args(line);
        let [there, back] = [[(address(1), address(2))], [(address(2), address(1))]];
        let packets = [(&there[..], false), (&back[..], true)];
        configuration(&method(&args), &flows(&args).given(), &packets, None).map_err(worded)
    }

    #[test]
    fn the_way_back_has_its_ports_turned_round() {
        let found = configured(" --flow 5000->80/tcp --flow 53/udp").unwrap();
        let ports =
            |id: usize| (found.filters[id].filter.src_port, found.filters[id].filter.dst_port);
        assert_eq!(found.filters.len(), 6);
        assert_eq!([ports(0), ports(1)], [(Some(5000), Some(80)), (Some(80), Some(5000))]);
        assert_eq!([ports(2), ports(3)], [(None, Some(53)), (Some(53), None)]);
        assert_eq!([ports(4), ports(5)], [(None, None); 2]);
        let nets = |id: usize| found.filters[id].filter.src_ip.unwrap().addr();
        assert_eq!([nets(4), nets(5)], [address(1), address(2)]);
    }

    #[test]
    fn what_is_asked_for_is_what_is_measured() {
        let found = configured("").unwrap();
        assert_eq!((found.period, found.guard, found.duration), (1_000_000_000, 250_000_000, 0));
        assert_eq!(found.sampling.unwrap().npkts, Some(1024));
        let found = configured(" --for 20s --period 2s --guard 100ms --program 1").unwrap();
        assert_eq!((found.blocks(), found.guard), (10, 100_000_000));
        assert!(found.sampling.is_none());
        let found = configured(" --program 2 --hash-length 3 --marks 1,2 --proto 17").unwrap();
        assert_eq!(found.sampling.unwrap().selection.threshold().hash_length(), 3);
    }

    #[test]
    fn what_is_wrong_is_told_by_flag() {
        for (line, words) in [
            (
                " --guard 500ms",
                "--guard: period of 1000000000 ns: guard of 500000000 ns does not fit",
            ),
            (" --period 1ms", "--period: must be 0.01 to 3600 seconds"),
            (" --for 500ms", "--for: is shorter than mp"),
            (" --marks 8,8", "--marks: "),
            (" --marks 8,64", "--marks: must be"),
            (" --proto x", "--proto: must be tcp, udp"),
            (" --proto icmp --port 80", "--proto: has no ports"),
            (" --flow 80/tcp --flow 80/tcp", "--flow: is the same as filters[0]"),
        ] {
            let error = configured(line).unwrap_err();
            assert!(error.is::<Usage>(), "{line}: {error}");
            assert!(error.to_string().starts_with(words), "{line}: {error}");
        }
    }
}
