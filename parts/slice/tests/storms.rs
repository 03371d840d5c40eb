//! Storms of one slice beside another: long lists of actions, what expires together, settings, pieces of messages.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use netloom_kit::worked_exactly;
use netloom_openflow::async_config::AsyncConfig;
use netloom_openflow::flow::{FlowCommand, NO_BUFFER};
use netloom_openflow::port::{PortConfig, PortMod};
use netloom_openflow::role::{Role, RoleMessage};
use netloom_openflow::{
    Action, FlowMod, Instruction, Match, Message, PacketOut, Port, PortNumber, Version, text,
};

use super::work::{SOON, bytes, fill, flow, is_soon, of_vlans, resident};
use super::world::{Slicer, Switch, two, wait};

/// An entry in words, with these actions.
fn with(said: &str, command: FlowCommand, actions: Vec<Action>) -> Vec<u8> {
    let change = text::flow(command, said, Version::V13).expect("an entry");
    let instructions = vec![Instruction::ApplyActions(actions)];
    bytes(&Message::FlowMod(FlowMod { instructions, ..change }))
}

fn long(count: usize) -> Vec<Action> {
    let mut actions = vec![Action::SetQueue(1); count];
    actions.push(Action::output(PortNumber(2)));
    actions
}

#[test]
fn long_lists_hold_up_no_other_slice() {
    let slicer = Slicer::start(&of_vlans(300));
    let _switch = Switch::start(slicer.openflow());
    slicer.ready();
    // In the switch 600 entries.
    let add = with("in_port=1,actions=drop", FlowCommand::Add, long(80));
    is_soon("a rule of many entries", &slicer, &add);
    let one = |number: u32| {
        let to = std::net::Ipv4Addr::from(number);
        bytes(&flow(&format!("dl_vlan=1,ip,nw_dst={to},in_port=1,actions=drop")))
    };
    let many: Vec<u8> = (0..2000).flat_map(one).collect();
    is_soon("2,000 rules", &slicer, &many);
    let modify = with("ip,actions=drop", FlowCommand::Modify, long(8000));
    is_soon("they are to do much, which is too much", &slicer, &modify);
    let packet = PacketOut {
        buffer: NO_BUFFER,
        in_port: PortNumber(1),
        actions: long(4000),
        data: super::hostile::tagged(1),
    };
    is_soon("packets", &slicer, &bytes(&Message::PacketOut(packet)).repeat(100));
}

#[test]
fn settings_hold_up_no_other_slice() {
    let slicer = Slicer::with(&two(""), |application| application.probe = 60);
    let _switch = Switch::start(slicer.openflow());
    slicer.ready();
    let _red = fill(&slicer, "red", "flood");
    let port = |number| Port::new(PortNumber(number), [2, 0, 0, 0, 0, 1], "p1");
    let set = |config| {
        Message::PortMod(PortMod {
            port: PortNumber(1),
            address: port(1).address,
            config,
            mask: PortConfig::NO_FLOOD,
            advertise: port(1).advertised,
        })
    };
    let both = [bytes(&set(PortConfig::NO_FLOOD)), bytes(&set(PortConfig::default()))].concat();
    is_soon("ports leave floods and come back", &slicer, &both.repeat(3));
    let role = |generation| Message::RoleRequest(RoleMessage { role: Role::Master, generation });
    let settings: Vec<u8> = (0..2000)
        .flat_map(|at| {
            [
                bytes(&role(at)),
                bytes(&Message::SetAsync(AsyncConfig::default())),
                bytes(&Message::GetAsyncRequest),
            ]
            .concat()
        })
        .collect();
    is_soon("roles and interests", &slicer, &settings);
    let modify = text::flow(FlowCommand::Modify, "actions=flood", Version::V13).expect("entries");
    is_soon("all flood again", &slicer, &bytes(&Message::FlowMod(modify)));
}

