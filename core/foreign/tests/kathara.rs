//! Kathara's folders.

use netloom_foreign::{Files, Found, Memory, NOT_CHOSEN, Options, Verdict, import};

use super::labs::{files, imported, plan, refused, verdict, with_images};

#[test]
fn devices_forward_and_have_their_files() {
    let import = imported(&files("kathara"), "lab.conf");
    let plan = plan(&import);
    assert_eq!(plan.lab, "two-lans");
    let node = |name: &str| &plan.nodes[plan.node(name).unwrap().get()];
    let sysctl = |name: &str, key: &str| {
        let found = node(name).sysctls.iter().rfind(|(path, _)| path.replace('/', ".") == key);
        found.map(|(_, value)| value.clone())
    };
    assert!(node("web").forwarding.ipv4() && !node("web").forwarding.ipv6());
    assert!(node("pc1").forwarding.ipv4() && node("pc1").forwarding.ipv6());
    assert_eq!(sysctl("web", "net.ipv6.conf.all.disable_ipv6").as_deref(), Some("1"));
    let paths: Vec<&str> = node("r1").files.iter().map(|f| f.path.as_str()).collect();
    assert!(
        paths.contains(&"/etc/frr/frr.conf")
            && paths.contains(&"/run/netloom-import/bin/systemctl")
    );
    assert_eq!(node("r1").interfaces[0].mac, [2, 0, 0, 0, 0, 0x11]);
    assert_eq!(node("r1").interfaces[1].name, "eth1");
}

#[test]
fn shaping_of_a_startup_file_is_the_links() {
    let import = imported(&files("kathara"), "lab.conf");
    let plan = plan(&import);
    let link = plan.links.iter().find(|link| link.name.starts_with("pc1:eth0")).unwrap();
    assert_eq!(link.impairments[0].delay.as_millis(), 20);
    assert!(link.impairments[1].delay.is_zero());
    let item = "tc qdisc add dev eth0 root netem delay 20ms loss 1%";
    assert!(matches!(verdict(&import, item), Verdict::Changed(_)));
}

#[test]
fn only_devices_that_are_chosen_are_there() {
    let options = Options { only: vec!["web".into(), "r1".into()], ..Options::default() };
    let made = import(&files("kathara"), "lab.conf", &options).unwrap();
    let plan = plan(&made);
    assert_eq!(plan.nodes.iter().map(|n| n.name.as_str()).collect::<Vec<_>>(), ["r1", "web"]);
    let chosen = Verdict::LeftOut(NOT_CHOSEN.into());
    let out = made.items.iter().filter(|item| item.verdict == chosen);
    let out: Vec<(&str, u32)> = out.map(|item| (item.file.as_str(), item.line)).collect();
    let want = [("lab.conf", 4), ("lab.conf", 5), ("lab.conf", 6), ("lab.conf", 7)];
    assert_eq!(out[..4], want);
    assert_eq!(out[4..], [("pc1", 0), ("pc1.startup", 0)]);
}

#[test]
fn devices_that_wait_in_a_circle_are_refused() {
    let files = Memory::of("lab.conf", "a[0]=A\nb[0]=A\n").with("lab.dep", "# order\na: b\nb: a\n");
    let error = import(&files, "lab.conf", &Options::default()).unwrap_err().to_string();
    assert_eq!(error, "lab.dep:2: error: devices wait for each other in a circle: a for b");
}

#[test]
fn every_bridged_device_has_a_door() {
    let text: String = (0..258).map(|n| format!("d{n}[bridged]=true\n")).collect();
    let import = imported(&Memory::of("lab.conf", text.as_str()), "lab.conf");
    let plan = plan(&import);
    assert_eq!(plan.links.len(), 258);
    let address = |at: usize| plan.nodes[at].interfaces[0].addresses[0].to_string();
    let found = [0, 1, 255, 256, 257].map(address);
    let of = |third: u8, fourth: u8| format!("172.17.{third}.{fourth}/30");
    assert_eq!(found, [of(0, 2), of(1, 2), of(255, 2), of(0, 6), of(1, 6)]);
    assert_eq!(plan.nodes[257].routes[0].via.unwrap().to_string(), "172.17.1.5");
    assert_eq!(verdict(&import, "d257[bridged]=\"true\""), Verdict::Carried);
}

