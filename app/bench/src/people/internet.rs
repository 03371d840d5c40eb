//! What leaves an ordinary user's lab by its `internet` link, which pasta carries, beside pasta alone.
//!
//! Root makes a host, a network namespace with an uplink to a server, and becomes an ordinary user there. Each round is a host of
//! its own, of which nothing is left when its first process ends. Senders and servers are the same programs on both sides, with
//! the machine's own settings of TCP. There are several streams, because a single one stands still for 200 ms and more whenever
//! pasta (2023) sends less than it was given: the sender's timeout finds what it dropped.

use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use crate::capture::version;
use crate::machine::is_root;
use crate::report::side;
use crate::rounds::rounds;
use crate::running::{Running, number};
use crate::{Options, Programs, Report};

/// Arguments: netloom, this program, then the sides in their order: `lab` and `large`, nodes with the usual MTU and a larger one, and `pasta`.
const HOST: &str = r#"
set -eu
# Of this mount namespace alone.
mount -t tmpfs none /mnt
own=/mnt
ip link set lo up
unshare --net sleep 60 &
far=$!
until [ "$(readlink /proc/$far/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do kill -0 $far; done
ip link add card type veth peer name far netns $far
nsenter -t $far -n sh -c 'ip addr add 203.0.113.8/24 dev far && ip addr add 203.0.113.9/24 dev far && ip link set far up'
ip addr add 203.0.113.1/24 dev card
ip link set card up
# pasta leads its gateway's address to the host: the server has another.
ip route add default via 203.0.113.8
mknod -m 666 $own/tun c 10 200
mount --bind $own/tun /dev/net/tun
cp "$1" $own/netloom
cp "$2" $own/netloom-bench
install -d -m 700 -o 65533 -g 65533 $own/run
chmod 755 $own
printf 'name: out\nnodes: {a: {}, b: {}}\nlinks: [[a, internet], {ends: [b, internet], mtu: 9000}]\n' >$own/lab.yaml
chmod 644 $own/lab.yaml
user() { setpriv --reuid 65533 --regid 65533 --clear-groups env HOME=$own/run NETLOOM_RUNTIME_DIR=$own/run "$@"; }
cat >$own/send <<'END'
#!/bin/sh
for port; do /mnt/netloom-bench peer tcp-source 203.0.113.9:$port 0 30 >/dev/null & done
wait
END
chmod 755 $own/send
lab() { user $own/netloom -l out exec a -- "$@"; }
large() { user $own/netloom -l out exec b -- "$@"; }
pasta() { user pasta --config-net --quiet -- "$@"; }
user $own/netloom up $own/lab.yaml >/dev/null
ports='5000 5001 5002 5003 5004 5005 5006 5007'
shift 2
for side; do
    sinks=
    for port in $ports; do
        nsenter -t $far -n $own/netloom-bench peer tcp-sink $port 0.1 0.4 >$own/$side.$port &
        sinks="$sinks $!"
        until grep -qs ready $own/$side.$port; do kill -0 $!; done
    done
    $side $own/send $ports
    for sink in $sinks; do wait $sink; done
done
user $own/netloom down out >/dev/null
rate() { sed -n 's/.*"bytes_per_s"://; s/}//p' $own/$1.* | awk '{ all += $1 } END { printf "%.0f", all }'; }
echo "{\"lab\": $(rate lab), \"large\": $(rate large), \"pasta\": $(rate pasta)}"
"#;

const SIDES: [&str; 3] = ["lab", "large", "pasta"];
/// The figures of the first two, each beside the third.
const FIGURES: [&str; 2] = ["internet_1500_vs_pasta", "internet_vs_pasta"];

/// Rates of all rounds by side, in Gb/s.
type Rates = [Vec<f64>; 3];

pub(super) fn measure(options: Options, programs: &Programs, report: &mut Report) -> Result<()> {
    let what = "TCP out of an ordinary user's lab, 8 streams";
    let pasta = version("pasta");
    report.peers.insert("pasta".to_owned(), pasta.clone());
    let missing = match pasta {
        None => Some("pasta is not installed"),
        Some(_) if !is_root() => Some("makes a host and an ordinary user on it: run it as root"),
        Some(_) => None,
    };
    if let Some(why) = missing {
        report.left_out(what, "netloom", why);
        FIGURES.iter().for_each(|figure| report.not_shown(figure, why));
        return Ok(());
    }
    let mut all = Rates::default();
    let one_round = |round: usize, all: &mut Rates| {
        progress!("bench people: {what}, round {}", round + 1);
        for (all, rate) in all.iter_mut().zip(on_a_host(programs, round)?) {
            all.push(rate);
        }
        Ok(())
    };
    let ratios = |all: &Rates, report: &mut Report| {
        let ours = ["a node, its `internet` link, pasta", "the same with `mtu: 9000`"];
        for (at, figure) in FIGURES.into_iter().enumerate() {
            let theirs = side("pasta --config-net -- the same senders", &all[2]);
            report.ratio(figure, side(ours[at], &all[at]), theirs);
        }
    };
    let time = Duration::from_secs(if options.quick { 15 } else { 60 });
    rounds(time, &mut all, one_round, ratios)?;
    report.measured(what, "netloom", "Gb/s", &all[0], "node, `internet` link, pasta; MTU 1500");
    report.measured(what, "netloom, mtu 9000", "Gb/s", &all[1], "the same, `mtu: 9000`");
    report.measured(what, "pasta", "Gb/s", &all[2], "pasta --config-net; its MTU, 65520");
    ratios(&all, report);
    Ok(())
}

/// The rates of a round, in the order of [`SIDES`]; which is measured first takes turns.
fn on_a_host(programs: &Programs, round: usize) -> Result<[f64; 3]> {
    let mut command = Command::new("unshare");
    command.args(["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]);
    command.args(["bash", "-c", HOST, "bash"]).args([&programs.netloom, &programs.own]);
    command.args((0..SIDES.len()).map(|turn| SIDES[(round + turn) % SIDES.len()]));
    let printed = Running::start(&mut command, "an ordinary user's lab")?.result()?;
    let rate = |side: &str| number(&printed, side).map(|rate| rate * 8.0 / 1e9);
    Ok([rate(SIDES[0])?, rate(SIDES[1])?, rate(SIDES[2])?])
}
