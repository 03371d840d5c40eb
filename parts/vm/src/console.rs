//! A machine's console: what it shows goes to the node's log and to every client, and the text that `ready` waits for
//! is looked for in it.

use std::io::Write;

/// How much of the latest output a new client is shown.
const SHOWN: usize = 4096;

/// What a console has shown lately.
#[derive(Debug, Default)]
pub(crate) struct Console {
    latest: Vec<u8>,
    wanted: Option<Vec<u8>>,
    /// The end of what came before, in which the wanted text may begin.
    tail: Vec<u8>,
}

impl Console {
    /// A console on which this text is waited for.
    pub(crate) fn new(wanted: Option<&str>) -> Console {
        let wanted = wanted.map(|text| text.as_bytes().to_vec());
        Console { wanted, ..Console::default() }
    }

    /// Takes output: logs it, keeps the latest, looks for the wanted text.
    pub(crate) fn take(&mut self, bytes: &[u8], log: &mut impl Write) {
        // A terminal's lines end by CR LF, a log's by LF.
        let plain: Vec<u8> = bytes.iter().copied().filter(|byte| *byte != b'\r').collect();
        // The init that reads it ends this process with the node.
        let _ = log.write_all(&plain).and_then(|()| log.flush());
        self.look(&plain);
        // With CR: a terminal that joins needs it.
        self.latest.extend_from_slice(bytes);
        let over = self.latest.len().saturating_sub(SHOWN);
        self.latest.drain(..over);
    }

    fn look(&mut self, bytes: &[u8]) {
        let Some(wanted) = &self.wanted else { return };
        self.tail.extend_from_slice(bytes);
        if self.tail.windows(wanted.len()).any(|window| window == wanted) {
            self.wanted = None;
            self.tail = Vec::new();
            return;
        }
        // As much as the text is long: it may begin there.
        let over = self.tail.len().saturating_sub(wanted.len());
        self.tail.drain(..over);
    }

    /// The latest output, for a client that joins.
    pub(crate) fn latest(&self) -> &[u8] {
        &self.latest
    }

    /// The text that has not been shown yet.
    pub(crate) fn lacks(&self) -> Option<String> {
        let wanted = self.wanted.as_ref()?;
        Some(format!("its console has not shown {:?}", String::from_utf8_lossy(wanted)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_found_in_pieces() {
        let mut console = Console::new(Some("login: "));
        let mut log = Vec::new();
        for piece in ["Debian\r\nlog", "in", ":"] {
            console.take(piece.as_bytes(), &mut log);
            assert_eq!(console.lacks().as_deref(), Some("its console has not shown \"login: \""));
        }
        console.take(b" ", &mut log);
        assert_eq!(console.lacks(), None);
        assert_eq!(console.latest(), b"Debian\r\nlogin: ");
        assert_eq!(log, b"Debian\nlogin: ");
    }

    #[test]
    fn only_the_latest_output_is_kept() {
        let mut console = Console::new(None);
        console.take(&[b'a'; SHOWN], &mut std::io::sink());
        console.take(b"bc", &mut std::io::sink());
        assert_eq!(console.latest().len(), SHOWN);
        assert!(console.latest().ends_with(b"abc"));
    }
}
