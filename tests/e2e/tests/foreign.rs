//! Labs of other programs: imported, brought up, and pinged through; reports of their losses.

use std::ffi::OsStr;
use std::os::unix::fs::{PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use netloom_tests_e2e::{Machine, machine, needs, root_only, rounds, wait_until, workspace_root};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::CWD;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};

/// How long routing daemons may take to find each other.
const BOUND: Duration = Duration::from_secs(180);

fn lab(path: &str) -> PathBuf {
    workspace_root().join("tests/e2e/foreign").join(path)
}

fn small(path: &str) -> PathBuf {
    workspace_root().join("tests/e2e/foreign/labs").join(path)
}

/// Brings up a lab of others with the host's programs.
fn up(machine: &Machine, path: &Path) -> String {
    let args = ["up".as_ref(), "--host-programs".as_ref(), path.as_os_str()];
    machine.netloom(args).bound(BOUND).finish().code(0).errors()
}

/// Waits until a node reaches an address.
fn reaches(machine: &Machine, node: &str, address: &str) {
    wait_until(&format!("{node} reaches {address}"), BOUND, || {
        let ping = machine.exec(node, &["ping", "-c", "1", "-W", "1", address]).finish();
        ping.status.success().then_some(())
    });
}

#[test]
fn containerlabs_routers_find_each_other() {
    needs!("frr");
    let machine = machine!();
    let told = up(&machine, &lab("ospf/ospf.clab.yml"));
    assert!(told.contains("image: changed: the host's FRR"), "{told}");
    for from in ["pc1", "pc2", "pc3"] {
        for to in ["192.168.1.2", "192.168.2.2", "192.168.3.2"] {
            reaches(&machine, from, to);
        }
    }
    let routes = machine.exec("r1", &["ip", "-4", "route", "show", "proto", "ospf"]).ok();
    assert!(routes.contains("192.168.2.0/24") && routes.contains("192.168.3.0/24"), "{routes}");
    let up = machine.exec("pc1", &["cat", "/sys/class/net/eth1/mtu"]).ok();
    assert_eq!(up.trim(), "9500");
    machine.down();
}

#[test]
fn a_changed_topology_of_containerlab_is_applied() {
    let machine = machine!();
    let file = machine.scratch().path().join("two.clab.yml");
    let text = "name: two\ntopology:\n  nodes:\n    one: {kind: linux, image: alpine}\n    two: {kind: linux, image: alpine}\n  \
                links:\n    - endpoints: [\"one:eth1\", \"two:eth1\"]\n";
    let apply = |text: &str, flag: &str| {
        std::fs::write(&file, text).expect("write the topology");
        let words = ["apply".as_ref(), "--host-programs".as_ref(), flag.as_ref(), file.as_os_str()];
        machine.netloom(words).bound(BOUND).finish()
    };
    apply(text, "--yes").code(0);
    let inits = machine.inits();
    let more = format!("{text}    - endpoints: [\"one:eth2\", \"two:eth2\"]\n");
    apply(&more, "--check").code(4);
    assert_eq!(apply(&more, "--dry-run").code(0).text(), "+ link one:eth2--two:eth2\n");
    apply(&more, "--yes").code(0);
    apply(&more, "--check").code(0);
    machine.exec("two", &["cat", "/sys/class/net/eth2/mtu"]).ok();
    assert_eq!(machine.inits(), inits);
    machine.down();
}

#[test]
fn katharas_devices_run_their_startup_files() {
    let machine = machine!();
    let told = up(&machine, &lab("kathara"));
    assert!(told.contains("pc1[image]=\"kathara/base\" and 3 more: left out"), "{told}");
    for (from, to) in [("pc1", "200.1.1.7"), ("pc2", "195.11.14.5"), ("r1", "200.1.1.1")] {
        reaches(&machine, from, to);
    }
    let file = machine.exec("r2", &["cat", "/etc/motd"]).ok();
    assert_eq!(file, "welcome to r2\n");
    wait_until("its startup file tells of what is missing", BOUND, || {
        let log = machine.netloom(["logs", "r2"]).finish().code(0).text();
        log.contains("no-such-service: no such service on this machine").then_some(())
    });
    // By its folder, too.
    let folder = lab("kathara");
    machine.netloom(["status".as_ref(), folder.as_os_str()]).finish().code(0);
    machine.down();
}

#[test]
fn projects_scenarios_and_networks_reach_their_matrix() {
    for (path, pairs) in [
        ("gns3/two.gns3", "2 of 2"),
        ("core/office.xml", "6 of 6"),
        ("mininet/router.json", "6 of 6"),
    ] {
        let machine = machine!();
        up(&machine, &small(path));
        wait_until(path, BOUND, || {
            let said = machine.netloom(["ping", "--all", "-4"]).finish().text();
            said.starts_with(&format!("IPv4: {pairs} pairs answer")).then_some(())
        });
        machine.down();
    }
}

#[test]
fn a_row_of_nodes_and_a_bridge_of_a_device_reach_their_matrix() {
    for (path, pairs) in [
        (
            "smoke/smoke.clab.yml",
            &[("l1", "192.168.2.3"), ("l3", "192.168.1.1"), ("l2", "192.168.2.3")],
        ),
        ("bridge", &[("pc1", "10.0.0.2"), ("pc2", "10.0.0.3"), ("pc3", "10.0.0.1")]),
    ] {
        let machine = machine!();
        up(&machine, &small(path));
        pairs.iter().for_each(|(from, to)| reaches(&machine, from, to));
        machine.down();
    }
}

