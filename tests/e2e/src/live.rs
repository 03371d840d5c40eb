//! Running labs that are changed: the binary inside nodes, programs that stay, one node's or link's view.

use std::ffi::OsString;
use std::io::Read;
use std::path::Path;
use std::process::Child;
use std::time::Duration;

use serde_json::Value;

use crate::{Finished, Machine, Run, wait_until};

/// How long the machine may take for what it does at once when it is idle.
pub const SOON: Duration = Duration::from_secs(180);

/// A program that runs until it is dropped, with its three streams as pipes.
#[derive(Debug)]
pub struct Held(Child);

impl Held {
    /// Starts it.
    pub fn start(run: Run) -> Held {
        Held(run.spawn())
    }

    /// Its pid.
    pub fn pid(&self) -> i32 {
        self.0.id().cast_signed()
    }

    /// Its process.
    pub fn child(&mut self) -> &mut Child {
        &mut self.0
    }

    /// Waits until `step` gives a value, while it runs.
    ///
    /// # Panics
    /// When it ends first, with its errors, or when the value does not come.
    pub fn until<T>(&mut self, what: &str, mut step: impl FnMut() -> Option<T>) -> T {
        wait_until(what, SOON, || {
            let ended = self.0.try_wait().expect("look at it");
            let given = step();
            if let Some(status) = ended.filter(|_| given.is_none()) {
                let errors = self.0.stderr.take().map(std::io::read_to_string);
                panic!(
                    "{what}: it ended before: {status}\n{}",
                    errors.expect("piped").expect("read")
                );
            }
            given
        })
    }

    /// Reads what it writes to standard output, up to the end of a line.
    ///
    /// # Panics
    /// When it ends its output first.
    pub fn line(&mut self) -> String {
        line(self.0.stdout.as_mut().expect("stdout is piped"))
    }

    /// The same of standard error.
    ///
    /// # Panics
    /// When it ends that first.
    pub fn error_line(&mut self) -> String {
        line(self.0.stderr.as_mut().expect("stderr is piped"))
    }

    /// Closes its standard input and gives the rest of its output once it has ended with code 0.
    ///
    /// # Panics
    /// When it ends otherwise.
    pub fn rest(mut self) -> String {
        drop(self.0.stdin.take());
        let (mut text, mut errors) = (String::new(), String::new());
        let mut out = self.0.stdout.take().expect("stdout is piped");
        let mut err = self.0.stderr.take().expect("stderr is piped");
        out.read_to_string(&mut text).expect("read output");
        err.read_to_string(&mut errors).expect("read errors");
        let status = self.0.wait().expect("wait for it");
        assert!(status.success(), "{status}\n--- stdout\n{text}\n--- stderr\n{errors}");
        text
    }
}

/// Up to the end of a line and no byte further.
fn line(from: &mut impl Read) -> String {
    let mut line = vec![];
    let mut byte = [0];
    while byte != *b"\n" {
        from.read_exact(&mut byte).expect("a line");
        line.push(byte[0]);
    }
    String::from_utf8_lossy(&line).trim_end().to_owned()
}

impl Drop for Held {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// A shell's words for [`Machine::keep_neighbours`].
const KEEP_NEIGHBOURS: &str = r#"
for family in -4 -6; do
    ip $family neighbour show nud reachable nud stale nud delay nud probe | while read -r to _ dev _ mac _; do
        ip neighbour replace "$to" dev "$dev" lladdr "$mac" nud permanent
    done
done
"#;

impl Machine {
    /// A run of the binary inside a node.
    pub fn inside<'a>(&self, node: &str, args: impl IntoIterator<Item = &'a str>) -> Run {
        let binary = netloom_kit::Binary::find();
        let mut words: Vec<OsString> = ["exec", node, "--"].map(OsString::from).into();
        words.push(binary.path().into());
        words.extend(args.into_iter().map(OsString::from));
        self.netloom(words)
    }

    /// A Python program in a node, with arguments.
    pub fn python(&self, node: &str, code: &str, args: &[&str]) -> Run {
        let head = ["exec", node, "--", "python3", "-c", code];
        self.netloom(head.iter().chain(args)).bound(Duration::from_secs(120))
    }

    /// Runs words in the binary and asserts success.
    pub fn ok(&self, words: &str) -> Finished {
        self.netloom(words.split(' ')).finish().code(0)
    }

