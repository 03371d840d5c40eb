//! The driver's side of a connection: starts the agent of a host, and asks it.

use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use netloom_model::{Agent, Host};
use netloom_sys::process;

use super::message::{Ask, Hello, Told};
use super::transport::{Framed, Transport, exchange};

/// Time limit for an agent to say its first word.
const GREETING: Duration = Duration::from_secs(30);

/// How much of what an agent's program says beside its messages is kept for errors: the last of it.
const KEPT: usize = 4096;

/// What a host did not do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trouble {
    pub(crate) host: String,
    pub(crate) reason: String,
    /// The host or its user lacks something.
    pub(crate) unsupported: bool,
    /// The connection ended: what the host did is not known.
    pub(crate) lost: bool,
}

impl Trouble {
    pub(crate) fn of(host: &str, reason: impl Into<String>) -> Trouble {
        Trouble { host: host.to_owned(), reason: reason.into(), unsupported: false, lost: false }
    }
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "host {:?}: {}", self.host, self.reason)
    }
}

/// A connected host.
pub(crate) struct Remote {
    pub(crate) host: String,
    /// See [`Hello::place`].
    pub(crate) place: String,
    link: Box<dyn Transport>,
    program: Option<Program>,
}

/// The process that the driver reaches an agent through.
struct Program {
    child: Child,
    said: Option<JoinHandle<String>>,
}

/// A raw connection, once messages are over.
pub(crate) type Streams = Framed<ChildStdout, ChildStdin>;

/// The command that starts the agent of a host. No shell of this machine has part in it, and ssh(1) gets fixed words.
pub(crate) fn command(host: &Host) -> Command {
    let mut command = match &host.agent {
        Agent::Ssh => {
            let mut ssh = Command::new("ssh");
            // It cannot ask: several run at a time, and their standard input is the connection.
            ssh.args(["-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"]);
            if let Some(user) = &host.ssh.user {
                ssh.args(["-l", user]);
            }
            if let Some(port) = host.ssh.port {
                ssh.args(["-p", &port.to_string()]);
            }
            ssh.args(["--", &host.ssh.host, "netloom", "agent", "--stdio"]);
            ssh
        }
        Agent::Local => {
            let mut own = Command::new("/proc/self/exe");
            own.args(["agent", "--stdio"]);
            own
        }
        Agent::Command(words) => {
            let mut command = Command::new(words.first().map_or("", String::as_str));
            command.args(words.iter().skip(1));
            command
        }
    };
    // Keys that interrupt this process must not interrupt agents: they see the connection end and undo what is to be undone.
    command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

impl Remote {
    /// Starts the agent of a host.
    ///
    /// # Errors
    /// Why it cannot be asked.
    pub(crate) fn connect(host: &Host) -> Result<Remote, Trouble> {
        let (streams, mut program) = start(host, Stdio::piped())?;
        if let Some(errors) = program.child.stderr.take() {
            program.said = Some(std::thread::spawn(move || last_of(errors)));
        }
        if !process::wait_readable(&streams.input, GREETING) {
            let _ = program.child.kill();
            let said = program.end();
            let reason = format!("its agent says nothing for {} s{said}", GREETING.as_secs());
            return Err(Trouble::of(&host.name, reason));
        }
        Remote::greet(&host.name, Box::new(streams), Some(program))
    }

    /// Exchanges the first messages over any transport.
    fn greet(
        host: &str,
        mut link: Box<dyn Transport>,
        program: Option<Program>,
    ) -> Result<Remote, Trouble> {
        let own = Hello::own(String::new());
        let (place, refusal) = match exchange::<Hello>(link.as_mut(), &own) {
            Ok(Some(hello)) if own.speaks_with(&hello) => (hello.place, None),
            Ok(Some(hello)) => (String::new(), Some(other_version(&own, &hello))),
            Ok(None) => (String::new(), Some("its agent ended at once".to_owned())),
            Err(e) => (String::new(), Some(format!("its agent does not answer: {e}"))),
        };
        let mut remote = Remote { host: host.to_owned(), place, link, program };
        match refusal {
            None => Ok(remote),
            Some(reason) => {
                let said = remote.close();
                Err(Trouble::of(host, format!("{reason}{said}")))
            }
        }
    }

    /// One over a transport of tests.
    #[cfg(test)]
    pub(crate) fn over(host: &str, link: Box<dyn Transport>) -> Result<Remote, Trouble> {
        Remote::greet(host, link, None)
    }

    /// Asks and waits for the answer.
    ///
    /// # Errors
    /// The connection has ended, or the host did not do it.
    pub(crate) fn ask(&mut self, asked: &Ask) -> Result<Told, Trouble> {
        let reason = match exchange::<Told>(self.link.as_mut(), asked) {
            Ok(Some(Told::Failed { reason, unsupported })) => {
                return Err(Trouble { unsupported, ..Trouble::of(&self.host, reason) });
            }
            Ok(Some(told)) => return Ok(told),
            Ok(None) => "its agent has ended".to_owned(),
            Err(e) => format!("its agent does not answer: {e}"),
        };
        let said = self.close();
        Err(Trouble { lost: true, ..Trouble::of(&self.host, format!("{reason}{said}")) })
    }

    /// An answer that does not fit the question.
    pub(crate) fn odd(&self) -> Trouble {
        Trouble::of(&self.host, "its agent answers something else than it was asked")
    }

    /// Ends the connection; returns what the agent's program said beside its messages, as the end of an error.
    fn close(&mut self) -> String {
        self.link = Box::new(Framed { input: std::io::empty(), output: std::io::sink() });
        self.program.take().map(Program::end).unwrap_or_default()
    }
}

impl Drop for Remote {
    /// Waits for the agent's end, which undoes first what was not to be.
    fn drop(&mut self) {
        self.close();
    }
}

impl Program {
    fn end(mut self) -> String {
        let _ = self.child.wait();
        let said = self.said.take().and_then(|thread| thread.join().ok()).unwrap_or_default();
        match said.trim() {
            "" => String::new(),
            said => format!("; it said: {}", netloom_config::printable::line(said)),
        }
    }
}

/// Why two sides do not understand each other.
fn other_version(own: &Hello, there: &Hello) -> String {
    let words = |of: &Hello| format!("netloom {} (messages {})", of.netloom, of.protocol);
    let (own, there) = (words(own), words(there));
    format!("it has {there}, and this host {own}; install one version on all hosts")
}

/// Starts an agent, and leaves messages to the caller.
///
/// # Errors
/// The program cannot be started.
fn start(host: &Host, errors: Stdio) -> Result<(Streams, Program), Trouble> {
    let mut command = command(host);
    let program = command.get_program().to_string_lossy().into_owned();
    let refused = |e: std::io::Error| Trouble::of(&host.name, format!("{program:?}: start: {e}"));
    let mut child = command.stderr(errors).spawn().map_err(refused)?;
    let (Some(output), Some(input)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(Trouble::of(&host.name, "its agent has no streams"));
    };
    Ok((Framed { input, output }, Program { child, said: None }))
}

/// The last of what a program says.
fn last_of(mut from: impl Read) -> String {
    let mut kept: Vec<u8> = Vec::new();
    let mut buffer = [0; 1024];
    while let Ok(n @ 1..) = from.read(&mut buffer) {
        kept.extend_from_slice(&buffer[..n]);
        let over = kept.len().saturating_sub(KEPT);
        kept.drain(..over);
    }
    String::from_utf8_lossy(&kept).into_owned()
}

/// What a program on a host gets as its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    /// This process's.
    Own,
    /// None; it ends with this process.
    None,
}