#[test]
fn devices_of_two_domains_tell_each_other_their_networks() {
    needs!("frr");
    let machine = machine!();
    up(&machine, &small("interdomain"));
    reaches(&machine, "pc1", "195.11.12.7");
    reaches(&machine, "pc2", "195.11.11.7");
    let routes = machine.exec("r1", &["ip", "-4", "route", "show", "proto", "bgp"]).ok();
    assert!(routes.contains("195.11.12.0/24 "), "{routes}");
    machine.down();
}

#[test]
fn networks_of_imunes_route_by_their_protocols() {
    needs!("frr");
    let machine = machine!();
    up(&machine, &small("imunes/ring.imn"));
    reaches(&machine, "pc", "10.0.2.2");
    reaches(&machine, "server", "10.0.1.2");
    machine.down();
}

#[test]
fn a_script_of_mininet_is_recorded() {
    needs!("python3");
    let machine = machine!();
    up(&machine, &lab("mininet/router.py"));
    reaches(&machine, "h1", "172.16.0.100");
    let wires = machine.netloom(["link", "list"]).finish().code(0).text();
    assert!(wires.contains("delay 5ms") && wires.contains("rate 10mbit"), "{wires}");
    machine.down();
}

#[test]
fn a_script_of_mininet_runs_whole() {
    needs!("python3");
    let machine = machine!();
    let script = lab("mininet/row.py");
    let run = machine.netloom(["run".as_ref(), script.as_os_str()]).bound(BOUND).finish().code(0);
    let said = run.text();
    for line in [
        "address 10.0.0.1 00:00:00:00:00:01 h1-eth0\n",
        "shell hello from /tmp\n",
        "popen 00:00:00:00:00:03\n",
        "down 100.0\n",
    ] {
        assert!(said.contains(line), "{line:?}: {said}");
    }
    machine.untouched();
}

/// Functions and classes of a script's own, which take what Mininet 2.3.1 gives them and nothing else (`mininet/net.py`:
/// `addController`, `addHost`, `addLink`), and a host's process.
const OWN_CLASSES: &str = r"
import json, os, subprocess, sys
from mininet.link import TCLink
from mininet.net import Mininet
from mininet.node import Host, OVSSwitch, RemoteController
from mininet.topo import SingleSwitchTopo

class Mine(Host):
    def __init__(self, name, ip=None):
        Host.__init__(self, name, ip=ip)

class Wire(TCLink):
    def __init__(self, node1, node2, port1=None, port2=None, intf=None):
        TCLink.__init__(self, node1, node2, port1=port1, port2=port2, delay='1ms')

net = Mininet(topo=SingleSwitchTopo(2), host=Mine, link=Wire,
              switch=lambda name, **given: OVSSwitch(name, failMode='standalone', **given),
              controller=lambda name: RemoteController(name, ip='127.0.0.1', port=6699))
more = net.addController('c1', controller=lambda name: RemoteController(name, ip='127.0.0.1', port=6700))
print('controllers', [c.name for c in net.controllers])
h1, h2 = net.get('h1', 'h2')
print('arguments', sys.argv[1:])
print('nobody', os.path.exists('/proc/%d' % h1.pid))
net.start()
status = json.loads(subprocess.check_output([os.environ['NETLOOM_PROGRAM'], 'status', '--json']))
print('own', [h1.pid, h2.pid] == [node['pid'] for node in status['nodes']])
net.stop()
";

