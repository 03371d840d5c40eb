//! `serve`: the REST API on a port, until interrupted.
//!
//! Measurements belong to this process: their points are BPF links that end with it in any case.

use std::ffi::OsString;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use netloom_api::{Gate, Offer, Server, Token};
use netloom_measure::{Host, Probe};
use rustix::event::{PollFd, PollFlags};
use rustix::fs::OFlags;

use super::opening;
use crate::Usage;
use crate::flags::Serve;
use crate::labs::{self, Wish};
use crate::output::print;

/// More than the length of a token.
const MOST_BYTES: u64 = 4096;

/// `netloom serve`
pub(crate) fn serve(wish: &Wish, args: &Serve) -> Result<i32> {
    // With `--name`, a lab named only by the environment is not served.
    let lab = if args.name.is_some() { wish.flag() } else { wish.lab() };
    let folder = match lab {
        None if !args.has_page() => None,
        name => Some(labs::chosen(name)?),
    };
    if folder.is_none() && args.read_only {
        return Err(Usage("--read-only: is for a lab; name it with -l LAB".to_owned()).into());
    }
    if folder.is_some() && args.name.is_some() {
        return Err(Usage("--name: a lab's records have the lab's name".to_owned()).into());
    }
    let token = match &args.token_file {
        Some(path) => kept(path)?,
        None => Token::random()?,
    };
    let stop = super::ending()?;
    let listener = TcpListener::bind(args.listen)
        .with_context(|| format!("address {}: listen", args.listen))?;
    let address = listener.local_addr().context("port: ask for its number")?;
    raise_open_files();
    let names = args.hosts.iter().cloned().chain([machine()]).collect();
    let gate = Gate::new(token.clone(), names);
    let gate = if args.has_page() { gate.with_page() } else { gate };
    let (server, path) = match &folder {
        Some(folder) => {
            // Check at once whether the lab answers.
            labs::connect_to(folder)?;
            (
                netloom_api::serve_lab(listener, &folder.path(), gate, offer(folder.name(), args))?,
                "/v1/lab",
            )
        }
        None => (probe(listener, args, gate)?, "/pnpm/"),
    };
    if !address.ip().is_loopback() {
        tell_line!(
            "warning: {address} can be reached from other machines: traffic is not encrypted, and shows the token"
        );
    }
    print(&words(&format!("http://{address}{path}"), &token, args.token_file.as_deref()))?;
    if args.has_page() {
        print(&page_words(address, &token, args.token_file.as_deref()))?;
    }
    // What has a page has a lab.
    let opened = folder
        .filter(|_| args.open)
        .map(|folder| opening::open(&link(address, token.text()), &folder.path()));
    wait(&stop)?;
    drop(opened);
    server.stop();
    Ok(0)
}

/// What a lab's port offers. What enters nodes has one thread, and the API does not read lab files, so each is a run of this program.
fn offer(lab: &str, args: &Serve) -> Offer {
    let own = std::process::id().to_string();
    let words = |words: &[&str]| Some(words.iter().map(OsString::from).collect());
    let shell = ["-l", lab, "terminal-process", own.as_str()];
    let capture = ["-l", lab, "capture-process", own.as_str(), "--quiet", "--write", "-"];
    let measure = ["-l", lab, "measure-process", own.as_str(), "--json", "--for", "600s"];
    // As much as a person looks at: rings and memory are this user's.
    let bounds = ["--ring", "4MiB", "--memory", "64MiB", "--duration", "600s", "--filter"];
    Offer {
        shell: words(&shell),
        capture: words(&[&capture[..], &bounds].concat()),
        measure: words(&measure),
        file: words(&["-l", lab]),
        read_only: args.read_only,
    }
}

/// Serves the interfaces of this namespace.
fn probe(listener: TcpListener, args: &Serve, gate: Gate) -> Result<Server> {
    let name = args.name.clone().unwrap_or_else(machine);
    let probe = Arc::new(Probe::new(name, Arc::new(Host)));
    Ok(netloom_api::serve_probe(listener, probe, gate)?)
}

/// Lets this process open as many files as it may: each connection is one, and another one to the lab.
fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // With fewer, connections give way earlier.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

