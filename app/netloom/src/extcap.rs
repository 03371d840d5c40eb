//! Wireshark's way to run netloom: an executable in its folder `extcap` that lists interfaces and captures from one.
//!
//! Wireshark calls whatever name the link in that folder has, with arguments of its own grammar, so this is not a verb:
//! [`asked`] recognises the call before the command line is read. The list must be quick and must never fail, since
//! Wireshark asks for it whenever it starts. Specification: extcap(4), and chapter 8 of Wireshark's Developer's Guide.

mod list;
mod messages;
mod toolbar;

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use netloom_api::Client;
use netloom_capture::engine::{Direction, Wish};
use netloom_capture::{End, Format, Options, Target};
use netloom_session::capture::{Prepared, Wanted, about, check_filter};
use netloom_session::{Lab as _, Spaces};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::output::print;
use crate::{Usage, labs};
use list::Named;
use toolbar::Toolbar;

/// The name of a link that is always called by Wireshark.
const NAME: &str = "netloom-extcap";

/// The size of each ring buffer in bytes: there is one a CPU and interface, and a person watches.
const RING: usize = 16 << 20;

/// Pause between two looks whether Wireshark reads.
const LOOK: Duration = Duration::from_millis(20);

/// How long a reader is waited for that is only to be told of the end.
const PATIENCE: Duration = Duration::from_secs(5);

/// What Wireshark asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    interfaces: bool,
    dlts: bool,
    config: bool,
    capture: bool,
    interface: Option<String>,
    fifo: Option<PathBuf>,
    filter: Option<String>,
    /// The pipes of the toolbar: its messages, and those for it.
    control: [Option<PathBuf>; 2],
    snaplen: Option<String>,
    direction: Option<String>,
    own: bool,
    /// Arguments that are not known.
    unknown: Vec<String>,
}

/// The call, if this process was started by Wireshark.
pub(crate) fn asked() -> Option<Asked> {
    let mut words = std::env::args_os();
    let name = words.next().map(PathBuf::from).unwrap_or_default();
    read(&name, words.collect())
}

fn read(name: &Path, words: Vec<OsString>) -> Option<Asked> {
    let first = words.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
    let is_meant = first == "--capture" || first.starts_with("--extcap-");
    (is_meant || name.file_name().is_some_and(|name| name == NAME)).then(|| Asked::of(words))
}

impl Asked {
    fn of(words: Vec<OsString>) -> Asked {
        let mut asked = Asked::default();
        let mut words = words.into_iter().map(|word| word.to_string_lossy().into_owned());
        while let Some(word) = words.next() {
            let (flag, joined) = match word.split_once('=') {
                Some((flag, value)) => (flag.to_owned(), Some(value.to_owned())),
                None => (word, None),
            };
            let mut value = || joined.clone().or_else(|| words.next());
            match flag.as_str() {
                "--extcap-interfaces" => asked.interfaces = true,
                "--extcap-dlts" => asked.dlts = true,
                "--extcap-config" => asked.config = true,
                "--capture" => asked.capture = true,
                "--extcap-interface" => asked.interface = value(),
                "--fifo" => asked.fifo = value().map(PathBuf::from),
                "--extcap-capture-filter" => asked.filter = value(),
                "--extcap-control-in" => asked.control[0] = value().map(PathBuf::from),
                "--extcap-control-out" => asked.control[1] = value().map(PathBuf::from),
                "--snaplen" => asked.snaplen = value(),
                "--direction" => asked.direction = value(),
                "--own" => asked.own = true,
                "--extcap-version" => drop(joined),
                "--extcap-reload-option" => drop(value()),
                _ => asked.unknown.push(flag),
            }
        }
        asked
    }
}