/// Scripts, with lines that their lab file has. What they mean is what Mininet 2.3.0's own package says of them.
const MEANINGS: &[(&str, &[&str])] = &[
    // Own options replace a topology's default ones, and the next port is the number of ports.
    (
        "topo = Topo(hopts=dict(mac='00:00:00:00:00:77'), lopts=dict(bw=5))
topo.addHost('h1', ip='10.0.0.9/8'); topo.addHost('h2'); topo.addNode('s1', isSwitch=True)
topo.addLink('h1', 's1', port1=5, delay='1ms'); topo.addLink('h1', 's1'); topo.addLink('h2', 's1')
net = Mininet(topo=topo, link=TCLink)",
        &[
            "\"h1:h1-eth5\", s1], addresses: none, delay: 1ms}",
            "\"h1:h1-eth1\", s1], addresses: {h1: [\"10.0.0.9/8\"]}, rate: 5mbit}",
            "mac: {h2: \"00:00:00:00:00:77\"}",
        ],
    ),
    // Mininet refuses such a switch's name: it is told, and ends no import.
    (
        "net = Mininet(controller=None)
net.addHost('h1'); net.addSwitch('s'); net.addSwitch('t', failMode='standalone'); net.addLink('h1', 's'); net.addLink('s', 't')",
        &["s: {kind: openflow, datapath: \"0x1", "t: {}"],
    ),
    (
        "net = Mininet(ipBase='192.168.5.100/24', autoSetMacs=True)
net.addHost('h1'); net.addHost('h2', defaultRoute='h2-eth0'); net.addLink('h1', 'h2')",
        &["192.168.5.100/24", "00:00:00:00:00:64", "192.168.5.101/24", "{to: default, dev: h2-eth0}"],
    ),
    (
        "net = Mininet(link=TCLink)
a, b = net.addHost('a'), net.addHost('b', ip='10.0.0.7/8', mac='00:00:00:00:00:07')
net.addLink(a, b, jitter='1ms', bw=1500); net.addLink(a, b, delay='0ms', jitter='2.5us')
net.addLink(a, b, delay='0.7us', params1={'delay': '3ms', 'ip': '172.20.0.1/16'}, addr2='00:00:00:00:00:99')",
        &[
            "mac: {b: \"00:00:00:00:00:07\"}}",
            ", jitter: 2.5us uniform}",
            "[\"172.20.0.1/16\"], b: none}, mac: {b: \"00:00:00:00:00:99\"}, delay: 0.7us}",
        ],
    ),
    // Links and interfaces made directly, names after a link has gone, and parameters before the network is built.
    (
        "net = Mininet(controller=None, intf=TCIntf)
class Wire(TCLink): pass
a, b, s = net.addHost('a'), net.addHost('b'), net.addSwitch('s1', failMode='standalone')
Link(a, s); net.addLink(a, b, cls=Wire, loss=3); net.delLinkBetween(a, b); net.addLink(a, b, bw=2)
a.params['ip'] = '10.3.0.1/16'; a.intf('a-eth1').config(mac='00:00:00:00:00:31')",
        &["\"a:a-eth0\", s1], addresses: {a: [\"10.3.0.1/16\"]}}", "\"a:a-eth1\", \"b:b-eth0\"", "rate: 2mbit", "00:00:00:00:00:31", "s1: {}"],
    ),
    // A host's own address wins over those of an end, and is that of the lowest port, whatever its interface is called.
    (
        "net = Mininet(controller=None)
a = net.addHost('a', ip='10.0.0.5/8', mac='00:00:00:00:00:05'); b = net.addHost('b', ip='10.0.0.6/8'); s = net.addSwitch('s1')
net.addLink(a, s, addr1='00:00:00:00:00:99', params1={'ip': '172.20.0.1/16'})
net.addLink(b, s, intfName1='b0', port1=3); net.addLink(b, s, intfName1='z9', port1=0)",
        &[
            "\"a:a-eth0\", s1], addresses: {a: [\"10.0.0.5/8\"]}, mac: {a: \"00:00:00:00:00:05\"}}",
            "\"b:b0\", s1], addresses: none}",
            "\"b:z9\", s1], addresses: {b: [\"10.0.0.6/8\"]}}",
        ],
    ),
    // Hosts of several prefixes on one switch, and islands whose prefixes overlap, keep their addresses by commands.
    (
        "net = Mininet(controller=None, switch=OVSBridge)
a, b = net.addHost('a', ip='10.0.1.1/24'), net.addHost('b', ip='192.168.9.2/24', defaultRoute='via 192.168.9.254')
c, d = net.addHost('c', ip='10.0.0.3/8'), net.addHost('d', ip='10.0.0.4/8', defaultRoute='via 10.0.0.3 metric 5')
s, t = net.addSwitch('s1'), net.addSwitch('s2')
net.addLink(a, s); net.addLink(b, s); net.addLink(c, t); net.addLink(d, t)",
        &[
            "\"a:a-eth0\", s1], addresses: {a: [\"10.0.1.1/24\"]}}",
            "[ip, address, add, \"192.168.9.2/24\", dev, b-eth0]",
            "via, \"192.168.9.254\"]",
            "[ip, address, add, \"10.0.0.4/8\", dev, d-eth0]",
            "sh, ip, route, add, default, via, \"10.0.0.3\", metric, \"5\"]",
        ],
    ),
    // What shapes: classes made of TCLink, and ends whose class does; options of a link win over those of its ends.
    (
        "class Wire(TCLink): pass
net = Mininet(controller=None)
a, b = net.addHost('a'), net.addHost('b')
net.addLink(a, b, cls=Wire, delay='3ms'); net.addLink(a, b, cls1=TCIntf, bw=4); net.addLink(a, b, bw=9)
net.addLink(a, b, cls=partial(TCLink, loss=2), bw=10, params1={'bw': 1, 'loss': 50}); a.linkTo(b, link=TCLink)",
        &["delay: 3ms}", "a: {rate: 4mbit}}", "\"b:b-eth2\"], addresses: none}", "rate: 10mbit, loss: 2%}", "\"b:b-eth4\"]"],
    ),
    // A topology is changed before it is built, and a network after it is.
    (
        "class T(Topo):
    def build(self):
        self.addSwitch('s1'); self.addHost('h1'); self.addHost('h2')
        self.addLink('h1', 's1', delay='1ms'); self.addLink('h2', 's1')
        self.g.node['h2']['ip'] = '10.0.0.77/8'
        self.setlinkInfo('h1', 's1', dict(self.linkInfo('h1', 's1'), delay='8ms'))
        assert self.port('h1', 's1') == (0, 1) and self.g['h1']['s1']
net = Mininet(topo=T(), link=TCLink, controller=None)
net['h1'].configDefault(ip='10.0.0.66/8'); net.addNAT(ip='10.0.0.250/8').configDefault()",
        &[
            "\"h1:h1-eth0\", s1], addresses: {h1: [\"10.0.0.66/8\"]}, delay: 8ms}",
            "{h2: [\"10.0.0.77/8\"]}",
            "addresses: {internet: [\"10.0.0.250/8\"]}",
            "{to: default, via: \"10.0.0.250\"}",
        ],
    ),
    // The prefix of a segment with the host's network is its own, whatever came first.
    (
        "net = Mininet(controller=None, switch=OVSBridge)
a, b, s = net.addHost('a'), net.addHost('b'), net.addSwitch('s1')
net.addLink(a, b); net.addLink(a, s); net.addNAT()",
        &[
            "[ip, address, add, \"10.0.0.1/8\", dev, a-eth0]",
            "{ends: [internet, s1], addresses: {internet: [\"10.0.0.3/8\"]}}",
        ],
    ),
    // A share is of all processors; a host that comes when the network is built is not configured, and has none.
    (
        "net = Mininet(controller=None)
net.addHost('a', cls=CPULimitedHost, cpu=0.75 / numCores()); net.addHost('b', cls=CPULimitedHost, cpu=1)
net.build(); net['b'].setCPUFrac(0.5 / numCores()); net.addHost('c', cls=CPULimitedHost, cpu=0.2)",
        &["  a:\n    limits: {cpu: 0.75}\n  b:\n    limits: {cpu: 0.5}\n  c: {}\n"],
    ),
    // The kernel deletes both ends of a link, but the other node counts its own as before.
    (
        "net = Mininet(controller=None)
a, b, c, s = net.addHost('a'), net.addHost('b', ip='10.0.0.8/8'), net.addHost('c'), net.addSwitch('s1')
net.addLink(a, s); net.addLink(a, b); net.delHost(a); net.addLink(c, s); net.addLink(b, s)",
        &["port: {s1: 2}}", "\"b:b-eth1\", s1], addresses: none"],
    ),
    // Names that Linux does not take are short in script and lab; without a controller only entries forward.
    (
        "net = Mininet(controller=None)
net.addHost('laboratory12'); net.addSwitch('s3'); link = net.addLink('laboratory12', 's3', port1=10)
assert net['laboratory12'].intfNames() == ['eth10']",
        &["\"laboratory12:eth10\", s3]", "s3: {kind: openflow, datapath: \"0x3\", fail: secure}"],
    ),
];