/// A byte at a time, and a message that never ends.
#[test]
fn pieces_of_messages_hold_up_no_other_slice() {
    let slicer = Slicer::start(&two(""));
    let _switch = Switch::start(slicer.openflow());
    slicer.ready();
    let pid = slicer.show().pid;
    let (red, mut blue) = (slicer.peer("red"), slicer.peer("blue"));
    let mut writer = red.socket.try_clone().expect("a descriptor");
    let said = bytes(&flow("in_port=1,actions=output:2")).repeat(300);
    let writing = std::thread::spawn(move || {
        said.iter().for_each(|byte| writer.write_all(&[*byte]).expect("taken"));
        writer.write_all(&[4, 14, 0xff, 0xff, 0, 0, 0, 1]).expect("taken");
    });
    let mut most = Duration::ZERO;
    while !writing.is_finished() {
        let before = worked_exactly(pid);
        blue.barrier();
        most = most.max(worked_exactly(pid) - before);
    }
    writing.join().expect("written");
    assert!(most < SOON, "{most:?}");
    wait("its rule is there", || (slicer.of("red").rules == 1).then_some(()));
}

/// In OpenFlow 1.0 the switch tells all entries, whosever they are.
#[test]
fn entries_of_1_0_are_told_and_hold_up_no_other_slice() {
    let slicer = Slicer::with(&two(""), |application| application.probe = 60);
    let _switch = Switch::of(slicer.openflow(), &[Version::V10]);
    slicer.ready();
    let (mut red, mut blue) = (V10::of(&slicer, "red"), V10::of(&slicer, "blue"));
    let many: Vec<u8> = (0..15_000u32).flat_map(V10::entry).collect();
    red.socket.write_all(&many).expect("taken");
    red.ask(18);
    let mut writer = red.socket.try_clone().expect("a descriptor");
    let mut reader = red.socket.try_clone().expect("a descriptor");
    std::thread::spawn(move || drop(std::io::copy(&mut reader, &mut std::io::sink())));
    writer.write_all(&V10::all_entries().repeat(20)).expect("taken");
    let pid = slicer.show().pid;
    let (mut times, mut most) = (vec![], Duration::ZERO);
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(4) {
        let (asked, before) = (Instant::now(), worked_exactly(pid));
        blue.ask(18);
        times.push(asked.elapsed());
        most = most.max(worked_exactly(pid) - before);
    }
    times.sort_unstable();
    println!(
        "{} barriers of 1.0, p50 {:?}, p99 {:?}, {most:?}",
        times.len(),
        times[times.len() / 2],
        times[times.len() * 99 / 100]
    );
    println!("{} KiB", resident(&slicer));
    assert!(most < SOON, "{most:?}");
}

/// A peer that speaks OpenFlow 1.0, in bytes.
struct V10 {
    socket: UnixStream,
}

impl V10 {
    fn of(slicer: &Slicer, slice: &str) -> V10 {
        let path = slicer.folder.path().join(format!("{slice}.s"));
        let mut socket = wait("a socket", || UnixStream::connect(&path).ok());
        socket.write_all(&[1, 0, 0, 8, 0, 0, 0, 1]).expect("a hello");
        let mut one = V10 { socket };
        assert_eq!(one.hear()[..2], [1, 0]);
        one
    }

    /// The header of the next message.
    fn hear(&mut self) -> [u8; 8] {
        let mut header = [0; 8];
        self.socket.read_exact(&mut header).expect("a message");
        let length = usize::from(u16::from_be_bytes([header[2], header[3]]));
        self.socket.read_exact(&mut vec![0; length - 8]).expect("a message");
        header
    }

    /// Sends a message without a body, and waits for its answer.
    fn ask(&mut self, kind: u8) {
        self.socket.write_all(&[1, kind, 0, 8, 9, 9, 9, 9]).expect("taken");
        loop {
            let mut header = self.hear();
            if header[1] == 2 {
                header[1] = 3;
                self.socket.write_all(&header).expect("taken");
            }
            if header[4..] == [9, 9, 9, 9] {
                return;
            }
        }
    }

    fn entry(number: u32) -> Vec<u8> {
        let said =
            format!("in_port=1,ip,nw_dst={},actions=output:2", std::net::Ipv4Addr::from(number));
        let change = text::flow(FlowCommand::Add, &said, Version::V10).expect("an entry");
        netloom_openflow::encode(Version::V10, 7, &Message::FlowMod(change)).expect("an entry")
    }

    fn all_entries() -> Vec<u8> {
        let request = netloom_openflow::multipart::FlowRequest::new(Match::V10(
            netloom_openflow::matching::Match10::default(),
        ));
        let body = netloom_openflow::Request::Flow(request);
        let request = netloom_openflow::multipart::MultipartRequest { flags: 0, body };
        netloom_openflow::encode(Version::V10, 8, &Message::MultipartRequest(request))
            .expect("a request")
    }
}