#[test]
fn an_interface_of_the_host_is_a_door() {
    let files = Memory::of("lab.conf", "a[0]=A\na[1]=B\na[bridged]=true\n")
        .with("lab.ext", "A eth7\nB eth7.20\nC eth8\n");
    let import = imported(&files, "lab.conf");
    let plan = plan(&import);
    let ends: Vec<String> = plan.links.iter().map(|l| plan.end_text(&l.ends[1])).collect();
    assert_eq!(ends, ["A", "B", "internet", "host:eth7"]);
    assert_eq!(plan.nodes[0].interfaces[2].addresses[0].to_string(), "172.17.0.2/30");
    assert_eq!(plan.nodes[0].routes[0].via.unwrap().to_string(), "172.17.0.1");
    assert!(matches!(verdict(&import, "B eth7.20"), Verdict::LeftOut(_)));
    assert!(matches!(verdict(&import, "C eth8"), Verdict::LeftOut(_)));
}

#[test]
fn wrong_lines_are_refused() {
    for (text, want) in [
        ("a[0]=A\nwhat\n", "lab.conf:2: error: expected DEVICE"),
        ("a[0]=A\na[0]=B\n", "lab.conf:2: error: interface 0 of this device is given twice"),
        ("a[0]=\"A\n", "lab.conf:1: error: a quote is not closed"),
    ] {
        let error = refused("lab.conf", text);
        assert!(error.starts_with(want), "{error}");
    }
}

#[test]
fn options_without_an_equal_are_left_out() {
    let text = "a[0]=A\na[sysctl]=\"kernel.a=1\"\na[mem]=x\na[1]=A\na[nonsense]=1\n";
    let import = imported(&Memory::of("lab.conf", text), "lab.conf");
    let out = import.left_out().count();
    assert_eq!(out, 3, "{:#?}", import.items);
    assert!(matches!(verdict(&import, "a[nonsense]=\"1\""), Verdict::Changed(_)));
}

#[test]
fn devices_have_their_images_and_what_they_share() {
    let files = files("kathara").with("shared/a", "x");
    let import = with_images(&files, "lab.conf");
    let plan = plan(&import);
    let node = |name: &str| &plan.nodes[plan.node(name).unwrap().get()];
    assert_eq!(node("r1").image.as_ref().unwrap().name, "kathara/frr:latest");
    assert!(node("r1").privileged);
    assert!(node("web").image.is_none());
    let bind = &node("web").binds[0];
    assert_eq!((bind.to.as_str(), bind.write), ("/shared", true));
    // Kathara's images have a systemctl of their own.
    assert!(node("r1").files.iter().all(|file| !file.path.ends_with("/systemctl")));
}

#[test]
fn ports_of_the_host_are_carried() {
    let import = imported(&files("kathara"), "lab.conf");
    let plan = plan(&import);
    let web = &plan.nodes[plan.node("web").unwrap().get()];
    assert_eq!(web.ports.iter().map(|p| p.to_string()).collect::<Vec<_>>(), ["8080:80"]);
    let text = "a[0]=A\na[port]=\"80\"\na[port]=\"5353:53/udp\"\nb[0]=A\nb[port]=\"80\"\na[bridged]=true\nb[bridged]=true\n";
    let import = imported(&Memory::of("lab.conf", text), "lab.conf");
    let said: Vec<_> = import.items.iter().filter(|i| i.item.contains("port")).collect();
    let verdicts: Vec<_> = said.iter().map(|i| (i.line, i.verdict.clone())).collect();
    assert!(
        matches!(&verdicts[..], [(2, Verdict::Changed(_)), (3, Verdict::Changed(_)), (5, Verdict::LeftOut(why))] if why.contains("port 3000")),
        "{verdicts:?}"
    );
    assert!(import.lab.contains("ports: [\"3000:80\", \"5353:53/udp\"]"), "{}", import.lab);
}

/// What a node of a lab says, by its path of keys.
fn told(import: &netloom_foreign::Import, line: u32) -> String {
    let found = import.items.iter().find(|item| item.file == "lab.conf" && item.line == line);
    found.unwrap_or_else(|| panic!("line {line}: {:#?}", import.items)).to_string()
}

