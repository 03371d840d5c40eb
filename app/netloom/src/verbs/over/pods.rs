//! `export kubernetes`: a job with a pod for each part of a lab, and the hosts file of the pods that it made.

use std::net::{IpAddr, Ipv4Addr};

use anyhow::{Context, Result};
use netloom_foreign::kubernetes::{self, INDEX, Pod, Pods};
use netloom_model::{Agent, Host, Hosts};
use netloom_placement::{account, place};
use serde_json::Value;

use super::verbs::check_across;
use crate::flags::ExportKubernetes;
use crate::verbs::foreign;
use crate::{Usage, output, source};

/// `netloom export kubernetes`
pub(crate) fn export(args: &ExportKubernetes) -> Result<i32> {
    let text = match &args.pods {
        None => manifests(args)?,
        Some(pods) => {
            let shown = source::shown(pods);
            let found = read(&source::read(pods)?, args.parts);
            let pods = found.map_err(|problem| Usage(format!("{shown}: {problem}")))?;
            kubernetes::hosts(&pods, args.pod_mtu)
        }
    };
    match &args.output {
        Some(output) => foreign::write(output, &text, true)?,
        None => output::print(&text)?,
    }
    Ok(0)
}

/// Hosts that are to be: names decide what is where, addresses nothing.
fn planned(parts: u32, mtu: u32) -> Hosts {
    let host = |part: u32| Host {
        name: kubernetes::host_name(usize::try_from(part).unwrap_or_default()),
        ssh: netloom_model::hosts::Ssh::default(),
        agent: Agent::Ssh,
        // Of the network for tests (RFC 2544).
        underlay: IpAddr::V4(Ipv4Addr::from_bits(Ipv4Addr::new(198, 18, 0, 0).to_bits() + part)),
        mtu,
        memory: None,
        cpu_milli: None,
    };
    Hosts { list: (0..parts).map(host).collect() }
}

fn manifests(args: &ExportKubernetes) -> Result<String> {
    let bytes = source::read(&args.file)?;
    let file = String::from_utf8(bytes).context("the lab file is not UTF-8")?;
    let shown = source::shown(&args.file);
    let (lab, plan, hints) = source::checked(&args.file)?;
    let hosts = planned(args.parts, args.pod_mtu);
    let placement = place(&plan, &lab.place, &hosts, None).map_err(|errors| {
        let lines: Vec<String> = errors.iter().map(|e| format!("{shown}: error: {e}")).collect();
        Usage(format!("{}\nthe hosts are part-0 to part-{}", lines.join("\n"), args.parts - 1))
    })?;
    check_across(&plan, &placement).map_err(Usage)?;
    let found = account(&plan, &lab.place, &hosts, &placement);
    for warning in hints.iter().chain(&found.warnings) {
        tell_line!("warning: {warning}");
    }
    let most = |of: fn(&netloom_placement::HostAccount) -> u64| found.hosts.iter().map(of).max();
    let pods = Pods {
        lab: &plan.lab,
        file: &file,
        parts: args.parts,
        image: &args.image,
        memory: most(|host| host.memory).unwrap_or_default(),
        cpu_milli: most(|host| host.cpu_milli).unwrap_or_default(),
    };
    Ok(pods.manifests())
}

