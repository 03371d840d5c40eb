//! Entries of `place`.

use super::tree::{Body, Yaml};
use crate::keys::hosts::PIN;
use crate::lab::Pin;

pub(super) fn pin(pin: &Pin) -> (String, Yaml) {
    let mut body = Body::default();
    // A host's name has no sign that YAML reads as another, but it may be a number.
    let hosts = || Yaml::one_or_list(pin.hosts.iter().map(Yaml::text).collect());
    if !pin.split && !pin.hosts.is_empty() {
        return (pin.of.clone(), hosts());
    }
    if !pin.hosts.is_empty() {
        body.put("hosts", hosts());
    }
    if pin.split {
        body.put("split", Yaml::word("true"));
    }
    (pin.of.clone(), body.in_order(&PIN))
}
