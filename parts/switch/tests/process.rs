//! A switch, or a port, in a process of its own: what the other tests start, and kill.
//!
//! `serve SOCKET STATE MODE` serves until it is told to stop.
//! `join SOCKET NAME` joins by hand, says `joined` or why not, and stays until its
//! input ends.
//! `vde SOCKET FOLDER HOME MODE` offers a switch to clients of classic VDE.
//! `client CTL PATH` joins as one, with its data socket at PATH, and says `joined` or `refused`.
//! `ask SOCKET` asks how the switch is, and says `shown` or why not.
//! `talk SOCKET NAME NUMBER PEERS…` joins as this port, and sends numbered frames to
//! its peers, port numbers, for as long as it lives. Each is greeted by a frame to all.

use std::io::{Read, Write};
use std::path::Path;
use std::process::Command;

use netloom_shm::{JoinOptions, MOST_FRAME, Received, SwitchPort};
use netloom_switch::control::Connection;
use netloom_switch::{Options, classic, listen, serve};

use super::world;

const ARGUMENTS: &str = "NETLOOM_TEST_STATION";

/// A command for one.
pub fn command(arguments: &[&str]) -> Command {
    let mut command = netloom_kit::again(&station);
    command.env(ARGUMENTS, arguments.join("\n"));
    command
}

#[test]
#[ignore = "helper: started by other tests"]
fn station() {
    // Ends the line in which libtest names this function.
    println!();
    let arguments = std::env::var(ARGUMENTS).expect("arguments");
    let arguments: Vec<&str> = arguments.split('\n').collect();
    match arguments[..] {
        ["serve", socket, state, mode] => {
            let mode = u32::from_str_radix(mode, 8).expect("a mode");
            let listener = listen(Path::new(socket), mode).expect("listen");
            say("ready");
            let options = Options { mode, ..Options::default() };
            serve(listener, Path::new(socket), Path::new(state), &options).expect("serve");
        }
        ["join", socket, name] => {
            say("ready");
            let inbox = netloom_shm::inbox::Inbox::create().expect("inbox");
            let port = world::Raw::with(Path::new(socket), &world::Ticket::new(name), inbox);
            match &port {
                Ok(port) => say(&format!("joined {}", port.joined.number)),
                Err((reason, text)) => say(&format!("{reason}: {text}")),
            }
            let _ = std::io::stdin().read(&mut [0]);
        }
        ["vde", socket, folder, home, mode] => {
            let mode = u32::from_str_radix(mode, 8).expect("a mode");
            let folder = classic::Folder::make(Path::new(folder), mode, None).expect("a folder");
            say("ready");
            let options = classic::Options {
                switch: socket.into(),
                mode,
                group: None,
                ageing: 60,
                home: home.into(),
            };
            classic::serve(folder, &options).expect("serve");
        }
        ["client", control, own] => {
            say("ready");
            let (control, own) = (Path::new(control), Path::new(own));
            let client = match own.exists() {
                true => world::classic::Client::with_others(control, own),
                false => world::classic::Client::try_join(control, own, 0, "client"),
            };
            say(if client.is_some() { "joined" } else { "refused" });
            let _ = std::io::stdin().read(&mut [0]);
        }
        ["ask", socket] => {
            say("ready");
            let switch = Connection::open(Path::new(socket)).expect("connect").expect("a switch");
            match switch.show() {
                Ok(_) => say("shown"),
                Err(e) => say(&e.to_string()),
            }
        }
        ["talk", socket, name, number, ref peers @ ..] => talk(socket, name, number, peers),
        _ => panic!("serve, join, ask or talk"),
    }
}

fn talk(socket: &str, name: &str, number: &str, peers: &[&str]) {
    let number: u8 = number.parse().expect("a number");
    let peers: Vec<u8> = peers.iter().map(|peer| peer.parse().expect("a number")).collect();
    let options = JoinOptions { number: number.into(), ..JoinOptions::new(socket, name) };
    let mut port = SwitchPort::join(&options).expect("join");
    let own = world::mac(number);
    world::send(&mut port, &world::frame(world::ALL, own, b"greetings"));
    say("ready");
    let mut buffer = vec![0; MOST_FRAME];
    for n in 0.. {
        for peer in &peers {
            // Frames for which its peers have no room do not concern this process.
            let frame = world::whole(&world::numbered(world::mac(*peer), own, n));
            let _ = port.send(&frame).expect("send");
        }
        while let Received::Frame { .. } = port.receive(&mut buffer).expect("receive") {}
    }
}

fn say(line: &str) {
    println!("{line}");
    std::io::stdout().flush().expect("say");
}
