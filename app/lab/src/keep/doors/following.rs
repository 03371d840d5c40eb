//! What the outer side of doors knows of a lab whose plan changes while they stay: the prefixes that NAT hides, and the routes to
//! nodes behind routers.
//!
//! Only differences between two plans are applied. The table of NAT is replaced in one transaction: connections that
//! have an entry in the kernel's list keep it.

use std::collections::{BTreeSet, HashSet};
use std::net::IpAddr;

use ipnet::IpNet;
use netloom_model::Plan;
use netloom_model::plan::{LinkId, PlannedLink};
use netloom_netlink::{Batch, DeleteRoute, Route, Socket};

use super::lab_prefixes;
use crate::stage::spaces::run;
use crate::{Error, Result};

/// A route to what is behind a door, by the door's id.
type Way = (LinkId, IpNet, IpAddr);

/// What changes outside of a lab while its doors stay.
pub(super) struct Following {
    added: Vec<Way>,
    removed: Vec<Way>,
    /// Whether the prefixes do.
    pub(super) prefixes: bool,
}

impl Following {
    pub(super) fn of(old: &Plan, new: &Plan) -> Following {
        let ways = |plan: &Plan| -> Vec<Way> {
            // Sets: a lab may have thousands of ways.
            let all = plan.ways_back().into_iter();
            all.map(|way| (plan.links[way.door].id, way.to, way.via)).collect()
        };
        let (before, now) = (ways(old), ways(new));
        let less = |all: &[Way], those: &[Way]| -> Vec<Way> {
            let known: HashSet<&Way> = those.iter().collect();
            all.iter().filter(|way| !known.contains(way)).copied().collect()
        };
        let prefixes = lab_prefixes(old) != lab_prefixes(new);
        Following { added: less(&now, &before), removed: less(&before, &now), prefixes }
    }

    pub(super) fn is_none(&self) -> bool {
        !self.prefixes && self.added.is_empty() && self.removed.is_empty()
    }

    /// Makes and removes routes where the outer ends are; `outer` names them.
    pub(super) fn routes(
        &self,
        socket: &mut Socket,
        plan: &Plan,
        outer: impl Fn(&PlannedLink) -> String,
    ) -> Result<()> {
        let mut batch = Batch::new();
        let ids: BTreeSet<LinkId> =
            self.added.iter().chain(&self.removed).map(|way| way.0).collect();
        let doors = plan.links.iter().filter(|link| ids.contains(&link.id));
        let mut found = Vec::new();
        for link in doors {
            let object = format!("link {:?}", link.name);
            // That of a node that has ended is gone, and is recreated with it.
            let end =
                socket.link(outer(link).as_str()).map_err(Error::of(&object, "find its end"))?;
            found.extend(end.map(|end| (link.id, object, end.index)));
        }
        // First all that are new: one that moves to another door replaces the old one, and is not missing meanwhile.
        for (door, object, index) in &found {
            for (_, to, via) in self.added.iter().filter(|way| way.0 == *door) {
                let route = Route { replace: true, ..Route::new(*to, Some(*via), *index) };
                batch.push(object.as_str(), &route);
            }
        }
        for (door, object, index) in &found {
            for (_, to, via) in self.removed.iter().filter(|way| way.0 == *door) {
                let gone =
                    DeleteRoute { via: Some(*via), link: Some(*index), ..DeleteRoute::new(*to) };
                batch.push_tolerant(object.as_str(), &gone);
            }
        }
        run(socket, &mut batch, "internet", "change routes to nodes behind doors")
    }
}
