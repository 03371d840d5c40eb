//! Waits until the kernel has torn down the previous round.
//!
//! One worker destroys namespaces in batches, one after another. A veth pair with one end in a namespace that
//! dies now loses its other end after all namespaces that died before: once it is gone, so are they. All of
//! it happens in separate namespaces.

use std::process::Command;

use anyhow::Result;

use crate::driver;
use crate::machine::is_root;

/// An end moves into the inner namespace only once that is known to be a different one.
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

/// Returns once earlier namespaces are gone.
pub(crate) fn settle() -> Result<()> {
    let mut command = Command::new("timeout");
    command.args(["60", "unshare"]);
    if !is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    driver::output(command.args(["--net", "sh", "-c", SCRIPT]))?;
    Ok(())
}
