//! What the receiver of a flow does with its packets: sockets that take them, and their room.

use crate::cause::{Cause, CauseName};
use crate::facts::{Facts, Life, Listener, Node};
use crate::flow::Protocol;
use crate::nft::Hook;
use crate::walk::{Share, Stop, Walker};

impl<F: Facts> Walker<'_, F> {
    /// What the receiver does with a packet.
    pub(crate) fn deliver(&mut self, node: &Node, came: Option<&str>) -> Result<(), F::Error> {
        self.hook(node, Hook::Input, came, None)?;
        if self.flow.answers || self.redirected || node.life != Life::Up {
            return Ok(());
        }
        match self.flow.protocol {
            Protocol::Icmp => self.echo(node),
            Protocol::Tcp | Protocol::Udp => self.listeners(node, came)?,
        }
        Ok(())
    }

    /// ip-sysctl.rst, `icmp_echo_ignore_all`.
    fn echo(&mut self, node: &Node) {
        let (ignores, dotted) = match self.flow.destination.is_ipv4() {
            true => (node.ignores_echo, "net.ipv4.icmp_echo_ignore_all"),
            false => (node.ignores_echo6, "net.ipv6.icmp.echo_ignore_all"),
        };
        if !ignores {
            return;
        }
        let name = &node.name;
        let setting = dotted.rsplit('.').next().unwrap_or(dotted);
        let cause = Cause::new(
            CauseName::EchoIgnored,
            format!("node {name}"),
            format!("node {name} leaves echo requests unanswered"),
        );
        let cause = cause
            .evidence(format!("{setting} is 1"))
            .mend(self.exec(name, &format!("sysctl -w {dotted}=0")));
        self.stop(cause);
    }

    /// A segment for a port without a socket is answered by a reset (RFC 9293 section 3.10.7.1), a datagram by ICMP
    /// port unreachable (RFC 1122 section 4.1.3.1).
    fn listeners(&mut self, node: &Node, came: Option<&str>) -> Result<(), F::Error> {
        let (port, to) = (self.flow.ports[1], self.flow.destination);
        let protocol = self.flow.protocol.number(to.is_ipv4());
        let of_port = |l: &&Listener| l.protocol == protocol && l.local.port() == port;
        let all: Vec<_> = node.listeners.iter().filter(of_port).collect();
        // SO_BINDTODEVICE (socket(7)).
        let came = came.and_then(|came| node.interface(came)).map(|i| i.index);
        let of_device = |l: &Listener| l.device.is_none() || came.is_none() || l.device == came;
        let takes = |l: &&&Listener| {
            // A socket of IPv6 may be bound to an address of IPv4 (ipv6(7)).
            let ip = l.local.ip().to_canonical();
            // An unspecified address of IPv6 takes IPv4, too, unless IPV6_V6ONLY is set (ipv6(7)).
            let other_family = ip.is_ipv6() && to.is_ipv4();
            let any = ip.is_unspecified() && (ip.is_ipv6() || to.is_ipv4());
            (ip == to || any && !(other_family && l.six_only)) && of_device(l)
        };
        let name = &node.name;
        let proto = self.flow.protocol.name();
        match all.iter().find(takes) {
            Some(found) => {
                self.backlog(name, found.queue);
                self.buffer(name, found.room);
                if let Some(pid) = self.facts.stopped(name, found.inode)? {
                    self.stopped(name, pid);
                }
            }
            None if all.is_empty() => {
                let text = format!("nothing in node {name} takes {proto} on port {port}");
                let cause = Cause::new(CauseName::NothingListens, format!("node {name}"), text);
                self.stop(
                    cause.evidence(format!("node {name} has no {proto} socket for port {port}")),
                );
            }
            None => {
                let at: Vec<String> = all.iter().map(|l| where_it_takes(node, l)).collect();
                let text = format!("port {port} of node {name} is served at another address only");
                let cause = Cause::new(CauseName::ListensElsewhere, format!("node {name}"), text);
                let has = format!("its {proto} socket is bound to {}, not to {to}", at.join(", "));
                self.stop(cause.evidence(has));
            }
        }
        Ok(())
    }

    /// The kernel accepts connections and keeps datagrams for it, up to its queue; nobody answers.
    fn stopped(&mut self, name: &str, pid: i32) {
        let at = self.walk.places.len();
        let port = self.flow.ports[1];
        let text =
            format!("the program on port {port} of node {name} is stopped, and answers nothing");
        let cause = Cause::new(CauseName::ProgramStopped, format!("node {name}"), text)
            .evidence(format!("process {pid} of node {name} is in state T (stopped)"))
            .mend(self.exec(name, &format!("kill -CONT {pid}")));
        self.add(Stop { from: at, to: at, share: Share::Some, cause });
    }

    /// A full queue drops requests for connections (listen(2), `sk_acceptq_is_full`).
    fn backlog(&mut self, name: &str, queue: Option<(u32, u32)>) {
        let Some((waiting, room)) = queue.filter(|(waiting, room)| waiting > room) else { return };
        let port = self.flow.ports[1];
        let cause = Cause::new(
            CauseName::BacklogFull,
            format!("node {name}"),
            format!("the program on port {port} of node {name} does not accept connections"),
        );
        self.stop(
            cause.evidence(format!("{waiting} connections wait to be accepted, and {room} may")),
        );
    }

    /// A datagram that finds no room is dropped (`__udp_enqueue_schedule_skb`). Even an empty one needs this much.
    fn buffer(&mut self, name: &str, room: Option<(u32, u32, u32)>) {
        const LEAST: u32 = 512;
        let full = |(used, most, dropped): &(u32, u32, u32)| {
            *dropped > 0 && used.saturating_add(LEAST) > *most
        };
        let udp = self.flow.protocol == Protocol::Udp;
        let Some((used, most, dropped)) = room.filter(full).filter(|_| udp) else { return };
        let port = self.flow.ports[1];
        let cause = Cause::new(
            CauseName::BufferFull,
            format!("node {name}"),
            format!(
                "the program on port {port} of node {name} does not read, and its socket has no more room"
            ),
        );
        self.stop(cause.evidence(format!(
            "{used} bytes of its receive buffer of {most} are taken, and it has dropped {dropped} datagrams"
        )));
    }
}

/// The address of a socket, and what else it wants of packets.
fn where_it_takes(node: &Node, listener: &Listener) -> String {
    let mut text = listener.local.to_string();
    if listener.six_only {
        text += " (IPv6 only)";
    }
    if let Some(device) = listener.device {
        let name = node.interfaces.iter().find(|i| i.index == device).map(|i| i.name.as_str());
        text += &format!(" of interface {}", name.unwrap_or("that is gone"));
    }
    text
}
