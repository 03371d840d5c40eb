//! Three network namespaces and two veth pairs, made by `ip` and removed with the shell that made them: a router that netloom
//! has no part in.

use std::process::Command;

use anyhow::{Context, Result};

use super::place::Place;
use super::way::{A, AT_A, AT_B, B};
use crate::driver::Driver;
use crate::machine::is_root;
use crate::running::Running;

/// Its arguments are a file for the processes' numbers and the addresses. Ends with its standard input.
const SCRIPT: &str = r#"
set -eu
own=$(readlink /proc/self/ns/net)
setpriv --pdeathsig KILL unshare --net sleep 36000 &
a=$!
setpriv --pdeathsig KILL unshare --net sleep 36000 &
b=$!
for pid in $a $b; do
    until [ "$(readlink /proc/$pid/ns/net)" != "$own" ]; do kill -0 $pid; done
done
ip link add eth0 type veth peer name eth0 netns $a
ip link add eth1 type veth peer name eth0 netns $b
ip addr add "$4/24" dev eth0
ip addr add "$5/24" dev eth1
ip link set lo up
ip link set eth0 up
ip link set eth1 up
echo 1 >/proc/sys/net/ipv4/ip_forward
end() {
    nsenter --target "$1" --net ip addr add "$2/24" dev eth0
    nsenter --target "$1" --net ip link set lo up
    nsenter --target "$1" --net ip link set eth0 up
    nsenter --target "$1" --net ip route add default via "$3"
}
end $a "$2" "$4"
end $b "$3" "$5"
echo "$a $b $$" >"$1"
echo ready
cat >/dev/null
"#;

/// The namespaces of both ends and the router, and what keeps them.
pub(super) struct Bare {
    pub(super) places: [Place; 3],
    pub(super) running: Running,
}

impl Bare {
    pub(super) fn up(driver: &Driver) -> Result<Bare> {
        let file = driver.folder().join("bare");
        let mut command = Command::new("unshare");
        if !is_root() {
            command.args(["--user", "--map-root-user"]);
        }
        command.args(["--net", "--kill-child", "--fork", "sh", "-c", SCRIPT, "sh"]).arg(&file);
        let running =
            Running::start(command.args([A, B, AT_A, AT_B]), "namespaces by ip")?.ready()?;
        let text = std::fs::read_to_string(&file).context("read the namespaces' processes")?;
        let pids: Vec<u32> = text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect();
        let places = <[u32; 3]>::try_from(pids).ok().context("three namespaces")?;
        Ok(Bare { places: places.map(|pid| Place::of(driver, pid)), running })
    }
}
