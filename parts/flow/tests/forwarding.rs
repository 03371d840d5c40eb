//! Frames go where the tables say, and are counted.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use netloom_flow::application::Fail;
use netloom_flow::control::requests::TraceWhat;
use netloom_kit::isolated;
use netloom_netlink::Socket;
use netloom_openflow::{Message, PacketOut, PortNumber};

use super::world::{BOUND, Node, Switch, frame, wait};

const TO_2: &str = "dl_dst=02:00:00:00:00:02,dl_src=02:00:00:00:00:01,udp,tp_dst=5";
const TO_1: &str = "dl_dst=02:00:00:00:00:01,dl_src=02:00:00:00:00:02,udp,tp_dst=6";

#[test]
fn without_a_controller_it_learns_and_entries_go_before() {
    isolated!({
        let switch = Switch::start();
        let [mut a, mut b, mut c] = switch.nodes();
        a.send(&frame(TO_2));
        b.expect(&frame(TO_2));
        c.expect(&frame(TO_2));
        b.send(&frame(TO_1));
        a.expect(&frame(TO_1));
        // Only an end that is known gets it now: the flood that follows is what the other sees first.
        a.send(&frame(TO_2));
        b.expect(&frame(TO_2));
        let mut peer = switch.peer();
        peer.add("in_port=1,udp,actions=output:3");
        peer.barrier();
        a.send(&frame(TO_2));
        assert_eq!(c.expect(&frame(TO_2)), 0);
        let shown = switch.show();
        assert!(!shown.standalone && shown.fail == Fail::Standalone);
        assert_eq!(shown.plane.kind == "packet-sockets", shown.plane.slower.is_some());
        // A client that only asks is not a controller.
        b.send(&frame(TO_1));
        a.expect(&frame(TO_1));
    });
}

#[test]
fn entries_change_and_count_frames() {
    isolated!({
        let switch = Switch::secure();
        let [mut a, mut b] = switch.nodes();
        let mut peer = switch.peer();
        peer.add("in_port=1,actions=push_vlan:0x8100,set_field:4101->vlan_vid,output:2");
        peer.add("in_port=2,vlan_tci=0x1007/0x1fff,actions=pop_vlan,output:1");
        peer.barrier();
        let plain = frame(TO_2);
        let mut tagged = plain[..12].to_vec();
        tagged.extend([0x81, 0, 0, 5]);
        tagged.extend(&plain[12..]);
        for _ in 0..10 {
            a.send(&plain);
        }
        for _ in 0..10 {
            assert_eq!(b.expect(&tagged), 0);
        }
        let mut back = frame(TO_1)[..12].to_vec();
        back.extend([0x81, 0, 0, 7]);
        back.extend(&frame(TO_1)[12..]);
        b.send(&back);
        a.expect(&frame(TO_1));
        let mut flows = peer.flows();
        flows.sort_by_key(|flow| flow.packets);
        assert_eq!(flows.iter().map(|flow| flow.packets).collect::<Vec<_>>(), [1, 10]);
        assert_eq!(flows[1].bytes, 10 * 60);
        let ports = switch.show().ports;
        assert_eq!(ports[0].counters["received-packets"], 10);
        assert_eq!(ports[1].counters["sent-bytes"], 10 * 64);
    });
}

#[test]
fn streams_of_super_frames_arrive_whole() {
    isolated!({
        const BYTES: usize = 8 << 20;
        let switch = Switch::secure();
        let [a, b] = switch.nodes();
        a.configure(1, &[2]);
        b.configure(2, &[1]);
        let mut peer = switch.peer();
        peer.add("in_port=1,actions=output:2");
        peer.add("in_port=2,actions=output:1");
        peer.barrier();
        let listener = b.net.run(|| TcpListener::bind("10.9.0.2:7").expect("listen"));
        let sender = std::thread::spawn(move || {
            let mut stream = a.net.run(|| TcpStream::connect("10.9.0.2:7").expect("connect"));
            stream.set_write_timeout(Some(BOUND)).expect("a timeout");
            let block: Vec<u8> = (0..1 << 16).map(|n: u32| n.to_le_bytes()[0]).collect();
            for _ in 0..BYTES / block.len() {
                stream.write_all(&block).expect("send");
            }
            a
        });
        let (mut stream, _) = listener.accept().expect("accept");
        stream.set_read_timeout(Some(BOUND)).expect("a timeout");
        let mut got = vec![];
        stream.read_to_end(&mut got).expect("receive");
        sender.join().expect("the sender");
        assert_eq!(got.len(), BYTES);
        assert!(got.iter().zip(0..).all(|(byte, n): (&u8, usize)| *byte == n.to_le_bytes()[0]));
        // Tables see packets as on a wire, whatever came in one piece.
        let counted = peer.flows().iter().map(|flow| flow.packets).max();
        assert!(counted >= Some(u64::try_from(BYTES / 1448).expect("few")), "{counted:?}");
    });
}

