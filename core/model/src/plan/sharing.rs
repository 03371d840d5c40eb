//! Shares lists of next hops: a router has many routes but few distinct lists.
//!
//! `route` computes plans this way; for plans read from JSON, where each route has its own list,
//! this module shares them, node by node.

use std::collections::HashSet;
use std::sync::Arc;

use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{NextHop, Route};

pub(super) fn serialize<S: Serializer>(hops: &Arc<[NextHop]>, to: S) -> Result<S::Ok, S::Error> {
    hops.as_ref().serialize(to)
}

pub(super) fn deserialize<'d, D: Deserializer<'d>>(from: D) -> Result<Arc<[NextHop]>, D::Error> {
    Vec::deserialize(from).map(Arc::from)
}

/// Reads the routes of a node.
pub(super) fn routes<'d, D: Deserializer<'d>>(from: D) -> Result<Vec<Route>, D::Error> {
    from.deserialize_seq(Routes)
}

struct Routes;

impl<'d> Visitor<'d> for Routes {
    type Value = Vec<Route>;

    fn expecting(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str("a list of routes")
    }

    fn visit_seq<A: SeqAccess<'d>>(self, mut from: A) -> Result<Vec<Route>, A::Error> {
        let mut known: HashSet<Arc<[NextHop]>> = HashSet::new();
        let mut routes: Vec<Route> = Vec::new();
        while let Some(mut route) = from.next_element::<Route>()? {
            if let Some(same) = known.get(&route.also) {
                route.also = Arc::clone(same);
            } else {
                known.insert(Arc::clone(&route.also));
            }
            routes.push(route);
        }
        Ok(routes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_lists_are_one_after_reading_too() {
        let route = |to: &str, via: &str| {
            let hop = NextHop { via: via.parse().unwrap(), interface: 1 };
            Route { also: Arc::new([hop]), ..Route::single(to.parse().unwrap(), None, 0) }
        };
        let other = route("10.3.0.0/16", "10.0.0.2");
        let written = [route("10.1.0.0/16", "10.0.0.1"), route("10.2.0.0/16", "10.0.0.1"), other];
        let text = serde_json::to_string(&written).unwrap();
        let read = routes(&mut serde_json::Deserializer::from_str(&text)).unwrap();
        assert_eq!(read, written);
        assert!(Arc::ptr_eq(&read[0].also, &read[1].also));
        assert!(!Arc::ptr_eq(&read[0].also, &read[2].also));
    }
}