#[test]
fn the_last_of_a_repeated_option_counts() {
    // As Kathara 3.8.3 reads it: Machine.add_meta keeps one value of a name.
    let text = "a[image]=one\na[image]=two\na[mem]=64m\na[mem]=24\na[cpus]=2\na[cpus]=0.125\na[ipv6]=true\na[ipv6]=no\na[bridged]=off\n\
                a[bridged]=1\na[port]=\"7000:80\"\na[port]=\"7000:81/TCP\"\na[port]=\"7001:81\"\na[env]=\"A= x \"\na[env]=\"A= y z \"\na[args]=\"one\"\na[args]=\"two 2\"\n";
    let import = with_images(&Memory::of("lab.conf", text), "lab.conf");
    let node = &plan(&import).nodes[0];
    assert_eq!(node.image.as_ref().unwrap().name, "two:latest");
    // 24 is megabytes of 2^20 bytes; an eighth of a CPU is not rounded.
    assert!(import.lab.contains("limits: {memory: 25165824B, cpu: 0.125}"), "{}", import.lab);
    assert!(!node.forwarding.ipv6() && node.interfaces.len() == 1);
    // Of what leads to one port of the device Docker takes the last.
    assert!(import.lab.contains("ports: [\"7001:81\"]"), "{}", import.lab);
    assert!(
        import.lab.contains("A: \"y z\"") && import.lab.contains("cmd: [two, \"2\"]"),
        "{}",
        import.lab
    );
    for line in [1, 3, 5, 7, 9, 14, 16] {
        assert!(told(&import, line).ends_with("changed: a later line gives it again"), "{line}");
    }
    for line in [11, 12] {
        let why = "changed: another line publishes the same port";
        assert!(told(&import, line).ends_with(why), "{line}");
    }
    assert_eq!(import.left_out().count(), 0);
}

/// Kathara 3.8.3: `DockerMachine.create` publishes only what Docker's bridge leads to, and gives devices without an image
/// that of its settings.
#[test]
fn ports_go_without_a_bridge_and_images_by_default_are_told() {
    let text = "a[0]=A\na[port]=\"8080:80\"\nb[0]=A\nb[port]=\"8081:80\"\nb[bridged]=\"true\"\nb[image]=x\n";
    let import = with_images(&Memory::of("lab.conf", text), "lab.conf");
    assert!(
        told(&import, 1).contains("changed: no image: the host's programs"),
        "{:?}",
        import.items
    );
    let bridged = "not published: Kathara publishes ports of devices with `bridged` alone";
    assert!(told(&import, 2).ends_with(bridged), "{}", told(&import, 2));
    assert!(!told(&import, 3).contains("no image") && !told(&import, 4).contains("bridged"));
    let ports: Vec<usize> = plan(&import).nodes.iter().map(|node| node.ports.len()).collect();
    assert_eq!(ports, [0, 1]);
}

#[test]
fn sizes_of_memory_are_kathara_s() {
    for (size, want) in [
        ("64M", Some(64 << 20)),
        ("1g", Some(1 << 30)),
        ("2048k", Some(2 << 20)),
        ("134217728b", Some(128 << 20)),
        ("0", None),
    ] {
        let import = imported(&Memory::of("lab.conf", format!("a[mem]={size}\n")), "lab.conf");
        assert_eq!(import.left_out().count(), 0, "{size}");
        let bound = want.map(|bytes: u64| format!("limits: {{memory: {bytes}B}}"));
        match bound {
            Some(bound) => assert!(import.lab.contains(&bound), "{size}: {}", import.lab),
            None => assert!(!import.lab.contains("limits"), "{size}: {}", import.lab),
        }
    }
    let import = imported(&Memory::of("lab.conf", "a[cpus]=3.14159\n"), "lab.conf");
    assert!(told(&import, 1).ends_with("changed: 3.142, in thousandths"), "{:?}", import.items);
}

