//! Names in a topology that containerlab fills in.

use crate::Job;

/// Names that containerlab fills in.
pub(super) fn magic(job: &Job<'_>, text: &str, old: &str) -> String {
    let lab = format!("clab-{}", job.options.name);
    text.replace("__clabNodeName__", old)
        .replace("__clabNodeDir__", &format!("{lab}/{old}"))
        .replace("__clabDir__", &lab)
        .replace("__clabLabName__", &lab)
}
