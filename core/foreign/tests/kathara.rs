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
    let text = "a[0]=A\na[ulimit]=\"nofile=1\"\na[entrypoint]=x\na[nonsense]=1\na[sysctl]=\"kernel.a=1\"\na[mem]=x\na[1]=A\n";
    let import = imported(&Memory::of("lab.conf", text), "lab.conf");
    let out = import.left_out().count();
    assert_eq!(out, 6, "{:#?}", import.items);
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
    let text = "a[0]=A\na[port]=\"80\"\na[port]=\"5353:53/udp\"\nb[0]=A\nb[port]=\"80\"\n";
    let import = imported(&Memory::of("lab.conf", text), "lab.conf");
    let said: Vec<_> = import.items.iter().filter(|i| i.item.contains("port")).collect();
    let verdicts: Vec<_> = said.iter().map(|i| (i.line, i.verdict.clone())).collect();
    assert!(
        matches!(&verdicts[..], [(2, Verdict::Changed(_)), (3, Verdict::Changed(_)), (5, Verdict::LeftOut(why))] if why.contains("port 3000")),
        "{verdicts:?}"
    );
    assert!(import.lab.contains("ports: [\"3000:80\", \"5353:53/udp\"]"), "{}", import.lab);
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
