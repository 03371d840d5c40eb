//! Open vSwitch's userspace switch in a node's network, with its two links as ports 1 and 2.
//!
//! It lives in the host's file system, so that its OpenFlow socket can be reached, and ends with the shell that started it.

use std::path::Path;

use anyhow::{Context, Result};

use crate::driver::{Driver, output};
use crate::inside::inside;
use crate::running::Running;

/// Its arguments are its folder, and where a controller may listen. Ends with its standard input.
const SCRIPT: &str = r#"
set -eu
folder=$1
mkdir -p "$folder"
export OVS_RUNDIR="$folder" OVS_LOGDIR="$folder" OVS_DBDIR="$folder"
socket="unix:$folder/db.sock"
{
ovsdb-tool create "$folder/conf.db" /usr/share/openvswitch/vswitch.ovsschema
setpriv --pdeathsig TERM ovsdb-server "$folder/conf.db" --remote="p$socket" &
until [ -S "$folder/db.sock" ]; do kill -0 $!; sleep 0.02; done
ovs-vsctl --no-wait --db="$socket" init
setpriv --pdeathsig TERM ovs-vswitchd "$socket" --disable-system &
ovs-vsctl --timeout=10 --db="$socket" add-br br0 -- set bridge br0 datapath_type=netdev fail-mode=secure \
    protocols=OpenFlow10,OpenFlow13 -- \
    add-port br0 eth0 -- set interface eth0 ofport_request=1 -- \
    add-port br0 eth1 -- set interface eth1 ofport_request=2
ovs-vsctl --timeout=10 --db="$socket" set-controller br0 "unix:$2" -- \
    set controller br0 connection_mode=out-of-band max_backoff=1000 inactivity_probe=0
} >"$folder/said" 2>&1 || { cat "$folder/said" >&2; exit 1; }
echo ready
cat >/dev/null
"#;

/// Starts it in a node; its OpenFlow socket is `br0.mgmt` in the folder.
pub(super) fn start(
    driver: &Driver,
    lab: &str,
    node: &str,
    folder: &Path,
    controller: &Path,
) -> Result<Running> {
    for interface in ["eth0", "eth1"] {
        output(
            driver
                .command()
                .args(["-l", lab, "exec", node, "--"])
                .args(["ip", "addr", "flush", "dev", interface]),
        )?;
        driver.peer(lab, node, &["offloads-off", interface])?.result()?;
    }
    let mut command = inside(driver, lab, node, "sh")?;
    command.args(["-c", SCRIPT, "sh"]).arg(folder).arg(controller);
    Running::start(&mut command, "Open vSwitch")?.ready().context("start Open vSwitch")
}