#[test]
fn scripts_mean_what_they_mean_to_mininet() {
    needs!("python3");
    let machine = machine!();
    let head = "from functools import partial\nfrom mininet.net import Mininet\nfrom mininet.topo import Topo\n\
                from mininet.node import CPULimitedHost, OVSBridge\nfrom mininet.link import Link, TCLink, TCIntf\n\
                from mininet.util import numCores\n";
    for (number, (script, lines)) in MEANINGS.iter().enumerate() {
        let name = format!("means{number}.py");
        machine.scratch().file(&name, format!("{head}{script}\nnet.start()\nnet.stop()\n"));
        let out = format!("means{number}.yaml");
        machine.netloom(["import", &name, "-o", &out]).bound(BOUND).finish().code(0);
        let made = std::fs::read_to_string(machine.scratch().path().join(&out)).unwrap();
        for line in *lines {
            assert!(made.contains(line), "{line}: {made}");
        }
    }
}

/// Once its network has started, a script may wait for what commands say, or fail at it: while it is recorded they say nothing.
#[test]
fn what_follows_a_start_ends_no_import() {
    needs!("python3");
    let machine = machine!();
    let head = "import time\nfrom mininet.net import Mininet\nfrom mininet.util import decode, specialClass\nfrom mininet.moduledeps import pathCheck\n\
                net = Mininet(controller=None)\nh1 = net.addHost('h1'); s1 = net.addSwitch('s1'); net.addLink(h1, s1)\n";
    for (name, rest, said) in [
        (
            "fails",
            "net.start()\nrtt = float(h1.cmd('ping -c1 10.0.0.2').split('time=')[1])\n",
            "fails.py:8: calls[0]: left out: a step of the script",
        ),
        (
            "waits",
            "net.build(); s1.start([])\nwhile 'is_connected' not in s1.cmd('ovs-vsctl show'): time.sleep(1)\n",
            "waits.py:8: calls[0]: left out: a step of the script",
        ),
        (
            "asks",
            "net.start()\nwhile True: input()\n",
            "asks.py:8: calls[0]: left out: a step of the script",
        ),
    ] {
        let script = machine.scratch().file(&format!("{name}.py"), format!("{head}{rest}"));
        let done =
            machine.netloom(["import".as_ref(), script.as_os_str()]).bound(BOUND).finish().code(0);
        assert!(done.text().contains("h1:h1-eth0"), "{}", done.text());
        assert!(done.errors().contains(said), "{said}: {}", done.errors());
    }
    // Before it a fault is the script's own.
    let script = machine
        .scratch()
        .file("early.py", format!("{head}raise ValueError('mine')\nnet.start()\n"));
    let refused =
        machine.netloom(["import".as_ref(), script.as_os_str()]).bound(BOUND).finish().code(2);
    assert!(refused.errors().contains("ValueError: mine"), "{}", refused.errors());
    machine.untouched();
}