/// Answers Wireshark.
pub(crate) fn run(asked: &Asked) -> Result<i32> {
    if asked.interfaces {
        print(&list::interfaces())?;
        return Ok(0);
    }
    let Some(interface) = &asked.interface else {
        let words = "netloom, called by this name, lists interfaces for Wireshark and captures from them: put a link to it into the \
                     folder that Wireshark shows under Help, About, Folders, Personal Extcap path";
        return Err(Usage(words.to_owned()).into());
    };
    if asked.dlts {
        print("dlt {number=1}{name=EN10MB}{display=Ethernet}\n")?;
        return Ok(0);
    }
    if asked.config {
        print(list::CONFIG)?;
        return Ok(0);
    }
    let named = Named::read(interface).ok_or_else(|| {
        Usage(format!(
            "interface {interface:?}: not one of netloom's; --extcap-interfaces lists them"
        ))
    })?;
    match (&asked.fifo, &asked.filter, asked.capture) {
        (Some(fifo), _, true) => capture(asked, &named, fifo).inspect_err(|_| release(fifo)),
        (None, _, true) => {
            Err(Usage("--fifo is missing: the pipe to write into".to_owned()).into())
        }
        // An empty answer says that it can be used.
        (_, Some(filter), false) => validate(&named, filter),
        (_, None, false) => Err(Usage("nothing to do: --capture is missing".to_owned()).into()),
    }
}

fn connect(named: &Named) -> Result<Client> {
    let folder = named.folder()?;
    labs::connect_to(&folder)
}

/// Prints why a filter cannot be used at this interface.
fn validate(named: &Named, filter: &str) -> Result<i32> {
    let plan = connect(named)?.plan().map_err(|e| anyhow::anyhow!(e))?;
    if let Err(error) = check_filter(filter, Some(&plan)) {
        print(&format!("{error}\n"))?;
    }
    Ok(0)
}

fn wanted(asked: &Asked) -> Result<Wanted> {
    let direction = match asked.direction.as_deref() {
        None | Some("both" | "") => Direction::Both,
        Some("in") => Direction::In,
        Some("out") => Direction::Out,
        Some(other) => {
            return Err(Usage(format!("--direction {other:?}: write both, in or out")).into());
        }
    };
    let snaplen = match asked.snaplen.as_deref() {
        None | Some("") => 0,
        Some(text) => text.parse().map_err(|_| {
            Usage(format!("--snaplen {text:?}: write a number of bytes; 0 for all"))
        })?,
    };
    Ok(Wanted {
        filter: asked.filter.clone().unwrap_or_default(),
        without_own: !asked.own,
        wish: Wish { direction, ..Wish::default() },
        snaplen,
        ring: RING,
        threads: 1,
        promiscuous: false,
        statistics: None,
    })
}

/// Captures until the reader of the pipe goes, or Wireshark ends this process.
fn capture(asked: &Asked, named: &Named, fifo: &Path) -> Result<i32> {
    if let Some(unknown) = asked.unknown.first() {
        return Err(Usage(format!("{unknown}: netloom has no such setting for Wireshark")).into());
    }
    let wanted = wanted(asked)?;
    let stop = crate::verbs::ending()?;
    // The toolbar has a client of its own: the capture enters the lab's user namespace.
    let toolbar = match &asked.control {
        [Some(from), Some(to)] => Some(Toolbar::open(connect(named)?, named, from, to)?),
        _ => None,
    };
    let targets: Vec<String> = named.target().into_iter().collect();
    let found = Spaces::find(Some(Box::new(connect(named)?)), &targets, targets.is_empty())?;
    let prepared = Prepared::new(found, Some(named.lab()), wanted, Format::PcapNg)?;
    let about = about(prepared.spaces().plan(), &named.words());
    let opened = prepared.open()?;
    // Opened when all else is ready: Wireshark takes an open pipe for a capture that has begun.
    let Some(pipe) = open(fifo, &stop)? else { return Ok(0) };
    let reader = pipe.try_clone().with_context(|| format!("{fifo:?}: copy"))?;
    let options = Options { about, stop: Some(stop), ..Options::default() };
    let mut capture = opened.start(options, Target::Pipe(pipe))?;
    toolbar.map(Toolbar::serve).transpose()?;
    let stopper = capture.pipeline().stopper();
    capture.watch(|_| {
        // Nothing is written while no frame passes, so this is not noticed there.
        if is_unread(&reader) {
            stopper.stop();
        }
    });
    let report = capture.finish();
    match report.failure {
        Some(failure) => Err(anyhow::Error::from(failure).context("capture")),
        None if report.end == End::DiskFull => bail!("{fifo:?}: the disk is full"),
        None => Ok(0),
    }
}

