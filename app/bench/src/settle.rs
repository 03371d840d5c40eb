//! Waiting until the kernel has taken apart what the last round left.
//!
//! Namespaces are destroyed one batch after another by one worker. A veth pair with one end in a
//! namespace that dies now loses its other end after all that died before: when it has gone, so have
//! they. All of it happens in namespaces of its own.

use std::process::Command;

use anyhow::Result;

use crate::driver;
use crate::machine::is_root;

/// The inner namespace is known to be another one before an end is moved there.
const SCRIPT: &str = r#"
set -eu
own=$(readlink /proc/self/ns/net)
unshare --net sleep 60 &
pid=$!
trap 'kill $pid 2>/dev/null || :' EXIT
until [ "$(readlink /proc/$pid/ns/net)" != "$own" ]; do kill -0 $pid; done
ip link add first type veth peer name second
ip link set second netns $pid
kill $pid
wait $pid || :
while ip link show first >/dev/null 2>&1; do sleep 0.01; done
"#;

/// Returns when earlier namespaces are gone.
pub(crate) fn settle() -> Result<()> {
    let mut command = Command::new("timeout");
    command.args(["60", "unshare"]);
    if !is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    driver::output(command.args(["--net", "sh", "-c", SCRIPT]))?;
    Ok(())
}
