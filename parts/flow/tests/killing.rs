//! A switch whose process is killed: the next one has its tables, counters and ports.

use netloom_kit::isolated;
use netloom_openflow::flow::FlowCommand;
use netloom_openflow::group::GroupCommand;
use netloom_openflow::meter::MeterCommand;
use netloom_openflow::port::{PortConfig, PortFeatures};
use netloom_openflow::{Message, PortMod, PortNumber, text};

use super::world::{Switch, frame, wait};

#[test]
fn the_next_process_has_what_was_confirmed() {
    isolated!({
        let mut switch = Switch::secure();
        let [mut a, mut b] = switch.nodes();
        let mut peer = switch.peer();
        let group = "group_id=3,type=all,bucket=actions=output:2";
        peer.say(&Message::GroupMod(text::group(GroupCommand::Add, group).unwrap()));
        let meter = "meter=4,pktps,band=type=drop,rate=1000000";
        peer.say(&Message::MeterMod(text::meter(MeterCommand::Add, meter).unwrap()));
        peer.add("table=0,in_port=1,udp,idle_timeout=300,send_flow_rem,actions=meter:4,group:3");
        peer.add("table=5,cookie=7,tcp,tp_dst=80,actions=set_field:81->tcp_dst,output:2");
        peer.add("table=6,actions=drop");
        peer.flow(FlowCommand::Delete, "table=6");
        peer.say(&Message::PortMod(PortMod {
            port: PortNumber(1),
            address: mac_of(&switch, 0),
            config: PortConfig::NO_FWD,
            mask: PortConfig::NO_FWD,
            advertise: PortFeatures::default(),
        }));
        peer.barrier();
        let sent = frame("dl_src=02:00:00:00:00:01,udp,tp_dst=9");
        for _ in 0..5 {
            a.send(&sent);
        }
        for _ in 0..5 {
            b.expect(&sent);
        }
        let before = switch.control().tables(None).unwrap();
        assert_eq!(before.tables[0].entries[0].packets, 5);
        // Counters are saved every second while packets flow: until the file has grown again.
        let state = switch.application.state.clone();
        let length = || std::fs::metadata(&state).unwrap().len();
        let (then, mut count) = (length(), 5);
        wait("counters are saved", || {
            a.send(&sent);
            count += 1;
            (length() > then).then_some(())
        });
        switch.kill();
        switch.run();
        let after = switch.control().tables(None).unwrap();
        let flows = |tables: &netloom_flow::control::requests::Tables| {
            let entries = tables.tables.iter().flat_map(|table| table.entries.clone());
            entries.map(|entry| entry.flow).collect::<Vec<_>>()
        };
        assert_eq!(flows(&after), flows(&before));
        assert_eq!((after.groups, after.meters), (before.groups, before.meters));
        let counted = after.tables[0].entries[0].packets;
        assert!((5..=count).contains(&counted), "{counted}");
        assert!(after.tables[0].entries[0].age_ms >= before.tables[0].entries[0].age_ms);
        let shown = switch.show();
        assert_eq!((shown.takeovers, shown.ports.len()), (1, 2));
        assert_eq!(shown.ports[0].config, ["no-fwd"]);
        // It forwards, though nobody has told it anything again.
        let other = frame("dl_src=02:00:00:00:00:01,udp,tp_dst=10");
        a.send(&other);
        b.expect(&other);
    });
}

fn mac_of(switch: &Switch, port: usize) -> [u8; 6] {
    let text = switch.show().ports[port].mac.clone();
    let bytes: Vec<u8> = text.split(':').map(|b| u8::from_str_radix(b, 16).unwrap()).collect();
    bytes.try_into().unwrap()
}

#[test]
fn one_that_is_told_to_end_has_exact_counters_afterwards() {
    isolated!({
        let mut switch = Switch::secure();
        let [mut a, mut b] = switch.nodes();
        let mut peer = switch.peer();
        peer.add("in_port=1,actions=output:2");
        peer.barrier();
        let sent = frame("dl_src=02:00:00:00:00:01,udp");
        for _ in 0..17 {
            a.send(&sent);
        }
        for _ in 0..17 {
            b.expect(&sent);
        }
        switch.control().stop().unwrap();
        assert!(switch.ended());
        switch.run();
        let flows = switch.peer().flows();
        assert_eq!((flows[0].packets, flows[0].bytes), (17, 17 * 60));
        let ports = switch.show().ports;
        assert_eq!(ports[1].counters["sent-packets"], 17);
    });
}

/// At any moment: what a barrier confirmed is there.
#[test]
fn kills_at_any_moment_lose_nothing_confirmed() {
    isolated!({
        let mut switch = Switch::secure();
        let rounds = netloom_kit::rounds(6);
        let mut confirmed = 0;
        for round in 0..rounds {
            let path = switch.openflow();
            let writing = std::thread::spawn(move || {
                let mut peer = super::world::Peer::unix(&path);
                let mut done = 0_u64;
                // Until the switch is killed.
                for number in 0..=u16::MAX {
                    let said = format!("in_port={},udp,tp_dst={number},actions=drop", round + 1);
                    let change = text::flow(FlowCommand::Add, &said, peer.version).unwrap();
                    let flow = netloom_openflow::encode(peer.version, 1, &Message::FlowMod(change));
                    let barrier =
                        netloom_openflow::encode(peer.version, 2, &Message::BarrierRequest);
                    let bytes = [flow.unwrap(), barrier.unwrap()].concat();
                    if !peer.try_write(&bytes) {
                        break;
                    }
                    match peer.next() {
                        Some((_, Message::BarrierReply)) => done += 1,
                        Some(other) => panic!("{other:?}"),
                        None => break,
                    }
                }
                done
            });
            let enough = u64::from(round) * 37 % 200 + 1;
            wait("some entries", || (switch.show().entries > confirmed + enough).then_some(()));
            switch.kill();
            confirmed += writing.join().unwrap();
            switch.run();
            let found = switch.show().entries;
            // One more may have been done whose answer nobody heard.
            assert!(found >= confirmed && found <= confirmed + 1, "{found} {confirmed}");
            confirmed = found;
        }
        netloom_kit::done("kills of an OpenFlow switch", rounds);
        assert_eq!(switch.show().takeovers, u64::from(rounds));
    });
}

#[test]
fn a_broken_state_file_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let application = netloom_flow::Application::new("s1", 1, folder.path());
    std::fs::write(&application.state, [b'x'; 50]).unwrap();
    let told = serde_json::to_string(&application).unwrap();
    let out = super::process::command(folder.path(), &told).output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(!out.status.success() && said.contains("BrokenState"), "{said}");
    assert_eq!(std::fs::read(&application.state).unwrap(), [b'x'; 50]);
}