/// The pods of a job, by their index.
fn read(bytes: &[u8], parts: u32) -> Result<Vec<Pod>, String> {
    let found: Value = serde_json::from_slice(bytes)
        .map_err(|e| format!("not JSON: {e}; write it by `kubectl get pods -o json`"))?;
    let items = found["items"].as_array();
    let items = items.ok_or("no list of pods; write it by `kubectl get pods -o json`")?;
    let count = usize::try_from(parts).unwrap_or(usize::MAX);
    let mut pods: Vec<Option<Pod>> = vec![None; count];
    for item in items {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let name = text(&item["metadata"]["name"]);
        let phase = text(&item["status"]["phase"]);
        // Those that were started again leave these behind.
        if ["Failed", "Succeeded"].contains(&phase.as_str())
            || !item["metadata"]["deletionTimestamp"].is_null()
        {
            continue;
        }
        let index = item["metadata"]["annotations"][INDEX].as_str();
        let index: usize = index.and_then(|index| index.parse().ok()).ok_or_else(|| {
            format!("pod {name:?} has no annotation {INDEX}: it is of no indexed job")
        })?;
        let address = text(&item["status"]["podIP"]);
        if phase != "Running" || address.parse::<IpAddr>().is_err() {
            return Err(format!("pod {name:?} is {phase}, without an address; wait until it runs"));
        }
        let pod = Pod { namespace: text(&item["metadata"]["namespace"]), address, name };
        let slot = pods.get_mut(index).ok_or_else(|| {
            format!(
                "pod {:?} is for part {index}, and there are {parts}: --parts {}",
                pod.name,
                index + 1
            )
        })?;
        if let Some(other) = slot {
            return Err(format!(
                "pods {:?} and {:?} are both for part {index}",
                other.name, pod.name
            ));
        }
        *slot = Some(pod);
    }
    let missing = pods.iter().position(Option::is_none);
    match missing {
        Some(part) => Err(format!("no pod runs for part {part}")),
        None => Ok(pods.into_iter().flatten().collect()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(index: &str, phase: &str) -> Value {
        json!({
            "metadata": {
                "name": format!("netloom-l-{index}-abcde"),
                "namespace": "labs",
                "annotations": {INDEX: index},
            },
            "status": {"phase": phase, "podIP": format!("10.244.1.{index}")},
        })
    }

    fn of(pods: &[Value], parts: u32) -> Result<Vec<Pod>, String> {
        read(json!({"items": pods}).to_string().as_bytes(), parts)
    }

    #[test]
    fn pods_are_hosts_in_the_order_of_their_parts() {
        let pods = of(&[pod("1", "Running"), pod("0", "Failed"), pod("0", "Running")], 2).unwrap();
        assert_eq!(pods[0].address, "10.244.1.0");
        assert_eq!(
            pods[1],
            Pod {
                name: "netloom-l-1-abcde".into(),
                namespace: "labs".into(),
                address: "10.244.1.1".into(),
            }
        );
        let text = kubernetes::hosts(&pods, 1450);
        let hosts = netloom_model::parse_hosts("h", text.as_bytes()).unwrap();
        assert_eq!(hosts.list.len(), 2);
        assert_eq!((hosts.list[1].name.as_str(), hosts.list[1].mtu), ("part-1", 1450));
        let Agent::Command(words) = &hosts.list[1].agent else { panic!("{text}") };
        assert_eq!(
            words[..6],
            ["kubectl", "exec", "--namespace", "labs", "--stdin", "netloom-l-1-abcde"]
        );
        // They are those for which the parts were reckoned.
        let names = |hosts: &Hosts| hosts.list.iter().map(|h| h.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&hosts), names(&planned(2, 1450)));
    }

    #[test]
    fn pods_that_cannot_be_hosts_are_named() {
        let refused = |pods: &[Value], words: &str| {
            let told = of(pods, 2).unwrap_err();
            assert!(told.contains(words), "{told}");
        };
        refused(&[pod("0", "Running")], "no pod runs for part 1");
        refused(&[pod("0", "Pending"), pod("1", "Running")], "\"netloom-l-0-abcde\" is Pending");
        refused(&[pod("2", "Running")], "--parts 3");
        refused(&[pod("0", "Running"), pod("0", "Running")], "are both for part 0");
        let mut bare = pod("0", "Running");
        bare["metadata"]["annotations"] = json!({});
        refused(&[bare], "is of no indexed job");
        assert!(read(b"NAME READY", 1).unwrap_err().contains("kubectl get pods -o json"));
        assert!(read(b"{}", 1).unwrap_err().contains("no list of pods"));
    }
}
