//! Open vSwitch's userspace datapath in its own node, with a link to every station.

use anyhow::Result;

use crate::driver::Driver;
use crate::running::Running;

/// The node it runs in.
pub(super) const NODE: &str = "ovs";

/// Its argument is the number of its node's links: eth0, eth1, ... Ends with its standard input.
const SCRIPT: &str = r#"
set -eu
folder=$(mktemp -d)
export OVS_RUNDIR="$folder" OVS_LOGDIR="$folder" OVS_DBDIR="$folder"
socket="unix:$folder/db.sock"
pids=
trap 'kill $pids 2>/dev/null || :; wait || :; rm -rf "$folder"' EXIT
{
ovsdb-tool create "$folder/conf.db" /usr/share/openvswitch/vswitch.ovsschema
ovsdb-server "$folder/conf.db" --remote="p$socket" &
pids="$pids $!"
until [ -S "$folder/db.sock" ]; do kill -0 $!; sleep 0.02; done
ovs-vsctl --no-wait --db="$socket" init
ovs-vswitchd "$socket" --disable-system &
pids="$pids $!"
ovs-vsctl --timeout=10 --db="$socket" add-br br0 -- \
    set bridge br0 datapath_type=netdev fail-mode=standalone
number=0
while [ "$number" -lt "$1" ]; do
    ip addr flush dev "eth$number"
    ovs-vsctl --timeout=10 --db="$socket" add-port br0 "eth$number"
    number=$((number + 1))
done
} >"$folder/said" 2>&1 || { cat "$folder/said" >&2; exit 1; }
echo ready
cat >/dev/null
"#;

/// Starts it on the links to this many stations.
pub(super) fn start(driver: &Driver, lab: &str, links: usize) -> Result<Running> {
    for number in 0..links {
        let interface = format!("eth{number}");
        driver.peer(lab, NODE, &["offloads-off", &interface])?.result()?;
    }
    let mut command = driver.command();
    let links = links.to_string();
    command.args(["-l", lab, "exec", NODE, "--", "sh", "-c", SCRIPT, "sh", &links]);
    Running::start(&mut command, "Open vSwitch")?.ready()
}
