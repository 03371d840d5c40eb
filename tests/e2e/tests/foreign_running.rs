//! Scripts for Mininet that change their network while it runs, or are ended.

use std::path::Path;
use std::time::Duration;

use netloom_tests_e2e::{Machine, machine, needs, wait_until};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

/// A busy machine may need long for each command.
const BOUND: Duration = Duration::from_secs(180);

/// As in Mininet's FAQ: a host that comes later gets its address by `configDefault`.
const GROWS: &str = r"
from mininet.link import TCLink
from mininet.net import Mininet
from mininet.node import OVSBridge
from mininet.topo import SingleSwitchTopo
net = Mininet(topo=SingleSwitchTopo(2), switch=OVSBridge, controller=None, link=TCLink)
net.start()
h5 = net.addHost('h5', ip='10.0.0.50/8')
link = net.addLink(h5, net['s1'], delay='1ms')
net['s1'].attach(link.intf2)
h5.configDefault()
print('address', h5.cmd('cat /sys/class/net/h5-eth0/address').strip() == h5.MAC(), h5.pid > 1)
print('lost', net.ping([net['h1'], h5]))
direct = net.addLink(h5, net['h1'])
direct.intf1.setIP('192.168.5.1/24'); direct.intf2.setIP('192.168.5.2/24')
print('direct', ' 0% packet loss' in h5.cmd('ping -c 1 -W 5 192.168.5.2'))
net.configLinkStatus('h5', 's1', 'down')
print('cut', ' 100% packet loss' in h5.cmd('ping -c 1 -W 1 10.0.0.1'))
net.delLink(direct)
print('gone', 'h5-eth1' not in h5.cmd('ip -br link'))
net.delNode(h5)
print('left', net.pingAll())
net.addSwitch('s9')
";

#[test]
fn a_running_network_gets_hosts_and_links() {
    needs!("python3", "ip");
    let machine = machine!();
    machine.scratch().file("grows.py", GROWS);
    let run = machine.netloom(["run", "grows.py"]).bound(BOUND).finish().code(1);
    let said = run.text();
    for line in [
        "address True True\n",
        "lost 0.0\n",
        "direct True\n",
        "cut True\n",
        "gone True\n",
        "left 0.0\n",
    ] {
        assert!(said.contains(line), "{line:?}: {said}\n{}", run.errors());
    }
    let refused = "addSwitch('s9'): a running network gets hosts and links";
    assert!(run.errors().contains(refused), "{}", run.errors());
    assert!(!run.errors().contains("Traceback"), "{}", run.errors());
    machine.untouched();
}

/// What a switch that learns by itself does not do, and would do in Mininet.
const IN_VAIN: &str = r"
import os
from mininet.net import Mininet
from mininet.node import OVSBridge
from mininet.topo import SingleSwitchTopo
net = Mininet(topo=SingleSwitchTopo(2), switch=OVSBridge, controller=None)
net.start()
for _ in range(2):
    net['s1'].cmd('ovs-vsctl set port s1-eth1 tag=10')
    net['s1'].cmd('ovs-ofctl add-flow s1 actions=drop || true')
    net['s1'].cmd('tc qdisc add dev s1-eth1 root netem delay 100ms')
    net['s1'].dpctl('add-flow', 'actions=drop')
net['s1'].cmd('false')
print('system', os.system('ovs-vsctl show 2> /dev/null') != 0)
net.stop()
";

#[test]
fn commands_at_a_switch_that_do_nothing_are_told_once() {
    needs!("python3", "ip");
    let machine = machine!();
    machine.scratch().file("vain.py", IN_VAIN);
    let run = machine.netloom(["run", "vain.py"]).bound(BOUND).finish().code(0);
    let told = run.errors();
    for command in [
        "s1: `ovs-vsctl set port s1-eth1 tag=10` did nothing",
        "s1: `ovs-ofctl add-flow s1 actions=drop || true` did nothing",
        "s1: `tc qdisc add dev s1-eth1 root netem delay 100ms` did nothing",
        "s1: `dpctl add-flow actions=drop` did nothing",
    ] {
        assert_eq!(told.matches(command).count(), 1, "{command}: {told}");
    }
    assert_eq!(told.matches("did nothing").count(), 4, "{told}");
    // The machine's own Open vSwitch is out of reach.
    assert!(run.text().contains("system True\n"), "{}", run.text());
    machine.untouched();
}

/// A script whose network runs; `told` gets the process of netloom and its own.
fn sleeper(machine: &Machine, told: &Path) {
    let script = format!(
        "import os, time\nfrom mininet.net import Mininet\nfrom mininet.topo import SingleSwitchTopo\n\
         net = Mininet(topo=SingleSwitchTopo(2), controller=None)\nnet.start()\n\
         open('new', 'w').write(f'{{os.getppid()}} {{os.getpid()}}')\nos.rename('new', {told:?})\n\
         while True: time.sleep(1)\n"
    );
    machine.scratch().file("sleeper.py", script);
}

#[test]
fn a_script_that_is_ended_takes_its_network_down() {
    needs!("python3");
    for signal in [Signal::TERM, Signal::HUP, Signal::INT, Signal::KILL] {
        ended_by(machine!(), signal);
    }
}

fn ended_by(machine: Machine, signal: Signal) {
    let folder = machine.scratch().path();
    let told = folder.join("told");
    sleeper(&machine, &told);
    let mut run = machine.netloom(["run", "sleeper.py"]).dir(folder).bound(BOUND).spawn();
    let pids = wait_until("the network", BOUND, || std::fs::read_to_string(&told).ok());
    let pids: Vec<i32> = pids.split(' ').map(|pid| pid.parse().unwrap()).collect();
    let script = pidfd_open(Pid::from_raw(pids[1]).unwrap(), PidfdFlags::empty()).unwrap();
    kill_process(Pid::from_raw(pids[0]).unwrap(), signal).unwrap();
    run.wait().unwrap();
    let patience = Timespec { tv_sec: 120, tv_nsec: 0 };
    let ended = poll(&mut [PollFd::new(&script, PollFlags::IN)], Some(&patience));
    assert_eq!(ended, Ok(1), "{signal:?}: the script runs on");
    machine.untouched();
}
