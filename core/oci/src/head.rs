//! The head of an HTTP/1.1 answer (RFC 9112).

/// The longest head.
pub const LONGEST: usize = 64 << 10;

/// What an answer says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Its status: 200, 404, …
    pub status: u16,
    /// Headers: names in lower case, and values.
    pub headers: Vec<(String, String)>,
}

impl Head {
    /// The first value of a header.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// All values of a header.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.headers.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Where the part of a whole begins that a `206` brings.
    pub fn begins_at(&self) -> Option<u64> {
        let range = self.get("content-range")?.trim().strip_prefix("bytes ")?;
        range.split_once('-')?.0.parse().ok()
    }

    /// After how many seconds to ask again; dates are not understood.
    pub fn retry_after(&self) -> Option<u64> {
        self.get("retry-after")?.trim().parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_says_where_its_part_begins_and_when_to_ask_again() {
        let head = |name: &str, value: &str| Head {
            status: 206,
            headers: vec![(name.to_owned(), value.to_owned())],
        };
        for (value, begin) in [
            ("bytes 7-11/12", Some(7)),
            (" bytes 0-1/* ", Some(0)),
            ("bytes */12", None),
            ("bytes -7", None),
            ("7-11", None),
        ] {
            assert_eq!(head("content-range", value).begins_at(), begin, "{value}");
        }
        for (value, seconds) in [("3", Some(3)), (" 3 ", Some(3)), ("-3", None), ("soon", None)] {
            assert_eq!(head("retry-after", value).retry_after(), seconds, "{value}");
        }
        assert_eq!((Head::default().begins_at(), Head::default().retry_after()), (None, None));
    }
}
