//! What this machine and its user's rights allow, as far as it decides how links are made.

use std::path::Path;

use netloom_model::plan::form::Allowed;

/// Where taps are made.
const TUN: &str = "/dev/net/tun";

/// In a user namespace (`user`) no BPF program may be attached.
pub(crate) fn allowed(user: bool) -> Allowed {
    Allowed { programs: !user, taps: Path::new(TUN).exists() }
}