#[test]
fn volumes_are_read_only_unless_they_say_rw() {
    let conf = "a[volume]=\"data|/a\"\na[volume]=\"|data/x||/b/|rw|\"\nb[volume]=\"./data|/a|rx\"\nb[volume]=\"data/x|a\"\nb[volume]=\"data/y|/|rw\"\nb[volume]=\"data/z|/c|no\"\n";
    let files = Memory::of("lab.conf", conf).with("data/x", "");
    let import = imported(&files, "lab.conf");
    let plan = plan(&import);
    let binds = |n: usize| -> Vec<(String, bool)> {
        plan.nodes[n].binds.iter().map(|bind| (bind.to.clone(), bind.write)).collect()
    };
    assert_eq!(binds(0), [("/a".to_owned(), false), ("/b".to_owned(), true)]);
    assert_eq!(binds(1), [("/a".to_owned(), false)]);
    let why = "from the lab's folder; Kathara takes it from where it is called";
    assert!(told(&import, 1).ends_with(why), "{}", told(&import, 1));
    for line in [4, 5, 6] {
        assert!(told(&import, line).contains("left out: expected "), "{}", told(&import, line));
    }
}

#[test]
fn ipv6_has_all_of_its_errors_and_booleans_are_kathara_s() {
    let text = "a[ipv6]=\"true\"\nb[ipv6]=\"maybe\"\n";
    let import = imported(&Memory::of("lab.conf", text), "lab.conf");
    let plan = plan(&import);
    let limit = |n: usize| {
        let found = plan.nodes[n]
            .sysctls
            .iter()
            .find(|(key, _)| key.replace('/', ".") == "net.ipv6.icmp.ratelimit");
        found.map(|(_, value)| value.clone())
    };
    assert_eq!((limit(0).as_deref(), limit(1)), (Some("0"), None));
    assert!(told(&import, 2).ends_with("left out: expected true or false"));
}

#[test]
fn devices_are_in_the_order_of_lab_dep() {
    // What depgen of Kathara 3.8.3 makes of it; the last line of a device counts, so there is no circle.
    let conf = "a[0]=A\nb[0]=A\nc[0]=A\nd[0]=A\ne[0]=A\n";
    let dep = "a: b\nb: a\nb: c d\nd: c\n";
    let files = Memory::of("lab.conf", conf).with("lab.dep", dep);
    let plan = plan(&imported(&files, "lab.conf"));
    let names: Vec<&str> = plan.nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, ["e", "c", "d", "b", "a"]);
}

#[test]
fn lines_that_kathara_refuses_are_told_or_refused() {
    let text = "PC[0]=A\n  # indented\na[image]=\"\"\na[exec]=\"echo 'x'\"\na[env]=A=1 # why\na[mem]=64m # why\nb[1]=A\nb[2]=B/01:00:00:00:00:01\n";
    let import = imported(&Memory::of("lab.conf", text), "lab.conf");
    for (line, want) in [
        (1, "Kathara itself refuses names of more than 30 letters"),
        (2, "Kathara itself refuses a comment"),
        (3, "the node runs the host's programs"),
        (4, "Kathara itself refuses a quote"),
        (6, "Kathara itself takes the comment"),
        (7, "Kathara itself refuses a device without interface 0"),
        (8, "left out: the hardware address is none"),
    ] {
        assert!(told(&import, line).contains(want), "{}", told(&import, line));
    }
    assert!(
        import.lab.contains("A: \"1 # why\"") && import.lab.contains("67108864B"),
        "{}",
        import.lab
    );
    for (text, want) in [
        ("a[0]=A/\n", "lab.conf:1: error: expected DOMAIN or DOMAIN/MAC"),
        ("shared[0]=A\n", "lab.conf:1: error: no device can have this name"),
    ] {
        let error = refused("lab.conf", text);
        assert!(error.starts_with(want), "{error}");
    }
}

// Kathara 3.8.3, cases 34 of the first and 149 of the third seed of `cargo xtask oracles kathara`.
#[test]
fn ports_that_are_given_again_are_those_that_docker_is_told() {
    for (lines, want) in [
        ("7102:53 7103:53 7103:22/TCP", &["7102:53", "7103:22"][..]),
        ("7053:5000/UDP 7052:5000/UDP 7053:5000/UDP", &["7052:5000/udp"]),
        ("7000:80 7000:81 7001:81/udp", &["7000:81", "7001:81/udp"]),
    ] {
        let lines: Vec<String> = lines.split(' ').map(|port| format!("a[port]={port}\n")).collect();
        let text = format!("a[bridged]=1\n{}", lines.concat());
        let import = imported(&Memory::of("lab.conf", text), "lab.conf");
        let ports =
            plan(&import).nodes[0].ports.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(ports, want, "{}", import.lab);
    }
}

