//! Links whose state has been waited for are shown as they are.

use std::time::{Duration, Instant};

use netloom_netlink::{Batch, Change, EndSpec, Operational, Socket, VethSpec};

use super::fresh::with_netns;

/// More than one turn of the kernel's work queue takes.
const PAIRS: u32 = 300;

/// The first index: a new namespace may have interfaces of tunnels already.
const FIRST: u32 = 1000;

/// A bound that a busy machine keeps.
const BOUND: Duration = Duration::from_secs(60);

/// States at the left end of pairs that were just raised at both ends.
#[test]
fn links_that_were_waited_for_are_shown_as_they_are() {
    with_netns(&links_that_were_waited_for_are_shown_as_they_are, |[left, right]| {
        let names: Vec<String> = (0..PAIRS).map(|at| format!("eth{at}")).collect();
        left.run(|| {
            let mut batch = Batch::new();
            for (name, index) in names.iter().zip(FIRST..) {
                let a = EndSpec { index: Some(index), ..EndSpec::new(name) };
                let b =
                    EndSpec { netns: Some(right.fd()), index: Some(index), ..EndSpec::new(name) };
                batch.push(&**name, &VethSpec { a_up: true, ..VethSpec::new(a, b) });
            }
            Socket::open().unwrap().run(&mut batch).unwrap();
        });
        right.run(|| {
            let mut batch = Batch::new();
            // One stays down: its other end has no carrier, and is not waited for.
            for (name, index) in names.iter().zip(FIRST..).skip(1) {
                batch.push(&**name, &Change::of(index).up());
            }
            Socket::open().unwrap().run(&mut batch).unwrap();
        });
        for space in [&left, &right] {
            let links = space.run(|| {
                let mut socket = Socket::open().unwrap();
                assert_eq!(socket.await_link_states(Instant::now() + BOUND).unwrap(), 0);
                socket.links_alone().unwrap()
            });
            let shown = links.iter().filter(|link| link.operational == Operational::Up).count();
            assert_eq!(u32::try_from(shown), Ok(PAIRS - 1));
        }
        // A bound that is over is not waited for.
        let late = left.run(|| Socket::open().unwrap().await_link_states(Instant::now()).unwrap());
        assert_eq!(late, 0);
    });
}