/// Ends a pipe into which nothing comes. A reader that nobody has ever written to waits without end, and Wireshark with it.
fn release(fifo: &Path) {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        match writer(fifo) {
            // It may be about to read.
            Err(e) if Errno::from_io_error(&e) == Some(Errno::NXIO) => std::thread::sleep(LOOK),
            _ => return,
        }
    }
}

/// Opens the pipe, which fails while nobody has it open for reading (fifo(7)).
fn writer(fifo: &Path) -> std::io::Result<File> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    File::options().write(true).custom_flags(flags).open(fifo)
}

/// Opens the pipe when somebody reads it; `None` if this process is ended before.
fn open(fifo: &Path, stop: &OwnedFd) -> Result<Option<OwnedFd>> {
    loop {
        match writer(fifo) {
            Ok(file) => {
                let pipe = OwnedFd::from(file);
                // It was opened without waiting; writes are to wait for the reader.
                rustix::fs::fcntl_setfl(&pipe, OFlags::empty())
                    .with_context(|| format!("{fifo:?}: set up"))?;
                return Ok(Some(pipe));
            }
            Err(e) if Errno::from_io_error(&e) == Some(Errno::NXIO) => {}
            Err(e) => return Err(e).with_context(|| format!("{fifo:?}: open")),
        }
        let mut watched = [PollFd::new(stop, PollFlags::IN)];
        let pause = Timespec::try_from(LOOK).ok();
        if rustix::event::poll(&mut watched, pause.as_ref()).is_ok_and(|ready| ready > 0) {
            return Ok(None);
        }
    }
}

/// Whether nobody reads a pipe any more (poll(2): POLLERR at its writing end).
fn is_unread(pipe: &impl AsFd) -> bool {
    let mut watched = [PollFd::new(pipe, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    rustix::event::poll(&mut watched, Some(&now)).is_ok()
        && watched[0].revents().contains(PollFlags::ERR)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(name: &str, words: &str) -> Option<Asked> {
        let words = words.split(' ').filter(|word| !word.is_empty()).map(OsString::from);
        read(Path::new(name), words.collect())
    }

    #[test]
    fn wireshark_is_known_by_its_first_word() {
        assert!(asked("/x/extcap/netloom", "--extcap-interfaces --extcap-version=4.0").is_some());
        assert!(asked("netloom", "--capture --extcap-interface x --fifo /f").is_some());
        assert!(asked("/x/netloom-extcap", "").is_some());
        assert!(asked("netloom", "").is_none());
        assert!(asked("netloom", "capture --all").is_none());
        assert!(asked("netloom", "exec a -- tool --extcap-interfaces").is_none());
    }

    #[test]
    fn values_stand_behind_their_word_or_in_it() {
        let one = asked(
            "netloom",
            "--capture --extcap-interface netloom:x --extcap-capture-filter tcp --fifo /f --extcap-control-out /o \
             --extcap-control-in /i --snaplen 64 --direction in",
        );
        let other = asked(
            "netloom",
            "--capture --extcap-interface=netloom:x --extcap-capture-filter=tcp --fifo=/f --extcap-control-out=/o \
             --extcap-control-in=/i --snaplen=64 --direction=in",
        );
        assert_eq!(one, other);
        let one = one.unwrap();
        assert_eq!(one.control, [Some("/i".into()), Some("/o".into())]);
        assert_eq!((one.filter.as_deref(), one.unknown.len()), (Some("tcp"), 0));
        let filter = asked("netloom", "--extcap-interface x --extcap-capture-filter=a==b").unwrap();
        assert_eq!(filter.filter.as_deref(), Some("a==b"));
        assert_eq!(
            asked("netloom", "--capture --colour red").unwrap().unknown,
            ["--colour", "red"]
        );
    }

    #[test]
    fn settings_that_cannot_be_used_are_refused() {
        let wanted =
            |words: &str| wanted(&asked("netloom", &format!("--capture {words}")).unwrap());
        assert_eq!(wanted("").unwrap().snaplen, 0);
        assert!(wanted("").unwrap().without_own && !wanted("--own").unwrap().without_own);
        assert_eq!(wanted("--snaplen 96 --direction out").unwrap().wish.direction, Direction::Out);
        assert!(wanted("--snaplen -1").unwrap_err().to_string().contains("a number of bytes"));
        assert!(wanted("--direction up").unwrap_err().to_string().contains("both, in or out"));
    }
}