// Kathara 3.8.3, `LabParser.parse`: it looks for the key at the start of the line, and splits the line at each `=`.
#[test]
fn lines_about_the_lab_that_kathara_refuses_are_told() {
    let text = "LAB_NAME=one\nLAB_AUTHOR=\"a=b\"\nLAB_WEB = x\n LAB_EMAIL=x\nLAB_OTHER=x\nLAB_VERSION='2'\nmachines=\"a\"\na[0]=A\n";
    let import = imported(&Memory::of("lab.conf", text), "lab.conf");
    for (line, want) in [
        (1, "LAB_NAME: carried"),
        (2, "changed: Kathara itself refuses a second ="),
        (
            3,
            "changed: Kathara itself refuses a line about the lab that does not begin with LAB_NAME=",
        ),
        (4, "changed: Kathara itself refuses a line about the lab that does not begin"),
        (5, "changed: Kathara itself refuses a line about the lab that does not begin"),
        (6, "changed: only for people"),
        (7, "changed: Kathara itself refuses a line about the lab that does not begin"),
    ] {
        assert!(told(&import, line).contains(want), "{}", told(&import, line));
    }
}

#[test]
fn programs_and_bounds_of_devices_are_there() {
    let text = "a[entrypoint]=\"sleep\"\na[args]=\"5 6\"\na[ulimit]=\"nofile=1000:2000\"\na[ulimit]=\"stack=8192:4096\"\na[ulimit]=\"core=-1\"\na[ulimit]=\"x=1\"\na[exec]=\"echo a &> /x\"\nb[shell]=/bin/sh\nb[exec]=\"true\"\n";
    let import = imported(&Memory::of("lab.conf", text), "lab.conf");
    let plan = plan(&import);
    let words = |words: &[String]| words.join(" ");
    assert_eq!(words(&plan.nodes[0].run[0].command), "sleep 5 6");
    let setup = words(&plan.nodes[0].setup[0]);
    assert!(
        setup.contains("--nofile=1000:2000 --stack=4096:4096 --core=unlimited:unlimited"),
        "{setup}"
    );
    assert!(told(&import, 3).contains("changed: of what the node runs"), "{}", told(&import, 3));
    assert!(told(&import, 6).contains("left out: expected a bound"), "{}", told(&import, 6));
    assert!(
        import.lab.contains("[\"/bin/sh\", \"-c\", \"true\"]")
            || import.lab.contains("[/bin/sh, \"-c\", \"true\"]"),
        "{}",
        import.lab
    );
}

#[test]
fn the_hosts_frr_does_not_hide_the_labs_daemons() {
    let conf = "r[image]=kathara/frr\nw[0]=A\n";
    let files = Memory::of("lab.conf", conf)
        .with("r/etc/frr/bgpd.conf", "router bgp 1\n")
        .with("r/etc/frr/daemons", "bgpd=yes\n")
        .with("w/var/www/html/index.html", "")
        .with("w/root/.DS_Store", "");
    let setup = |import: &netloom_foreign::Import, n: usize| {
        plan(import).nodes[n].setup.iter().map(|words| words.join(" ")).collect::<String>()
    };
    let import = imported(&files, "lab.conf");
    assert!(setup(&import, 0).contains("rm -f /etc/frr/frr.conf"), "{}", setup(&import, 0));
    assert!(setup(&import, 0).contains("chown -R frr:frr /etc/frr; chmod 640 /etc/frr/*"));
    assert!(setup(&import, 1).contains("chmod -R 777 /var/www/*"));
    assert!(!import.lab.contains("DS_Store"));
    // An image has none of the host's files.
    let import = with_images(&files, "lab.conf");
    assert!(!setup(&import, 0).contains("rm -f"), "{}", setup(&import, 0));
    // What the lab itself has stays.
    let import = imported(&files.clone().with("r/etc/frr/frr.conf", ""), "lab.conf");
    assert!(!setup(&import, 0).contains("rm -f"), "{}", setup(&import, 0));
}

