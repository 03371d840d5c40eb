//! Manifests of Kubernetes for the hosts of a lab: a pod is a host, which makes one part, whatever number of nodes that has.
//!
//! Kubernetes is told nothing of nodes and links. It places pods, keeps room for them, and starts them again; `netloom up --on` brings
//! the lab up over them, as over any hosts. Specification: the API's `Job` (`batch/v1`) and `ConfigMap` (`v1`).

use std::fmt::Write as _;

use netloom_config::printable;

use crate::write::{quoted, scalar};

/// The container that agents are started in.
pub const CONTAINER: &str = "netloom";

/// The annotation that tells a pod's place in its job, from 0.
pub const INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// Longest name of a job, so that the names of its pods are no longer than 63: an index and five letters follow.
const LONGEST: usize = 48;

/// What is asked of Kubernetes.
#[derive(Clone, Copy, Debug)]
pub struct Pods<'a> {
    /// The lab's name.
    pub lab: &'a str,
    /// The text of its file, for those who look into a pod.
    pub file: &'a str,
    /// How many parts it has.
    pub parts: u32,
    /// The image, which has netloom.
    pub image: &'a str,
    /// The most bytes of memory that any part needs.
    pub memory: u64,
    /// The most thousandths of CPUs that any part needs.
    pub cpu_milli: u64,
}

/// The name of the job of a lab: letters, digits and `-`. Labs whose names are written otherwise differ in the end of it.
pub fn job_name(lab: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let name: String = lab.chars().map(plain).collect();
    let whole = format!("netloom-{}", name.trim_matches('-'));
    if name == lab && whole.len() <= LONGEST && !name.ends_with('-') {
        return whole;
    }
    let kept: String = whole.chars().take(LONGEST - 9).collect();
    let mark = lab
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    format!("{}-{mark:08x}", kept.trim_end_matches('-'))
}

/// The name of the host of a part in a hosts file.
pub fn host_name(part: usize) -> String {
    format!("part-{part}")
}

impl Pods<'_> {
    /// The manifests.
    pub fn manifests(&self) -> String {
        let name = job_name(self.lab);
        let labels = format!(
            "{{app.kubernetes.io/name: netloom, app.kubernetes.io/instance: {}}}",
            scalar(&name)
        );
        let mut out = String::from("# Made by `netloom export kubernetes`.\n");
        let _ = write!(
            out,
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  labels: {labels}\ndata:\n  lab.yaml: {}\n---\n",
            block(self.file, 2)
        );
        let _ = write!(
            out,
            "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: {name}\n  labels: {labels}\nspec:\n  \
             # A pod a part, whose place is its index.\n  completionMode: Indexed\n  completions: {parts}\n  \
             parallelism: {parts}\n  template:\n    metadata:\n      labels: {labels}\n    spec:\n      \
             restartPolicy: OnFailure\n      terminationGracePeriodSeconds: 5\n      \
             # Parts on one machine would share what they are divided for.\n      topologySpreadConstraints:\n        \
             - maxSkew: 1\n          topologyKey: kubernetes.io/hostname\n          whenUnsatisfiable: ScheduleAnyway\n          \
             labelSelector:\n            matchLabels: {labels}\n      containers:\n        - name: {CONTAINER}\n          \
             image: {image}\n          # Agents are started beside it, by `kubectl exec`.\n          \
             command: [sleep, infinity]\n          # Namespaces, mounts, interfaces and BPF programs of nodes.\n          \
             securityContext: {{privileged: true}}\n          resources:\n            requests: {requests}\n          \
             volumeMounts:\n            - {{name: lab, mountPath: /lab, readOnly: true}}\n            \
             - {{name: run, mountPath: /run}}\n      volumes:\n        - {{name: lab, configMap: {{name: {name}}}}}\n        \
             - {{name: run, emptyDir: {{medium: Memory}}}}\n",
            parts = self.parts,
            image = scalar(self.image),
            requests = self.requests(),
        );
        out
    }

    fn requests(&self) -> String {
        let memory = format!("memory: {}Mi", self.memory.div_ceil(1 << 20).max(1));
        match self.cpu_milli {
            0 => format!("{{{memory}}}"),
            cpu => format!("{{{memory}, cpu: {cpu}m}}"),
        }
    }
}

/// A text as the value of a key that is `deep` spaces deep: as it is, where YAML gives it back so.
pub(crate) fn block(text: &str, deep: usize) -> String {
    let plain = |line: &str| printable::line(line) == line && !line.ends_with(' ');
    let whole = text.ends_with('\n') && !text.ends_with("\n\n") && text.len() > 1;
    if !whole || !text.lines().all(plain) || text.contains('\r') {
        return quoted(text);
    }
    let mut out = "|2".to_owned();
    for line in text.lines() {
        out.push('\n');
        if !line.is_empty() {
            let _ = write!(out, "{:1$}{line}", "", deep + 2);
        }
    }
    out
}

/// A pod that makes a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// Its name.
    pub name: String,
    /// The name of its namespace.
    pub namespace: String,
    /// Its address.
    pub address: String,
}

/// The hosts file of pods, by their parts.
pub fn hosts(pods: &[Pod], mtu: u32) -> String {
    let mut out = String::from("# Made by `netloom export kubernetes`.\nhosts:\n");
    for (part, pod) in pods.iter().enumerate() {
        let Pod { name, namespace, address } = pod;
        let words = [
            "kubectl",
            "exec",
            "--namespace",
            namespace,
            "--stdin",
            name,
            "--container",
            CONTAINER,
            "--",
            "netloom",
            "agent",
            "--stdio",
        ];
        let words: Vec<String> = words.iter().map(|word| scalar(word)).collect();
        let _ = write!(
            out,
            "  {}:\n    underlay: {{address: {}, mtu: {mtu}}}\n    agent: [{}]\n",
            host_name(part),
            scalar(address),
            words.join(", ")
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_kubernetes_and_differ() {
        assert_eq!(job_name("campus"), "netloom-campus");
        let long = "long".repeat(12);
        let labs = ["Campus", "a_b", "a-b", "A-b", "a.b", "x-", "x", &long, &format!("{long}e")];
        let names: std::collections::BTreeSet<String> =
            labs.iter().map(|lab| job_name(lab)).collect();
        assert_eq!(names.len(), labs.len(), "{names:?}");
        for name in names {
            assert!(name.len() <= LONGEST && name.starts_with("netloom-"), "{name}");
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            assert!(name.chars().all(plain) && !name.ends_with('-'), "{name}");
        }
    }

    #[test]
    fn a_lab_file_stands_as_it_is_where_yaml_gives_it_back() {
        assert_eq!(
            block("nodes:\n  a: {}\n\nlinks: []\n", 2),
            "|2\n    nodes:\n      a: {}\n\n    links: []"
        );
        for other in ["nodes: {}", "a: 1 \n", "a:\r\n", "\n", "a: 1\n\n", "a: \u{7}\n"] {
            assert_eq!(block(other, 2), quoted(other));
        }
    }

    #[test]
    fn hosts_are_reached_by_kubectl_without_a_shell() {
        let pod = Pod {
            name: "netloom-l-0-x7k2p".into(),
            namespace: "default".into(),
            address: "10.1.2.3".into(),
        };
        let text = hosts(&[pod], 1450);
        assert!(
            text.contains("  part-0:\n    underlay: {address: \"10.1.2.3\", mtu: 1450}\n"),
            "{text}"
        );
        assert!(
            text.contains(
                "[kubectl, exec, \"--namespace\", default, \"--stdin\", netloom-l-0-x7k2p, "
            ),
            "{text}"
        );
    }
}
