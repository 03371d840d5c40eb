//! Which packets a node passes on between its interfaces: those of both families, of one, or none.

use serde::{Deserialize, Serialize};

/// What a node forwards: `true`, `false`, `ipv4` or `ipv6`, as in the lab file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum Forwarding {
    /// Packets of both families, or of none.
    Both(bool),
    /// Those of one family alone.
    Only(OneFamily),
}

/// One of the families.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum OneFamily {
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
}

impl Default for Forwarding {
    fn default() -> Forwarding {
        Forwarding::Both(false)
    }
}

impl Forwarding {
    /// Whether it forwards anything: it is a router.
    pub fn any(self) -> bool {
        self != Forwarding::Both(false)
    }

    /// Whether it forwards IPv4.
    pub fn ipv4(self) -> bool {
        matches!(self, Forwarding::Both(true) | Forwarding::Only(OneFamily::Ipv4))
    }

    /// Whether it forwards IPv6.
    pub fn ipv6(self) -> bool {
        matches!(self, Forwarding::Both(true) | Forwarding::Only(OneFamily::Ipv6))
    }

    /// The value of the file's key; `None` where nothing is forwarded.
    pub fn word(self) -> Option<&'static str> {
        match self {
            Forwarding::Both(false) => None,
            Forwarding::Both(true) => Some("true"),
            Forwarding::Only(OneFamily::Ipv4) => Some("ipv4"),
            Forwarding::Only(OneFamily::Ipv6) => Some("ipv6"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_json_is_the_value_of_the_file() {
        for (text, of) in
            [("true", [true, true]), ("false", [false; 2]), ("\"ipv4\"", [true, false])]
        {
            let read: Forwarding = serde_json::from_str(text).unwrap();
            assert_eq!([read.ipv4(), read.ipv6()], of, "{text}");
            assert_eq!(read.any(), of[0] || of[1]);
            assert_eq!(serde_json::to_string(&read).unwrap(), text);
        }
    }
}