#[test]
fn files_among_the_hosts_programs_are_copied_by_a_command() {
    let files = Memory::of("lab.conf", "w[0]=A\n").with("w/usr/lib/cgi-bin/x.cgi", "#!/bin/sh\n");
    let import = imported(&files, "lab.conf");
    let node = &plan(&import).nodes[0];
    assert_eq!(node.files[0].path, "/run/netloom-import/root/usr/lib/cgi-bin/x.cgi");
    assert!(node.setup[0].join(" ").contains("cp -R /run/netloom-import/root/. /"));
    let item = import.items.iter().find(|item| item.file == "w/usr/lib/cgi-bin/x.cgi").unwrap();
    assert!(
        matches!(&item.verdict, Verdict::Changed(why) if why.starts_with("copied when the node starts"))
    );
}

#[test]
fn texts_of_windows_have_the_ends_of_lines_of_linux() {
    let files = Memory::of("lab.conf", "\u{feff}w[0]=A\r\n")
        .with("w/etc/motd", "\u{feff}a\r\nb\r\n")
        .with("w.startup", "\u{feff}true\r\nfalse\r\n");
    let import = imported(&files, "lab.conf");
    assert!(import.lab.contains("{text: \"a\\nb\\n\"}"), "{}", import.lab);
    assert!(import.lab.contains("{text: \"true\\nfalse\\n\", mode: \"0755\"}"), "{}", import.lab);
}

/// Files, and paths that lead out of the lab's folder to these.
struct Linked(Memory, Vec<(&'static str, &'static str)>);

impl Files for Linked {
    fn look(&self, path: &str) -> Option<Found> {
        match self.target(path) {
            Some(_) => Some(Found::Away),
            None => self.0.look(path),
        }
    }

    fn list(&self, folder: &str) -> Vec<String> {
        let mut names = self.0.list(folder);
        let inside = |path: &'static str| match path.rsplit_once('/') {
            Some((parent, name)) => (parent == folder).then(|| name.to_owned()),
            None => folder.is_empty().then(|| path.to_owned()),
        };
        names.extend(self.1.iter().filter_map(|(path, _)| inside(path)));
        names
    }

    fn read(&self, path: &str) -> Option<Vec<u8>> {
        self.0.read(path)
    }

    fn target(&self, path: &str) -> Option<String> {
        Some(self.1.iter().find(|(link, _)| *link == path)?.1.to_owned())
    }
}

#[test]
fn what_leads_out_of_the_folder_is_left_out_with_its_target() {
    let conf = "a[0]=A\nb[0]=A\nb[volume]=\"data|/data\"\n";
    let links = vec![
        ("shared", "/srv"),
        ("a/shadow", "/etc/shadow"),
        ("b", "/root"),
        ("a.startup", "/etc/issue"),
        ("lab.dep", "/etc/hosts"),
        ("data", "/var"),
    ];
    let files = Linked(Memory::of("lab.conf", conf).with("a/own", ""), links);
    let made = import(&files, "lab.conf", &Options::default()).unwrap();
    for (item, target) in [
        ("shared: a folder that devices share", "/srv"),
        ("a/shadow: a file of a device", "/etc/shadow"),
        ("b: a device's folder", "/root"),
        ("a.startup: a script that starts a device", "/etc/issue"),
        ("lab.dep: the order of devices", "/etc/hosts"),
        ("lab.conf:3: b[volume]=\"data|/data\"", "/var"),
    ] {
        let line = format!("{item}: left out: it leads out of the lab's folder, to {target:?}");
        assert!(made.items.iter().any(|item| item.to_string() == line), "{line}: {:?}", made.items);
    }
    let plan = plan(&made);
    let paths: Vec<&str> =
        plan.nodes.iter().flat_map(|n| &n.files).map(|f| f.path.as_str()).collect();
    assert_eq!(paths, ["/own"]);
    assert!(plan.nodes.iter().all(|node| node.binds.is_empty()));
}
