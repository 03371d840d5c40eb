//! A whole session at the four interfaces of a line.

use std::sync::Arc;

use netloom_ebpf::Direction;
use netloom_ebpf::measure::{Clock, Marking};
use netloom_marking::session::Configuration;
use netloom_measure::{Error, Interfaces, Result, Session, Setup, Spot};
use netloom_sys::realtime::RealTime;

use super::net::{A, B, LEFT, Line, RIGHT};

/// The four interfaces of a line by names of the test's.
struct Places(Arc<Line>);

impl Interfaces for Places {
    fn names(&self) -> Result<Vec<String>> {
        Ok(["a", "left", "right", "b"].map(str::to_owned).to_vec())
    }

    fn visit(&self, netif: &str, work: &mut (dyn FnMut(u32) -> Result<()> + Send)) -> Result<()> {
        let line = &self.0;
        let (space, index) = match netif {
            "a" => (&line.a, A),
            "left" => (&line.middle, LEFT),
            "right" => (&line.middle, RIGHT),
            "b" => (&line.b, B),
            _ => return Err(Error::NoInterface { netif: netif.to_owned() }),
        };
        space.run(|| work(index))
    }
}

/// A session with these programs at all four, in blocks of this many nanoseconds, that goes on until it is stopped.
pub(crate) fn session(line: &Arc<Line>, program: &str, clock: Clock, block: u64) -> Session {
    let block = block as f64 / 1e9;
    let guard = block * 0.4;
    let body = format!(
        r#"{{{program}, "mp": {block}, "mpc": {block}, "guard": {guard}, "starter_mark": 8, "next_mark": 16,
            "filters": [{{"id": 1, "src_ip": "10.9.0.1", "dst_ip": "10.9.0.2", "proto": "udp",
            "dst_port": 5000}}]}}"#
    );
    let mut configuration = Configuration::read(body.as_bytes()).unwrap();
    configuration.duration = 0;
    let spot =
        |netif: &str, direction, marking| Spot { netif: netif.to_owned(), direction, marking };
    let (ingress, egress) = (Direction::Ingress, Direction::Egress);
    let spots = vec![
        spot("a", egress, Marking::Single),
        spot("left", ingress, Marking::Off),
        spot("right", egress, Marking::Off),
        spot("b", ingress, Marking::Off),
    ];
    let setup = Setup { configuration, spots, clock, keep: 100, cache: 0, flows: 0 };
    let session = Session::prepare(Arc::new(Places(Arc::clone(line))), setup).unwrap();
    // Its thread inherits it, and reads each block before a later one takes its place, whatever else the machine does.
    let first = RealTime::take();
    session.start().unwrap();
    drop(first);
    session
}
