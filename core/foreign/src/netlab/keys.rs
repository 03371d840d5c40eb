//! Keys of netlab, which may be written with dots (`ospf.area: 1`) or as maps, and the layers that an attribute comes from.

use std::net::Ipv4Addr;

use crate::at::At;

/// The value at a path of keys, however its dots are spread over maps.
pub(super) fn find<'a>(at: &At<'a>, path: &str) -> Option<At<'a>> {
    if let Some(found) = at.get(path) {
        return Some(found);
    }
    // Each dot may be one of a key or a step into a map, so all ways are tried.
    path.match_indices('.').find_map(|(dot, _)| find(&at.get(&path[..dot])?, &path[dot + 1..]))
}

/// Values with their paths of keys in full, those below `path` included.
pub(super) fn below<'a>(at: &At<'a>, path: &str, found: &mut Vec<(String, At<'a>)>) {
    for (key, value) in at.entries() {
        let path = if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
        match value.entries().is_empty() {
            true => found.push((path, value)),
            false => below(&value, &path, found),
        }
    }
}

/// What an object inherits from, the nearest first; then the topology, for its `defaults`.
#[derive(Clone, Default)]
pub(super) struct Layers<'a>(pub(super) Vec<At<'a>>, pub(super) Option<At<'a>>);

impl<'a> Layers<'a> {
    /// The nearest value of an attribute. Those behind are carried: they are defaults that others may use.
    pub(super) fn nearest(&self, path: &str) -> Option<At<'a>> {
        let last = self.1.iter().filter_map(|at| find(at, &format!("defaults.{path}")));
        let mut found = self.0.iter().filter_map(|at| find(at, path)).chain(last);
        let first = found.next();
        found.for_each(|at| at.carried());
        first
    }

    /// The nearest text of an attribute, which is carried.
    pub(super) fn text(&self, path: &str) -> Option<&'a str> {
        self.parsed(path, "text or a number", Some)
    }

    /// The nearest value of an attribute in a form that is asked for, which is carried; another is told of as `what`
    /// it should be.
    pub(super) fn parsed<T>(
        &self,
        path: &str,
        what: &str,
        parse: impl Fn(&'a str) -> Option<T>,
    ) -> Option<T> {
        let at = self.nearest(path)?;
        let value = at.text().and_then(parse);
        match value {
            Some(_) => at.carried(),
            None => at.odd(what),
        }
        value
    }

    /// The nearest number of an attribute, which is carried.
    pub(super) fn number(&self, path: &str) -> Option<u32> {
        self.parsed(path, "a number", |text| text.parse().ok())
    }

    /// The nearest address of an attribute, as routers are known by.
    pub(super) fn router_id(&self, path: &str) -> Option<Ipv4Addr> {
        self.parsed(path, "an address of IPv4", |text| text.parse().ok())
    }

    /// Whether an attribute says yes; `usual` where nobody says anything.
    pub(super) fn is(&self, path: &str, usual: bool) -> bool {
        let Some(at) = self.nearest(path) else { return usual };
        at.carried();
        at.is_true()
    }
}

/// Says of attributes, or of all below them, why they are there in another way (`true`) or left out.
pub(super) fn reasons(at: &At<'_>, reasons: &[(&str, bool, &str)]) {
    for (key, at) in at.entries() {
        let first = key.split('.').next();
        match reasons.iter().find(|(name, ..)| Some(*name) == first) {
            Some((_, true, why)) => at.changed(*why),
            Some((_, false, why)) => at.left_out(*why),
            None => {}
        }
    }
}