/// A program that runs on a host.
pub(crate) struct Running {
    /// Its output; standard error is this process's.
    pub(crate) output: ChildStdout,
    pub(crate) waiting: Waiting,
}

/// A program on a host, without its output.
pub(crate) struct Waiting {
    host: String,
    /// It ends when this does.
    input: Option<ChildStdin>,
    program: Program,
}

impl Waiting {
    /// Waits for its end; returns the exit code.
    ///
    /// # Errors
    /// It cannot be waited for.
    pub(crate) fn end(mut self) -> Result<i32, Trouble> {
        let exit = self.program.child.wait();
        drop(self.input);
        let exit = exit.map_err(|e| Trouble::of(&self.host, format!("wait for its agent: {e}")))?;
        Ok(exit.code().unwrap_or_else(|| 128 + exit.signal().unwrap_or(0)))
    }
}

/// Starts a program on a host, which ends with this process.
///
/// # Errors
/// The host cannot be asked, or the program does not begin.
pub(crate) fn begin(host: &Host, asked: &Ask) -> Result<Running, Trouble> {
    let (mut streams, program) = start(host, Stdio::inherit())?;
    let broken =
        |e: std::io::Error| Trouble::of(&host.name, format!("its agent does not answer: {e}"));
    let own = Hello::own(String::new());
    let ended = || Trouble::of(&host.name, "its agent ended at once");
    let hello = exchange::<Hello>(&mut streams, &own).map_err(broken)?.ok_or_else(ended)?;
    if !own.speaks_with(&hello) {
        return Err(Trouble::of(&host.name, other_version(&own, &hello)));
    }
    match exchange::<Told>(&mut streams, asked).map_err(broken)? {
        Some(Told::Entering {}) => {}
        Some(Told::Failed { reason, unsupported }) => {
            return Err(Trouble { unsupported, ..Trouble::of(&host.name, reason) });
        }
        Some(_) => return Err(Trouble::of(&host.name, "its lab has ended")),
        None => return Err(ended()),
    }
    let Framed { input: output, output: input } = streams;
    let waiting = Waiting { host: host.name.clone(), input: Some(input), program };
    Ok(Running { output, waiting })
}

/// Runs a program on a host with this process's streams; returns the exit code.
///
/// # Errors
/// The host cannot be asked, or the program does not begin.
pub(crate) fn enter(host: &Host, asked: &Ask, input: Input) -> Result<i32, Trouble> {
    let Running { mut output, mut waiting } = begin(host, asked)?;
    if input == Input::Own
        && let Some(mut to) = waiting.input.take()
    {
        // It may wait for a key for ever; it ends with this process.
        std::thread::spawn(move || {
            let _ = std::io::copy(&mut std::io::stdin(), &mut to);
        });
    }
    let copied = copy_out(&mut output);
    let code = waiting.end()?;
    copied.map_err(|e| Trouble::of(&host.name, format!("its output cannot be written: {e}")))?;
    Ok(code)
}

/// Copies what comes, as it comes.
fn copy_out(from: &mut impl Read) -> std::io::Result<()> {
    let mut to = std::io::stdout();
    let mut buffer = vec![0; 64 << 10];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(n) => {
                to.write_all(&buffer[..n])?;
                to.flush()?;
            }
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}
