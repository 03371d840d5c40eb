//! A device of Kathara: its options, its folder and its scripts.

use crate::draft::Node;
use crate::kathara::options::{self, Made};
use crate::kathara::startup;
use crate::kathara::{Device, folder};
use crate::write::scalar;
use crate::{Job, Verdict};

/// Reads a device; `name` is Kathara's, `new` the lab file's.
pub(super) fn read(job: &Job<'_>, name: &str, new: &str, device: &Device) -> Made {
    let mut made = Made { node: Node::named(new), shaping: vec![], bridged: false };
    let node = &mut made.node;
    node.forwarding = Some(if device.ipv6 { "true" } else { "ipv4" });
    // Settings that Kathara gives its containers.
    node.sysctls.insert("net.ipv4.icmp_ratelimit".into(), "0".into());
    if device.ipv6 {
        node.sysctls.insert("net.ipv6.icmp.ratelimit".into(), "0".into());
    } else {
        for scope in ["all", "default"] {
            node.sysctls.insert(format!("net.ipv6.conf.{scope}.disable_ipv6"), "1".into());
        }
    }
    let options = options::lasting(job, device);
    // What runs before the startup files needs to know of it.
    if let Some(image) = options::of(&options, "image") {
        if !job.options.host_programs {
            node.key("image", scalar(image));
        }
        if ["frr", "quagga", "bird"].iter().any(|name| image.contains(name)) {
            node.key("privileged", "true");
        }
    }
    let shell = options::of(&options, "shell");
    folder::share(job, node);
    folder::copy(job, name, node);
    startup::read(job, ("shared.startup", shell), node, &mut made.shaping);
    startup::read(job, (&format!("{name}.startup"), shell), node, &mut made.shaping);
    startup::shutdown(job, &format!("{name}.shutdown"));
    startup::shutdown(job, "shared.shutdown");
    options::read(job, &options, &mut made);
    if !job.options.host_programs && options::of(&options, "image").is_none() {
        // `DEFAULTS` of Kathara's settings, which its user may have changed. Said last: what else a line says counts more.
        let why =
            "no image: the host's programs, where Kathara has its default image, kathara/base";
        device
            .lines
            .first()
            .iter()
            .for_each(|id| job.ledger.say(**id, Verdict::Changed(why.into())));
    }
    made
}