/// Its folder goes when the next script starts.
#[test]
fn a_script_ends_with_the_import_that_is_killed() {
    needs!("python3");
    let machine = machine!();
    let temporary = machine.scratch().path();
    let told = temporary.join("told");
    let head = "import os, time\nfrom mininet.net import Mininet\n";
    let script = format!(
        "{head}open('new', 'w').write(f'{{os.getppid()}} {{os.getpid()}}')\nos.rename('new', {told:?})\n\
         while True: time.sleep(1)\n"
    );
    let endless = machine.scratch().file("endless.py", script);
    let import = |script: &Path| {
        let args = ["import".as_ref(), script.as_os_str()];
        machine.netloom(args).dir(temporary).env("TMPDIR", temporary).bound(BOUND)
    };
    let mut running = import(&endless).spawn();
    let pids = wait_until("the script to run", BOUND, || std::fs::read_to_string(&told).ok());
    let pids: Vec<i32> = pids.split(' ').map(|pid| pid.parse().unwrap()).collect();
    let script = pidfd_open(Pid::from_raw(pids[1]).unwrap(), PidfdFlags::empty()).unwrap();
    kill_process(Pid::from_raw(pids[0]).unwrap(), Signal::KILL).unwrap();
    running.wait().unwrap();
    let ended = poll(
        &mut [PollFd::new(&script, PollFlags::IN)],
        Some(&Timespec { tv_sec: 60, tv_nsec: 0 }),
    );
    // Nothing is left of a failed test either.
    let _ = pidfd_send_signal(&script, Signal::KILL);
    assert_eq!(ended, Ok(1), "the script runs on");
    let folder = temporary.join(format!("netloom-script-{}-0", pids[0]));
    assert!(folder.exists(), "{folder:?}");
    let next = "net = Mininet(controller=None)\nnet.addHost('h1')\nnet.start()\n";
    let next = machine.scratch().file("next.py", format!("{head}{next}"));
    import(&next).finish().code(0);
    assert!(!folder.exists(), "{folder:?}");
}

/// What `dpctl` and `ovs-ofctl` do on a switch without a controller, and what is set at a switch's end of a link.
const ENTRIES: &str = r"
from mininet.link import TCLink
from mininet.net import Mininet
from mininet.node import OVSSwitch
net = Mininet(controller=None, link=TCLink)
h1, h2 = net.addHost('h1'), net.addHost('h2')
s1, s2 = net.addSwitch('s1'), net.addSwitch('s2', failMode='standalone')
net.addLink(h1, s1); core = net.addLink(s1, s2); net.addLink(h2, s2)
net.start()
print('nothing', '100%' in h1.cmd('ping -c 1 -W 1 %s' % h2.IP()))
print('add', repr(s1.dpctl('add-flow', 'priority=5,actions=normal')))
# A neighbour that was asked for in vain is given up after three seconds, with what waits for it.
print('passes', any(' 0% packet loss' in h1.cmd('ping -c 1 -W 5 %s' % h2.IP()) for _ in range(20)))
print('dump', 'NORMAL' in s1.cmd('ovs-ofctl -O OpenFlow13 dump-flows s1'))
print('ports', 's2' in s1.dpctl('show'), 's2' in s1.dpctl('dump-ports'), s1.dpctl('dump-groups') != '')
print('aloud', 'is missing' in s1.dpctl('add-flow', 'nonsense'), 'netloom knows' in s1.dpctl('snoop'))
print('vsctl', 'netloom' in s1.cmd('ovs-vsctl show'))
core.intf2.config(delay='150ms')
print('slow', int(h1.cmd('ping -c 1 -W 30 %s' % h2.IP()).split('time=')[1].split('.')[0].split()[0]) >= 150)
net.stop()
";

#[test]
fn commands_of_open_vswitch_work_on_netlooms_switches() {
    needs!("python3");
    let machine = machine!();
    machine.scratch().file("entries.py", ENTRIES);
    let said = machine.netloom(["run", "entries.py"]).bound(BOUND).finish().code(0).text();
    for line in [
        "nothing True\n",
        "add ''\n",
        "passes True\n",
        "dump True\n",
        "ports True True True\n",
        "aloud True True\n",
        "vsctl True\n",
        "slow True\n",
    ] {
        assert!(said.contains(line), "{line:?}: {said}");
    }
    machine.untouched();
}

#[test]
fn functions_and_classes_of_a_script_are_called_as_mininet_calls_them() {
    needs!("python3");
    let machine = machine!();
    let script = machine.scratch().file("own.py", OWN_CLASSES);
    let words = ["--", "--fast", "3"].map(OsStr::new);
    let words = ["run".as_ref(), script.as_os_str()].into_iter().chain(words);
    let said = machine.netloom(words).bound(BOUND).finish().code(0).text();
    for line in [
        "arguments ['--fast', '3']\n",
        "controllers ['c0', 'c1']\n",
        "nobody False\n",
        "own True\n",
    ] {
        assert!(said.contains(line), "{line:?}: {said}");
    }
    machine.untouched();
}

/// A controller of the script's own, which says how it was started, and commands at a prompt of which two cannot be done.
const OWN_CONTROLLER: &str = "
import os, sys
from mininet.cli import CLI
from mininet.net import Mininet
from mininet.node import Controller, OVSSwitch
with open('course', 'w') as file:
    file.write('#!/bin/sh\\necho $$ \"$@\" >new; mv new started; exec sleep 1000\\n')
os.chmod('course', 0o755)
with open('commands', 'w') as file:
    file.write('link s1 s9 down\\nsource missing\\nnodes\\n')
class Course(Controller):
    def __init__(self, name, **kwargs):
        Controller.__init__(self, name, command=sys.argv[1], cargs='--port %d', port=16653, **kwargs)
net = Mininet(controller=Course, switch=OVSSwitch)
net.addController('c0')
s1 = net.addSwitch('s1')
net.addLink(net.addHost('h1'), s1)
net.addLink(net.addHost('h2'), s1)
net.start()
print('started', net['c0'].cmd('until [ -s started ]; do :; done; cat started'))
print('lost', net.pingAll(timeout='1'))
CLI(net, script='commands')
net.stop()
";

