//! Open vSwitch's userspace switch in a node's network, with interfaces of it as ports 1 and on.
//!
//! It lives in the host's file system, so that its OpenFlow socket can be reached, and ends with the shell that started it.

use std::path::Path;

use anyhow::{Context, Result};

use crate::driver::{Driver, output};
use crate::inside::inside;
use crate::running::Running;

/// Its arguments are its folder, where a controller may listen (empty: it forwards as any switch), and its ports. Ends
/// with its standard input.
const SCRIPT: &str = r#"
set -eu
folder=$1
controller=$2
shift 2
mode=standalone
[ -z "$controller" ] || mode=secure
mkdir -p "$folder"
export OVS_RUNDIR="$folder" OVS_LOGDIR="$folder" OVS_DBDIR="$folder"
socket="unix:$folder/db.sock"
{
ovsdb-tool create "$folder/conf.db" /usr/share/openvswitch/vswitch.ovsschema
setpriv --pdeathsig TERM ovsdb-server "$folder/conf.db" --remote="p$socket" &
until [ -S "$folder/db.sock" ]; do kill -0 $!; sleep 0.02; done
ovs-vsctl --no-wait --db="$socket" init
setpriv --pdeathsig TERM ovs-vswitchd "$socket" --disable-system &
ovs-vsctl --timeout=10 --db="$socket" add-br br0 -- set bridge br0 datapath_type=netdev fail-mode=$mode \
    protocols=OpenFlow10,OpenFlow13
number=1
for port in "$@"; do
ovs-vsctl --timeout=10 --db="$socket" add-port br0 "$port" -- set interface "$port" ofport_request=$number
number=$((number + 1))
done
[ -z "$controller" ] || ovs-vsctl --timeout=10 --db="$socket" set-controller br0 "unix:$controller" -- \
    set controller br0 connection_mode=out-of-band max_backoff=1000 inactivity_probe=0
} >"$folder/said" 2>&1 || { cat "$folder/said" >&2; exit 1; }
echo ready
cat >/dev/null
"#;

/// Starts it in a node; its OpenFlow socket is `br0.mgmt` in the folder. Without a controller it learns addresses itself.
pub(crate) fn start(
    driver: &Driver,
    lab: &str,
    node: &str,
    folder: &Path,
    ports: &[String],
    controller: Option<&Path>,
) -> Result<Running> {
    let mut command = inside(driver, lab, node, "sh")?;
    command.args(["-c", SCRIPT, "sh"]).arg(folder).arg(controller.unwrap_or(Path::new("")));
    Running::start(command.args(ports), "Open vSwitch")?.ready().context("start Open vSwitch")
}

/// Takes addresses and offloads from a node's links, to give these to the switch.
pub(crate) fn clear(driver: &Driver, lab: &str, node: &str, links: &[String]) -> Result<()> {
    for interface in links {
        output(
            driver
                .command()
                .args(["-l", lab, "exec", node, "--"])
                .args(["ip", "addr", "flush", "dev", interface]),
        )?;
        driver.peer(lab, node, &["offloads-off", interface])?.result()?;
    }
    Ok(())
}
