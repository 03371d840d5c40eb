//! A switch, or a port, in a process of its own: for the tests, which kill it.
//!
//! `switch-station serve SOCKET STATE MODE` serves until it is told to stop.
//! `switch-station join SOCKET NAME` joins by hand, says `joined` or why not, and stays until its
//! input ends.

use std::io::{Read, Write};
use std::path::Path;

use netloom_switch::{Options, listen, serve};

#[path = "../tests/world/mod.rs"]
mod world;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
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
        _ => panic!("serve SOCKET STATE MODE, or join SOCKET NAME"),
    }
}

fn say(line: &str) {
    println!("{line}");
    std::io::stdout().flush().expect("say");
}