#[test]
fn a_run_starts_and_ends_a_controller_of_the_scripts_own() {
    needs!("python3");
    let machine = machine!();
    machine.scratch().file("course.py", OWN_CONTROLLER);
    let run =
        |program: &str| machine.netloom(["run", "course.py", "--", program]).bound(BOUND).finish();
    let ran = run("./course").code(0);
    let said = ran.text();
    let started = said.lines().find_map(|line| line.strip_prefix("started ")).expect("a line");
    let (pid, words) = started.split_once(' ').expect("a pid and arguments");
    assert_eq!(words, "--port 16653");
    // Its switch waits for what a controller says, and this one says nothing.
    assert!(said.contains("lost 100"), "{ran}");
    assert!(said.contains("available nodes are"), "{ran}");
    assert!(ran.errors().contains("no node 's9'") && ran.errors().contains("missing"), "{ran}");
    wait_until("the controller has ended", BOUND, || {
        (!Path::new("/proc").join(pid).exists()).then_some(())
    });
    let missing = run("no-such-controller").code(1);
    missing.says("c0: no-such-controller is not installed");
    machine.untouched();
}

/// Something that no lab has.
const PINNED: &str = "
from mininet.net import Mininet
net = Mininet(autoPinCpus=True)
net.addHost('h1')
net.start()
net.stop()
";

#[test]
fn a_script_comes_up_by_the_flags_of_run_and_is_named_in_what_is_said() {
    needs!("python3");
    let machine = machine!();
    machine.scratch().file("pinned.py", PINNED);
    machine.netloom(["run", "pinned.py"]).bound(BOUND).finish().code(0);
    let refused = machine.netloom(["run", "--strict", "pinned.py"]).bound(BOUND).finish().code(2);
    assert!(!refused.errors().contains("record.json"), "{refused}");
    refused.says("netloom: ./pinned.py: 2 items are left out of the lab, which --strict refuses");
    machine.untouched();
}

#[test]
fn an_import_writes_a_file_and_tells_of_every_item() {
    let machine = machine!();
    let out = machine.scratch().path().join("lab.yaml");
    let from = small("clab/three.clab.yml");
    let host = OsStr::new("--host-programs");
    let args = ["import".as_ref(), host, from.as_os_str(), "-o".as_ref(), out.as_os_str()];
    let said = machine.netloom(args).finish().code(0).text();
    assert!(said.contains("three.clab.yml:1: name: carried\n"), "{said}");
    assert!(
        said.contains("topology.nodes.pc1.ports[0]: changed: on the host's loopback"),
        "{said}"
    );
    let checked = machine.netloom(["check".as_ref(), out.as_os_str()]).finish().code(0).text();
    assert!(checked.ends_with("good: 5 nodes, 2 switches, 11 links\n"), "{checked}");
    // The port may be somebody's here.
    let own = netloom_kit::free_port();
    let text = std::fs::read_to_string(&out).unwrap();
    let with = text.replace("ports: [\"8080:80\"]", &format!("ports: [\"{own}:80\"]"));
    assert_ne!(text, with);
    std::fs::write(&out, with).unwrap();
    // Files are found from where the lab file is. Limits need cgroups of one's own.
    let up = ["up".as_ref(), "--ignore-limits".as_ref(), out.as_os_str()];
    machine.netloom(up).finish().code(0);
    let conf = machine.exec("r1", &["cat", "/etc/frr/frr.conf"]).ok();
    assert_eq!(conf, "hostname r1\n");
    // A file that is there stays.
    let again = machine.netloom(args).finish().code(2);
    assert!(again.errors().contains("is there already; --force replaces it"), "{}", again.errors());
    machine.down();
}

#[test]
fn strict_imports_refuse_losses_and_programs_get_json() {
    let machine = machine!();
    let from = small("clab/three.clab.yml");
    let strict =
        machine.netloom(["up".as_ref(), "--strict".as_ref(), from.as_os_str()]).finish().code(2);
    assert!(
        strict.errors().contains("8 items are left out of the lab, which --strict refuses"),
        "{}",
        strict.errors()
    );
    let report = machine
        .netloom(["import".as_ref(), "--json".as_ref(), from.as_os_str()])
        .finish()
        .code(0)
        .json();
    let items = report["items"].as_array().unwrap();
    let count =
        |verdict: &str| items.iter().filter(|item| item["verdict"] == verdict).count() as u64;
    for (key, verdict) in [("carried", "carried"), ("changed", "changed"), ("left_out", "left_out")]
    {
        assert_eq!(report[key].as_u64(), Some(count(verdict)), "{key}");
    }
    assert!(report["lab"].as_str().unwrap().contains("name: three-routers"));
    machine.untouched();
}

#[test]
fn wrong_files_of_others_are_refused_with_their_line() {
    let machine = machine!();
    for (name, text, want) in [
        (
            "a.clab.yml",
            "topology: {nodes: {a: {}, a: {}}}\n",
            "a.clab.yml:1:27: error: \"a\" is given twice",
        ),
        ("a.xml", "<scenario>\n</b>", "a.xml:2: error: not valid XML"),
        ("a.imn", "node n0 {", "a.imn:1: error: a brace is not closed"),
        ("a.py", "import nonsense\n", "a.py: the script has made no network"),
        (
            "a.txt",
            "hello\n",
            "no lab of containerlab, Kathara, Mininet, GNS3, CORE, IMUNES or netlab",
        ),
    ] {
        let file = machine.scratch().file(name, text);
        let refused = machine.netloom(["import".as_ref(), file.as_os_str()]).finish().code(2);
        assert!(refused.errors().contains(want), "{}", refused.errors());
    }
    machine.untouched();
}