    /// Runs words in the binary and asserts a failure whose message has all parts.
    ///
    /// # Panics
    /// When it does not fail in this way.
    pub fn refused(&self, words: &str, code: i32, parts: &[&str]) {
        let done = self.netloom(words.split(' ')).finish().code(code);
        parts.iter().fold(done, |done, part| done.says(part));
    }

    /// The same with the binary inside a node.
    ///
    /// # Panics
    /// When it does not fail in this way.
    pub fn refused_inside(&self, node: &str, words: &str, code: i32, parts: &[&str]) {
        let done = self.inside(node, words.split(' ')).finish().code(code);
        parts.iter().fold(done, |done, part| done.says(part));
    }

    /// `node show --json`.
    pub fn node(&self, node: &str) -> Value {
        self.netloom(["node", "show", node, "--json"]).finish().code(0).json()
    }

    /// `link show --json`.
    pub fn link(&self, link: &str) -> Value {
        self.netloom(["link", "show", link, "--json"]).finish().code(0).json()
    }

    /// Names of nodes in the order of `node list`.
    ///
    /// # Panics
    /// When the list has another shape.
    pub fn nodes(&self) -> Vec<String> {
        names(&self.netloom(["node", "list", "--json"]).finish().code(0).json())
    }

    /// The init's pid of a node.
    ///
    /// # Panics
    /// When there is no such node, or it is dead.
    pub fn init(&self, node: &str) -> i32 {
        let pid = self.node(node)["pid"].as_i64().expect("a living init");
        i32::try_from(pid).expect("a pid")
    }

    /// Waits until a node answers another. Then all on the way is ready: the kernel's linkwatch, a work queue, gives an interface
    /// its discipline, and opens a bridge's port, some time after both have a carrier; frames that are sent before are lost.
    /// A node that is asked for in vain is forgotten after three seconds, with what waits for it: so it is asked again.
    pub fn answers(&self, from: &str, to: &str) {
        self.answers_by("-4", from, to);
    }

    /// The same by IPv4 (`-4`) or IPv6 (`-6`).
    pub fn answers_by(&self, family: &str, from: &str, to: &str) {
        wait_until(&format!("{to} answers {from}"), SOON, || {
            let words = ["ping", family, "-q", "-c", "1", "-W", "5", to];
            self.exec(from, &words).finish().status.success().then_some(())
        });
    }

    /// Waits until every node of the lab reaches every other: each look gives a pair two seconds.
    ///
    /// # Panics
    /// When they do not, or cannot be asked.
    pub fn all_reach_all(&self) {
        wait_until("all nodes reach all others", SOON, || {
            let asked = self.netloom(["ping", "--all"]).finish();
            if asked.status.success() {
                return Some(());
            }
            assert_eq!(asked.status.code(), Some(1), "{asked}");
            eprintln!("{asked}");
            None
        });
    }

    /// Makes what nodes know of their neighbours by now last: nobody asks for them again.
    pub fn keep_neighbours(&self, nodes: &[&str]) {
        for node in nodes {
            self.exec(node, &["sh", "-ec", KEEP_NEIGHBOURS]).finish().code(0);
        }
    }

    /// The lab process's pid.
    ///
    /// # Panics
    /// When the lab has none.
    pub fn lab_process(&self) -> i32 {
        let pid = self.status()["pid"].as_i64().expect("a lab process");
        i32::try_from(pid).expect("a pid")
    }
}

/// The names in a list of nodes.
///
/// # Panics
/// When it is none.
pub fn names(list: &Value) -> Vec<String> {
    let name = |node: &Value| node["name"].as_str().expect("a name").to_owned();
    list.as_array().expect("a list of nodes").iter().map(name).collect()
}

/// Kills a process and waits until it is gone.
pub fn kill_and_wait(pid: i32) {
    crate::kill(pid);
    wait_until(&format!("process {pid} is gone"), SOON, || gone(pid).then_some(()));
}

/// Whether a process has ended; one that waits to be reaped has. Its first thread may wait for others that still end, and have
/// its files open.
pub fn gone(pid: i32) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat"));
    stat.map_or(true, |text| {
        // The state and, as field 20 of proc_pid_stat(5), the number of threads.
        let rest = text.rsplit_once(") ").map_or("", |(_, rest)| rest);
        let threads = rest.split(' ').nth(17).and_then(|field| field.parse::<u32>().ok());
        rest.starts_with('Z') && threads.is_none_or(|threads| threads < 2)
    })
}