#[test]
fn what_a_controller_sends_leaves_before_the_barrier_is_answered() {
    isolated!({
        let switch = Switch::secure();
        let [mut a, mut b] = switch.nodes();
        let mut peer = switch.peer();
        // By the switch's ends: a CPU may put off what comes in at the other ones.
        let left = |node: &Node| {
            let link = Socket::open().unwrap().link(node.outer.as_str()).unwrap();
            link.unwrap().traffic.tx_packets
        };
        let before = [left(&a), left(&b)];
        for port in [1, 2, 1] {
            let actions = vec![netloom_openflow::Action::output(PortNumber(port))];
            let packet = PacketOut {
                buffer: netloom_openflow::flow::NO_BUFFER,
                in_port: PortNumber::CONTROLLER,
                actions,
                data: frame(TO_2),
            };
            peer.say(&Message::PacketOut(packet));
        }
        peer.barrier();
        assert_eq!([left(&a), left(&b)], [before[0] + 2, before[1] + 1]);
        for node in [&mut a, &mut b] {
            assert_eq!(node.expect(&frame(TO_2)), 0);
        }
        assert_eq!(a.expect(&frame(TO_2)), 0);
        assert_eq!((a.receive(), b.receive()), (None, None));
    });
}

#[test]
fn a_change_is_obeyed_when_the_barrier_is_answered() {
    isolated!({
        let switch = Switch::secure();
        let [mut a, mut b, mut c] = switch.nodes();
        let mut peer = switch.peer();
        for round in 0..50u16 {
            let to = if round % 2 == 0 { 2 } else { 3 };
            peer.add(&format!("in_port=1,actions=output:{to}"));
            peer.barrier();
            let sent = frame(&format!("dl_src=02:00:00:00:00:01,udp,tp_dst={round}"));
            a.send(&sent);
            let node = if to == 2 { &mut b } else { &mut c };
            assert_eq!(node.expect(&sent), 0);
        }
        assert_eq!((b.receive(), c.receive()), (None, None));
    });
}

#[test]
fn a_trace_says_what_happens_and_does_nothing() {
    isolated!({
        let switch = Switch::secure();
        let [mut a, mut b] = switch.nodes();
        let mut peer = switch.peer();
        peer.add("table=0,priority=7,tcp,nw_dst=10.0.0.0/8,actions=goto_table:4");
        peer.add("table=4,tcp,tp_dst=80,actions=set_field:10.9.9.9->ip_dst,output:2");
        peer.barrier();
        let what = TraceWhat::Match("in_port=1,tcp,nw_dst=10.0.0.2,tp_dst=80".into());
        let traced = switch.control().trace(what).unwrap();
        assert_eq!(traced.steps.iter().map(|step| step.table).collect::<Vec<_>>(), [0, 4]);
        let first = traced.steps[0].entry.as_deref().unwrap();
        assert!(first.starts_with("priority=7,tcp,"), "{first}");
        assert_eq!(traced.effects.last().unwrap(), "output:2");
        assert_eq!((traced.sent[0].port, traced.sent[0].name.as_str()), (2, "port2"));
        assert!(traced.decided_by.contains("tcp") && traced.not_kept.is_none(), "{traced:?}");
        let other = TraceWhat::Match("in_port=port1,tcp,nw_dst=11.0.0.2,tp_dst=80".into());
        let other = switch.control().trace(other).unwrap();
        assert_eq!(other.drops, ["no entry matches"]);
        let whole = TraceWhat::Frame { port: 1.into(), hex: traced.frame.clone() };
        let whole = switch.control().trace(whole).unwrap();
        assert_eq!(whole, traced);
        for (text, says) in [
            ("tcp", "in_port=1"),
            ("in_port=9", "port 9: there is none"),
            ("in_port=1,no_such=5", "no_such"),
        ] {
            let error = switch.control().trace(TraceWhat::Match(text.into())).unwrap_err();
            assert!(error.to_string().contains(says), "{text}: {error}");
        }
        assert!(peer.flows().iter().all(|flow| flow.packets == 0));
        a.send(&frame("dl_src=02:00:00:00:00:01,tcp,nw_dst=10.0.0.2,tp_dst=80"));
        wait("the frame", || b.receive());
        let tables = switch.control().tables(None).unwrap();
        assert_eq!(tables.tables.iter().map(|t| t.matched).collect::<Vec<_>>(), [1, 1]);
        assert_eq!(tables.tables[1].entries[0].packets, 1);
    });
}