#[test]
fn a_lab_is_exported_and_comes_back() {
    let machine = machine!();
    let lab = machine
        .file("name: two\nnodes: {a: {}, r: {forwarding: true}, b: {}}\nlinks: [[a, r], [r, b]]\n");
    let out = machine.scratch().path().join("two.clab.yml");
    let host = OsStr::new("--host-programs");
    let args = [
        "export".as_ref(),
        "containerlab".as_ref(),
        lab.as_os_str(),
        "-o".as_ref(),
        out.as_os_str(),
    ];
    machine.netloom(args).finish().code(0);
    machine
        .netloom(["up".as_ref(), host, "--mgmt".as_ref(), "none".as_ref(), out.as_os_str()])
        .finish()
        .code(0);
    let address = machine.exec("b", &["ip", "-4", "-o", "address", "show", "dev", "eth0"]).ok();
    let address = address.split_whitespace().nth(3).unwrap().split('/').next().unwrap().to_owned();
    reaches(&machine, "a", &address);
    machine.down();
}

#[test]
fn namespaces_of_nodes_have_names_for_iproute2() {
    root_only!("names of namespaces");
    let machine = machine!();
    let name = format!("names{}", std::process::id());
    machine.up(&format!(
        "name: {name}\nnodes: {{a: {{children: {{nodes: {{b: {{}}}}}}}}}}\nlinks: [[a, a/b]]\n"
    ));
    let link = |node: &str| PathBuf::from(format!("/run/netns/{name}-{node}"));
    for (node, exec) in [("a", "a"), ("a-b", "a/b")] {
        let inside = machine.exec(exec, &["readlink", "/proc/self/ns/net"]).ok();
        let outside =
            std::fs::read_link(std::fs::read_link(link(node)).expect("a name")).expect("alive");
        assert_eq!(outside.to_string_lossy(), inside.trim());
    }
    machine.netloom(["node", "create", "c"]).finish().code(0);
    assert!(link("c").exists());
    machine.netloom(["node", "delete", "c"]).finish().code(0);
    assert!(std::fs::read_link(link("c")).is_err());
    machine.down();
    assert!(std::fs::read_link(link("a")).is_err());
}

/// A folder of somebody else's with links to a file of mode 0600, which root could read.
#[test]
fn a_folder_of_kathara_carries_nothing_of_the_host_into_a_node() {
    let machine = machine!();
    let folder = machine.scratch().path().join("lab");
    let secret = machine.scratch().file("secret", "the host's");
    std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::create_dir_all(folder.join("pc1/etc")).unwrap();
    std::fs::write(folder.join("lab.conf"), "pc1[0]=A\n").unwrap();
    std::fs::write(folder.join("pc1/etc/own"), "the lab's").unwrap();
    std::fs::write(folder.join("pc1/etc/a\nb\u{202e}c"), "").unwrap();
    symlink("../../../secret", folder.join("pc1/etc/taken")).unwrap();
    symlink("own", folder.join("pc1/etc/near")).unwrap();
    symlink(machine.scratch().path(), folder.join("shared")).unwrap();
    symlink(&secret, folder.join("pc1.startup")).unwrap();
    let told = up(&machine, &folder);
    let leads = |to: &Path| format!("left out: it leads out of the lab's folder, to {to:?}\n");
    for line in [
        format!("pc1/etc/taken: a file of a device: {}", leads(&secret)),
        format!("pc1.startup: a script that starts a device: {}", leads(&secret)),
        format!("shared: a folder that devices share: {}", leads(machine.scratch().path())),
    ] {
        assert!(told.contains(&line), "{line}{told}");
    }
    let said = machine.netloom(["import".as_ref(), folder.as_os_str()]).finish().code(0).errors();
    assert!(said.contains("pc1/etc/a\\nb\\u{202e}c: a file of a device: carried\n"), "{said}");
    let read = |path: &str| machine.exec("pc1", &["cat", path]).finish().text();
    assert_eq!((read("/etc/own"), read("/etc/near")), ("the lab's".into(), "the lab's".into()));
    assert_eq!((read("/etc/taken"), read("/shared/secret")), (String::new(), String::new()));
    machine.down();
}

#[test]
fn a_file_for_usr_ends_no_lab() {
    let machine = machine!();
    let folder = machine.scratch().path().join("lab");
    std::fs::create_dir_all(folder.join("w/usr/lib/cgi-bin")).unwrap();
    std::fs::create_dir_all(folder.join("w/etc")).unwrap();
    std::fs::write(folder.join("lab.conf"), "w[0]=A\n").unwrap();
    std::fs::write(folder.join("w/etc/own"), "the lab's").unwrap();
    let script = folder.join("w/usr/lib/cgi-bin/x.cgi");
    std::fs::write(&script, "#!/bin/sh\necho page\n").unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let told = up(&machine, &folder);
    assert!(
        told.contains("w/usr/lib/cgi-bin/x.cgi: a file of a device: changed: copied when"),
        "{told}"
    );
    assert_eq!(machine.exec("w", &["cat", "/etc/own"]).ok(), "the lab's");
    // Of root's lab, in which a node has a /usr of its own to write into.
    if rustix::process::geteuid().is_root() {
        assert_eq!(machine.exec("w", &["/usr/lib/cgi-bin/x.cgi"]).ok(), "page\n");
    }
    machine.down();
}

