//! When routers were recreated, so that one that ends again and again is made after pauses that grow.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use netloom_model::plan::NodeId;

use crate::stage::role::{self, STEADY};

/// When each router was recreated last, and the pause before the next time.
#[derive(Default)]
pub(crate) struct Revivals(Mutex<BTreeMap<NodeId, (Instant, Duration)>>);

impl Revivals {
    /// How long it is too early to recreate a router; begins a new pause, if it is not.
    pub(crate) fn wait(&self, node: NodeId, now: Instant) -> Option<Duration> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (last, pause) = all.get(&node).copied().unwrap_or((now, Duration::ZERO));
        let passed = now.saturating_duration_since(last);
        if passed < pause {
            return Some(pause - passed);
        }
        // One that lived long enough begins with no pause again.
        let steady = passed >= STEADY;
        let next = if steady { Duration::ZERO } else { pause };
        all.insert(node, (now, role::longer(next)));
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::role::{FIRST_PAUSE, LONGEST_PAUSE};

    #[test]
    fn a_router_that_ends_again_soon_waits_longer_each_time() {
        let (revivals, start) = (Revivals::default(), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        let node = NodeId::CORE;
        assert_eq!(revivals.wait(node, at(0)), None);
        assert_eq!(revivals.wait(node, at(0)), Some(FIRST_PAUSE));
        assert_eq!(revivals.wait(node, at(50)), None);
        assert_eq!(revivals.wait(node, at(60)), Some(FIRST_PAUSE * 2 - Duration::from_millis(10)));
        let mut now = start;
        for _ in 0..20 {
            now += revivals.wait(node, now).unwrap_or_default();
        }
        revivals.wait(node, now);
        assert_eq!(revivals.wait(node, now), Some(LONGEST_PAUSE));
        assert_eq!(revivals.wait(node, now + STEADY), None);
        assert_eq!(revivals.wait(node, now + STEADY), Some(FIRST_PAUSE));
    }
}
