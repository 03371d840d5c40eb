//! Names of ports in texts of flow entries and matches, which become numbers before a text is read.

/// What a port follows.
const KEYS: [&str; 6] =
    ["in_port=", "out_port=", "output:", "output=", "watch_port:", "watch_port="];

/// Ports that have no number of their own.
const RESERVED: [&str; 10] =
    ["IN_PORT", "TABLE", "NORMAL", "FLOOD", "ALL", "CONTROLLER", "LOCAL", "ANY", "NONE", "DROP"];

/// The ports of a switch by name: `h1:eth0`, or `h1` where that node has no other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names(Vec<(String, u32)>);

impl FromIterator<(String, u32)> for Names {
    fn from_iter<I: IntoIterator<Item = (String, u32)>>(ports: I) -> Names {
        Names(ports.into_iter().collect())
    }
}

impl Names {
    /// Whether a text names a port.
    pub fn are_in(text: &str) -> bool {
        names(text).next().is_some()
    }

    /// A text with numbers instead of names.
    ///
    /// # Errors
    /// In words: a name is not that of a port, or of several.
    pub fn numbered(&self, text: &str) -> Result<String, String> {
        let mut numbered = String::with_capacity(text.len());
        let mut done = 0;
        for (start, end) in names(text) {
            let name = text.get(start..end).unwrap_or_default();
            numbered.push_str(text.get(done..start).unwrap_or_default());
            numbered.push_str(&self.number(name)?.to_string());
            done = end;
        }
        numbered.push_str(text.get(done..).unwrap_or_default());
        Ok(numbered)
    }

    /// The port of this name, or the only one of this node.
    ///
    /// # Errors
    /// In words: there is none, or there are several.
    pub fn number(&self, name: &str) -> Result<u32, String> {
        // Switches tell the first 15 bytes of names.
        let short = (0..=15).rev().find_map(|end| name.get(..end)).unwrap_or_default();
        let whole = self.0.iter().find(|(known, _)| known == name || known == short);
        let of_node = |known: &str| known.split_once(':').is_some_and(|(node, _)| node == name);
        let mut all = self.0.iter().filter(|(known, _)| of_node(known));
        match whole.or_else(|| all.next().filter(|_| all.next().is_none())) {
            Some((_, number)) => Ok(*number),
            None => {
                let has: Vec<&str> = self.0.iter().map(|(known, _)| known.as_str()).collect();
                Err(format!("no port {name:?}, or not only one; the switch has {}", has.join(", ")))
            }
        }
    }
}

/// Where ports are named, as ranges of bytes.
fn names(text: &str) -> impl Iterator<Item = (usize, usize)> {
    let mut from = 0;
    std::iter::from_fn(move || {
        loop {
            let rest = text.get(from..)?;
            let key = |key: &&str| rest.find(*key).map(|at| (at, key.len()));
            let (at, length) = KEYS.iter().filter_map(key).min()?;
            let start = from + at + length;
            let value = text.get(start..)?;
            // Ends as ovs-ofctl separates arguments, and at brackets of nested actions.
            let end = start + value.find([',', ' ', '\t', ')', '(']).unwrap_or(value.len());
            from = end;
            let name = text.get(start..end)?;
            // A number needs no translation.
            let numeric = name.starts_with(|c: char| c.is_ascii_digit());
            if !name.is_empty()
                && !numeric
                && !RESERVED.contains(&name.to_ascii_uppercase().as_str())
            {
                return Some((start, end));
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_numbers() {
        let ports = [
            ("h1:eth0", 1),
            ("h2:eth0", 2),
            ("h2:eth1", 3),
            ("client1-1:side0", 4),
            ("t/h1:eth0", 5),
        ];
        let names: Names =
            ports.map(|(name, number)| (name.to_owned(), number)).into_iter().collect();
        for (text, expected) in [
            ("in_port=h1:eth0,actions=output:h2:eth1", "in_port=1,actions=output:3"),
            (
                "in_port=h1,ip,actions=output:7,output:h2:eth0",
                "in_port=1,ip,actions=output:7,output:2",
            ),
            (
                "actions=output:CONTROLLER,flood,output:in_port",
                "actions=output:CONTROLLER,flood,output:in_port",
            ),
            ("in_port=0x1,actions=drop", "in_port=0x1,actions=drop"),
            (
                "bucket=watch_port:h1,actions=output:client1-1:side0",
                "bucket=watch_port:1,actions=output:4",
            ),
            (
                "ip,nw_dst=10.0.0.1,actions=set_field:1->tun_id",
                "ip,nw_dst=10.0.0.1,actions=set_field:1->tun_id",
            ),
            ("in_port=", "in_port="),
            ("in_port=t/h1", "in_port=5"),
        ] {
            assert_eq!(names.numbered(text).as_deref(), Ok(expected));
        }
        for wrong in ["in_port=h2,actions=drop", "actions=output:h3"] {
            let error = names.numbered(wrong).unwrap_err();
            assert!(error.contains("the switch has h1:eth0, h2:eth0"), "{error}");
        }
    }
}