#[test]
fn a_file_of_holes_does_not_fill_a_node() {
    let machine = machine!();
    let folder = machine.scratch().path().join("lab");
    std::fs::create_dir_all(folder.join("pc1")).unwrap();
    std::fs::write(folder.join("lab.conf"), "pc1[0]=A\n").unwrap();
    std::fs::File::create(folder.join("pc1/holes")).unwrap().set_len(1 << 40).unwrap();
    let args = ["up".as_ref(), "--host-programs".as_ref(), folder.as_os_str()];
    let refused = machine.netloom(args).bound(BOUND).finish().code(1);
    let words = refused.errors();
    assert!(words.contains("pc1/holes\": copy: its 1099511627776 bytes do not fit"), "{words}");
    machine.untouched();
}

#[test]
fn what_a_topology_takes_of_the_host_is_told() {
    let machine = machine!();
    let file = machine.scratch().path().join("x.clab.yml");
    let text = "topology:\n  nodes:\n    a: {kind: linux, image: x, binds: [\"/:/host:rw\"]}\n    b: {kind: linux, image: x, binds: [\"/etc/hosts:/x\"]}\n";
    std::fs::write(&file, text).unwrap();
    let checked = machine.netloom(["check".as_ref(), file.as_os_str()]).finish().code(0).errors();
    let sees = "the node sees the host's own \"/\" outside of the lab's folder, and may change it";
    assert!(checked.contains(sees), "{checked}");
    let text = text.replace("    a: {kind: linux, image: x, binds: [\"/:/host:rw\"]}\n", "");
    std::fs::write(&file, text).unwrap();
    let told = up(&machine, &file);
    assert!(told.contains("changed: a copy of the host's \"/etc/hosts\""), "{told}");
    machine.down();
}

#[test]
fn a_script_that_is_run_is_named() {
    needs!("python3");
    let machine = machine!();
    let script = lab("mininet/router.py");
    let line = format!("netloom: {}: a script for Mininet: python3 runs it\n", script.display());
    for verb in ["check", "graph", "test"] {
        let told = machine.netloom([verb.as_ref(), script.as_os_str()]).bound(BOUND).finish();
        assert!(told.errors().starts_with(&line), "{verb}: {}", told.errors());
    }
    machine.untouched();
}

/// The owner of a folder exchanges a file and a link while root brings the lab up.
#[test]
fn links_of_another_user_are_not_followed() {
    root_only!("makes files of another user");
    const STRANGER: Option<u32> = Some(1);
    let machine = machine!();
    let folder = machine.scratch().path().join("lab");
    let secret = machine.scratch().file("secret", "the host's");
    std::fs::create_dir_all(folder.join("pc1/etc")).unwrap();
    std::fs::write(folder.join("lab.conf"), "pc1[0]=A\n").unwrap();
    let (file, link) = (folder.join("pc1/etc/taken"), folder.join("link"));
    std::fs::write(&file, "the lab's").unwrap();
    symlink(&secret, &link).unwrap();
    lchown(&link, STRANGER, STRANGER).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let swap = rustix::fs::RenameFlags::EXCHANGE;
                rustix::fs::renameat_with(CWD, &file, CWD, &link, swap).unwrap();
            }
        });
        let all = rounds(20);
        for _ in 0..all {
            let args = ["up".as_ref(), "--host-programs".as_ref(), folder.as_os_str()];
            let came = machine.netloom(args).bound(BOUND).finish();
            if came.status.success() {
                let read = machine.exec("pc1", &["cat", "/etc/taken"]).finish().text();
                assert!(read.is_empty() || read == "the lab's", "{read}");
                machine.netloom(["down"]).finish().code(0);
            }
        }
        done.store(true, Ordering::Relaxed);
        netloom_tests_e2e::done("labs of a folder whose owner exchanges a file and a link", all);
    });
    // Standing still, it is named.
    if file.is_symlink() {
        std::fs::rename(&link, &file).unwrap();
    }
    let away = folder.join("away");
    symlink(&secret, &away).unwrap();
    lchown(&away, STRANGER, STRANGER).unwrap();
    for key in ["files: {/etc/taken: {from: lab/away}}", "binds: {/srv: lab/away}"] {
        let own = machine.file(&format!("nodes: {{a: {{{key}}}}}\n"));
        let refused = machine.netloom(["up".as_ref(), own.as_os_str()]).finish().code(1);
        refused.says("lab/away\" is a link of user 1, who can change where it leads");
    }
    machine.untouched();
}

#[test]
fn a_topology_comes_on_standard_input() {
    let machine = machine!();
    let text = "name: pair\ntopology:\n  nodes:\n    a: {kind: linux, image: alpine:3}\n";
    let done = machine.netloom(["import", "-"]).input(text).finish().code(0);
    assert!(done.text().contains("name: pair\n"), "{}", done.text());
    machine.netloom(["check", "-"]).input(text).finish().code(0);
    let none = machine.netloom(["import", "-"]).input("nodes: {}\n").finish().code(2);
    let errors = none.errors();
    assert!(errors.contains("standard input") && errors.contains("no lab of"), "{errors}");
}
