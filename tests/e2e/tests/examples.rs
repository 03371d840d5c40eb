//! Every example file comes up, those of its nodes reach each other that it lets, and it goes.

use std::time::Duration;

use netloom_tests_e2e::live::SOON;
use netloom_tests_e2e::{
    Machine, machine, needs, needs_cgroups, root_only, wait_until, workspace_root,
};
use serde_json::{Value, json};

/// The nodes that `status` shows.
fn up_and_ping(machine: &Machine, name: &str) -> usize {
    let file = workspace_root().join("examples").join(name);
    machine.up_file(&file);
    // What netloom makes is what the file says.
    let args = ["apply".as_ref(), "--check".as_ref(), file.as_os_str()];
    let check = machine.netloom(args).bound(Duration::from_secs(120)).finish();
    assert!(check.text().contains("is as the file says"), "{}", check.text());
    machine.all_reach_all();
    machine.status()["nodes"].as_array().map_or(0, Vec::len)
}

#[test]
fn torus() {
    let machine = machine!();
    assert_eq!(up_and_ping(&machine, "torus.yaml"), 100);
    machine.down();
}

#[test]
fn fat_tree() {
    let machine = machine!();
    assert!(up_and_ping(&machine, "fat-tree.yaml") >= 16);
    machine.down();
}

#[test]
fn dual_stack() {
    let machine = machine!();
    assert!(up_and_ping(&machine, "dual-stack.yaml") >= 2);
    machine.down();
}

#[test]
fn limits() {
    needs_cgroups!();
    let machine = machine!();
    assert!(up_and_ping(&machine, "limits.yaml") >= 1);
    machine.down();
}

#[test]
fn all_keys() {
    needs_cgroups!();
    needs!("libpcap");
    let machine = machine!();
    let text = std::fs::read_to_string(workspace_root().join("examples/all-keys.yaml"));
    let text = text.expect("the example");
    // Its ports of the host may be somebody's here.
    let [page, names, six] = [(); 3].map(|()| netloom_kit::free_port());
    let own =
        format!("ports: [{page}:8080, \"127.0.0.1:{names}:53/udp\", \"[::1]:{six}:8080/tcp\"]");
    let with = text
        .replace("ports: [18080:8080, \"127.0.0.1:18053:53/udp\", \"[::1]:18081:8080/tcp\"]", &own);
    assert_ne!(text, with);
    let folder = machine.scratch().path().join("examples");
    std::fs::create_dir(&folder).expect("make a folder");
    let file = folder.join("all-keys.yaml");
    std::fs::write(&file, with).expect("write it");
    machine.up_file(&file);
    // Some of its links lose packets, as it says: most of one request each come through.
    wait_until("most are answered", SOON, || {
        let asked = machine.netloom(["ping", "--all", "-4", "--json"]).finish();
        let families = asked.json()["families"].clone();
        eprintln!("{families}");
        let count = |key: &str| families[0][key].as_u64().expect("a count");
        (count("answered") * 10 >= count("asked") * 6).then_some(())
    });
    let page = machine.exec("server", &["curl", "-fsS", "http://localhost:8080/srv/a.txt"]).ok();
    assert_eq!(page, "the text itself\n");
    machine.down();
}

#[test]
fn tenants() {
    root_only!("protection and limits");
    let machine = machine!();
    assert_eq!(up_and_ping(&machine, "tenants.yaml"), 5);
    machine.down();
}

#[test]
fn shm_switch() {
    let machine = machine!();
    machine.up_file(&workspace_root().join("examples/shm-switch.yaml"));
    // Its VLANs let one pair through.
    let told = wait_until("the pair is answered", SOON, || {
        let told = machine.netloom(["ping", "--all", "-4", "--json"]).finish().json();
        let rtts = &told["families"][0]["rtt_us"];
        (rtts[0][1].is_number() && rtts[1][0].is_number()).then_some(told)
    });
    assert_eq!(told["nodes"], json!(["red1", "red2", "blue1", "watcher"]));
    let rtts = told["families"][0]["rtt_us"].as_array().expect("a row for each node");
    for (from, row) in rtts.iter().enumerate() {
        for (to, rtt) in row.as_array().expect("a time for each node").iter().enumerate() {
            let same_vlan = from != to && from < 2 && to < 2;
            assert_eq!(rtt.is_number(), same_vlan, "{from} to {to}: {told}");
        }
    }
    machine.down();
}

