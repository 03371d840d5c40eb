//! Reads a node of a plan: one object with the keys of [`NodeSpec`] and of what is derived.
//!
//! serde would buffer the whole object first (`flatten`), and so take what it does not know, and equal keys. Here each value
//! is read where it is.

use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, Deserializer, Error, IntoDeserializer, MapAccess, Visitor};

use super::{Interface, NodeId, PlannedNode, Route, sharing};
use crate::lab::NodeSpec;

impl<'de> Deserialize<'de> for PlannedNode {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<PlannedNode, D::Error> {
        from.deserialize_struct("PlannedNode", &[], Whole)
    }
}

struct Whole;

impl<'de> Visitor<'de> for Whole {
    type Value = PlannedNode;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("a node of a plan")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<PlannedNode, A::Error> {
        let mut derived = Derived::default();
        let rest = Rest { map, derived: &mut derived };
        let spec = NodeSpec::deserialize(MapAccessDeserializer::new(rest))?;
        let missing = A::Error::missing_field;
        Ok(PlannedNode {
            id: derived.id.ok_or_else(|| missing("id"))?,
            spec: Arc::new(spec),
            sysctls: derived.sysctls.ok_or_else(|| missing("sysctls"))?,
            interfaces: derived.interfaces.ok_or_else(|| missing("interfaces"))?,
            routes: derived.routes.ok_or_else(|| missing("routes"))?.0,
            internet: derived.internet.ok_or_else(|| missing("internet"))?,
        })
    }
}

/// What no lab says of a node.
#[derive(Default)]
struct Derived {
    id: Option<NodeId>,
    sysctls: Option<Vec<(String, String)>>,
    interfaces: Option<Vec<Interface>>,
    routes: Option<Routes>,
    internet: Option<bool>,
}

#[derive(Deserialize)]
#[serde(transparent)]
struct Routes(#[serde(deserialize_with = "sharing::routes")] Vec<Route>);

impl Derived {
    /// Reads the value of a key that is one of these; returns whether it is.
    fn read<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<bool, A::Error> {
        match key {
            "id" => put(&mut self.id, "id", map),
            "sysctls" => put(&mut self.sysctls, "sysctls", map),
            "interfaces" => put(&mut self.interfaces, "interfaces", map),
            "routes" => put(&mut self.routes, "routes", map),
            "internet" => put(&mut self.internet, "internet", map),
            _ => return Ok(false),
        }?;
        Ok(true)
    }
}

fn put<'de, T: Deserialize<'de>, A: MapAccess<'de>>(
    to: &mut Option<T>,
    key: &'static str,
    map: &mut A,
) -> Result<(), A::Error> {
    if to.is_some() {
        // serde's derive refuses a key twice; this reader must not be laxer.
        return Err(A::Error::duplicate_field(key));
    }
    *to = Some(map.next_value()?);
    Ok(())
}

/// The keys of an object that are not [`Derived`]'s.
struct Rest<'a, A> {
    map: A,
    derived: &'a mut Derived,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Rest<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        // The derived keys are taken out on the way: the rest is what the lab says of the node.
        while let Some(key) = self.map.next_key::<String>()? {
            if !self.derived.read(&key, &mut self.map)? {
                return seed.deserialize(key.into_deserializer()).map(Some);
            }
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.map.next_value_seed(seed)
    }
}