fn machine() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The served address, and how to send requests; a token kept in a file is not shown.
fn words(url: &str, token: &Token, file: Option<&Path>) -> String {
    let how = match file {
        Some(file) => {
            let file = file.display();
            format!("(printf 'Authorization: Bearer '; cat '{file}') | curl -sH @- {url}")
        }
        None => format!("curl -sH 'Authorization: Bearer {}' {url}", token.text()),
    };
    format!("serving {url}; Ctrl-C ends it\n{how}\n")
}

/// The page's link with this behind its `#`, which browsers send to nobody. A server on all addresses is also on loopback.
fn link(mut address: SocketAddr, token: &str) -> String {
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    format!("http://{address}/#{token}")
}

/// The page's link; a token kept in a file is not shown.
fn page_words(address: SocketAddr, token: &Token, file: Option<&Path>) -> String {
    match file {
        Some(file) => {
            let file = file.display();
            format!("page {} with the token of '{file}' behind #\n", link(address, ""))
        }
        None => format!("page {}\n", link(address, token.text())),
    }
}

fn wait(stop: &OwnedFd) -> Result<()> {
    let mut fds = [PollFd::new(stop, PollFlags::IN)];
    loop {
        match rustix::event::poll(&mut fds, None) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => return Ok(()),
            Err(e) => return Err(e).context("signals: wait"),
        }
    }
}

/// The token in a file, created if missing.
fn kept(path: &Path) -> Result<Token> {
    match open(path) {
        Ok(file) => read(path, file),
        Err(e) if e.kind() == ErrorKind::NotFound => write(path),
        Err(e) => Err(e).with_context(|| format!("{path:?}: open")),
    }
}

/// Opens what may be a FIFO, without waiting for somebody to write to it.
fn open(path: &Path) -> std::io::Result<File> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    File::options().read(true).custom_flags(flags).open(path)
}

fn read(path: &Path, file: File) -> Result<Token> {
    let about = file.metadata().with_context(|| format!("{path:?}: look at"))?;
    if !about.is_file() {
        bail!(
            "{path:?}: it is not a regular file; name one that has the token, or does not exist yet"
        );
    }
    if ![0, rustix::process::geteuid().as_raw()].contains(&about.uid()) {
        let uid = about.uid();
        bail!(
            "{path:?}: belongs to user {uid}, who knows the token; name a file of your own, or a new one"
        );
    }
    if about.mode() & 0o077 != 0 {
        let mode = about.mode() & 0o777;
        bail!("{path:?}: has mode {mode:04o}, so that others may read the token; chmod 600 it");
    }
    let mut text = String::new();
    file.take(MOST_BYTES).read_to_string(&mut text).with_context(|| format!("{path:?}: read"))?;
    Token::chosen(text.trim_ascii_end()).with_context(|| {
        format!("{path:?}: has no token: one line of 16 to 512 letters, digits and -._~+/=")
    })
}

fn write(path: &Path) -> Result<Token> {
    let token = Token::random()?;
    let mut options = File::options();
    let file = options.write(true).create_new(true).mode(0o600).open(path);
    let mut file = file.with_context(|| format!("{path:?}: make"))?;
    file.write_all(format!("{}\n", token.text()).as_bytes())
        .with_context(|| format!("{path:?}: write"))?;
    Ok(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_that_is_kept_is_not_shown() {
        let token = Token::chosen("0123456789abcdef").unwrap();
        let shown = words("http://127.0.0.1:1/pnpm/", &token, None);
        assert_eq!(
            shown,
            "serving http://127.0.0.1:1/pnpm/; Ctrl-C ends it\n\
             curl -sH 'Authorization: Bearer 0123456789abcdef' http://127.0.0.1:1/pnpm/\n"
        );
        let kept = words("http://127.0.0.1:1/pnpm/", &token, Some(Path::new("/t")));
        assert!(!kept.contains(token.text()) && kept.contains("cat '/t'"), "{kept}");
        let address = "0.0.0.0:7".parse().unwrap();
        let page = page_words(address, &token, None);
        assert_eq!(page, "page http://127.0.0.1:7/#0123456789abcdef\n");
        let page = page_words("[::1]:7".parse().unwrap(), &token, Some(Path::new("/t")));
        assert_eq!(page, "page http://[::1]:7/# with the token of '/t' behind #\n");
    }
}