/// Hosts of an example on an OpenFlow switch reach each other; `told` holds for the switch before and after.
fn openflow(machine: &Machine, told: impl Fn(&Value) -> bool) {
    let switch = || machine.status()["switches"][0]["openflow"].clone();
    wait_until("the switch is as it is to be", Duration::from_secs(180), || {
        told(&switch()).then_some(())
    });
    for (from, to) in [("h1", "h2"), ("h2", "h3"), ("h3", "h1")] {
        // Controllers make their entries one by one.
        wait_until("an answer", Duration::from_secs(180), || {
            let ping = machine.exec(from, &["ping", "-4", "-c", "1", "-W", "1", to]).finish();
            (ping.status.code() == Some(0)).then_some(())
        });
    }
    let shown = switch();
    assert!(told(&shown), "{shown}");
    assert_eq!(shown["datapath"], "0000000000000001", "{shown}");
    assert_eq!(shown["controllers"][0]["controller"], "node:c0:6653", "{shown}");
}

/// tests/peers has what the controllers do.
#[test]
fn openflow_with_its_controllers() {
    needs!("os-ken", "faucet");
    for name in ["openflow.yaml", "openflow-faucet.yaml"] {
        let machine = machine!();
        machine.up_file(&workspace_root().join("examples").join(name));
        openflow(&machine, |switch| {
            switch["entries"].as_u64() > Some(0) && switch["standalone"] == false
        });
        machine.down();
    }
}

/// Where its controller is not installed, the switch is an ordinary one.
#[test]
fn openflow_without_its_controllers() {
    for name in ["openflow.yaml", "openflow-faucet.yaml"] {
        let machine = machine!();
        let examples = workspace_root().join("examples");
        let text = std::fs::read_to_string(examples.join(name)).expect("read the example");
        let folder = examples.display();
        // No program is found by such a name, and files are beside the example.
        let text = text
            .replace("python3 /usr/local/lib/netloom-peers", "nothing /nowhere")
            .replace("/usr/local/lib/netloom-peers", "/nowhere")
            .replace("from: openflow-", &format!("from: {folder}/openflow-"));
        machine.up(&text);
        openflow(&machine, |switch| switch["standalone"] == true);
        let runs = machine.exec("c0", &["sh", "-c", "cat /proc/[0-9]*/comm"]).ok();
        assert!(runs.lines().any(|name| name == "sleep"), "{runs}");
        machine.down();
    }
}

#[test]
fn no_example_is_forgotten() {
    // The doors have a test of their own: they need an interface to open. So have those that need
    // others' programs.
    let known = [
        "all-keys",
        "bgp",
        "bufferbloat",
        "ci-test",
        "doors",
        "dual-stack",
        "expect",
        "fat-tree",
        "frr-bgp",
        "frr-ospf",
        "image",
        "limits",
        "office",
        "openflow",
        "openflow-faucet",
        "plane-separation",
        "router",
        "shm-switch",
        "slices",
        "tenants",
        "torus",
        "two-sites",
        "vm",
        "vm-qemu",
    ];
    let mut others = vec![];
    for entry in std::fs::read_dir(workspace_root().join("examples")).expect("examples") {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if let Some(stem) = name.strip_suffix(".yaml").filter(|stem| !known.contains(stem)) {
            others.push(stem.to_owned());
        }
    }
    if !others.is_empty() {
        let machine = machine!();
        for stem in others {
            up_and_ping(&machine, &format!("{stem}.yaml"));
            machine.netloom(["down", "--all"]).finish().code(0);
        }
        machine.down();
    }
}

#[test]
fn guard_policies_are_good() {
    let machine = machine!();
    let policy = workspace_root().join("examples/guard/policy.yaml");
    let check =
        |words: &[&str]| machine.netloom(["guard", "check"]).args([&policy]).args(words).finish();
    assert!(check(&[]).code(0).text().contains("good: "));
    check(&["--", "/usr/bin/curl", "deb.debian.org:443"]).code(0);
    check(&["--", "/usr/bin/curl", "10.0.0.1:443"]).code(1);
    machine.untouched();
}
