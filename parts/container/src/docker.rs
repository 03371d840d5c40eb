//! Docker on this machine, by its socket: `GET /images/NAME/get` of its API gives the archive of `docker save`.
//!
//! A name may be an image's ID (`sha256:HEX`). Where Docker listens is `$DOCKER_HOST`, which has to be a socket, or the
//! usual places. In a runtime folder that another user can exchange nobody is asked. The caller checks the content of the
//! archive.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use netloom_oci::Reference;
use netloom_sys::Failure;
use netloom_sys::trusted::TrustedDir;
use rustix::fs::FileType;

use crate::options::Patience;
use crate::transport::{self, Answer, Bounds};
use crate::{Error, Result};

/// Where Docker of the whole machine listens.
const USUAL: &str = "/var/run/docker.sock";

/// The longest that Docker takes to begin, relative to a registry.
const SLOWER: u32 = 10;

/// The most bytes of an error that are read.
const MOST_SAID: u64 = 64 << 10;

/// Fetches the archive of an image into a file.
pub(crate) fn fetch(
    reference: &Reference,
    path: &Path,
    image: &str,
    patience: Patience,
) -> Result<()> {
    let failed = |why: String| {
        let (image, step) = (image.to_owned(), "Docker".to_owned());
        Error::Registry { image, step, why }
    };
    let socket = socket().map_err(failed)?;
    let broken = |e: io::Error| failed(format!("{}: {e}", socket.display()));
    // Docker packs the archive before its first byte, which takes long for large images.
    let bounds = Bounds { connect: patience.connect, stall: patience.stall * SLOWER };
    let name = netloom_oci::address::escape(&reference.familiar());
    let to = format!("/images/{name}/get");
    let mut answer = transport::get_local(&socket, &to, bounds).map_err(broken)?;
    match answer.head.status {
        200 => {}
        404 => {
            let (image, place) = (image.to_owned(), "Docker".to_owned());
            return Err(Error::NotFound { image, place });
        }
        status => return Err(failed(format!("it answers {status}{}", said(&mut answer)))),
    }
    let mut file = File::create(path).map_err(|e| Failure::path(path, "write", e))?;
    loop {
        let data = answer.next().map_err(broken)?;
        if data.is_empty() {
            return Ok(());
        }
        file.write_all(data).map_err(|e| Failure::path(path, "write", e))?;
    }
}

/// What an answer with an error says: `{"message": TEXT}`.
fn said(answer: &mut Answer) -> String {
    let text = answer.whole(MOST_SAID).unwrap_or_default();
    let text: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
    text["message"].as_str().map(|message| format!(": {message}")).unwrap_or_default()
}

/// Where Docker listens.
fn socket() -> std::result::Result<PathBuf, String> {
    let set = |name| std::env::var(name).ok().filter(|text: &String| !text.is_empty());
    // Only root can put the system's socket there: no check of its folder is needed.
    let is_there = |path: &Path| match path == Path::new(USUAL) {
        true => path.exists(),
        false => is_own(path),
    };
    choose(set("DOCKER_HOST").as_deref(), set("XDG_RUNTIME_DIR").as_deref(), is_there)
}

/// Whether there is a socket that no other user has put there, or can exchange.
fn is_own(socket: &Path) -> bool {
    let folder = socket.parent().and_then(|folder| TrustedDir::open(folder).ok().flatten());
    let kind = folder.zip(socket.file_name()).and_then(|(folder, name)| folder.kind(name));
    kind == Some(FileType::Socket)
}

fn choose(
    host: Option<&str>,
    runtime: Option<&str>,
    is_there: impl Fn(&Path) -> bool,
) -> std::result::Result<PathBuf, String> {
    if let Some(host) = host {
        return match host.strip_prefix("unix://") {
            Some(path) => Ok(PathBuf::from(path)),
            None => Err(format!(
                "$DOCKER_HOST is {host:?}, and only Docker on this machine (unix://SOCKET) is asked; \
                 of another one load what `docker save` writes"
            )),
        };
    }
    // A user's own Docker has its socket elsewhere.
    let own = runtime.map(|folder| Path::new(folder).join("docker.sock"));
    let usual = PathBuf::from(USUAL);
    match own.filter(|own| !is_there(&usual) && is_there(own)) {
        Some(own) => Ok(own),
        None => Ok(usual),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn docker_listens_where_it_is_said_or_usual() {
        let only = |there: &'static str| move |path: &Path| path == Path::new(there);
        let at = |path: &str| Ok(PathBuf::from(path));
        assert_eq!(choose(Some("unix:///a/b"), Some("/run/user/7"), only("")), at("/a/b"));
        assert_eq!(choose(None, None, only("")), at(USUAL));
        let own = "/run/user/7/docker.sock";
        assert_eq!(choose(None, Some("/run/user/7"), only(own)), at(own));
        assert_eq!(choose(None, Some("/run/user/7"), only(USUAL)), at(USUAL));
        let refused = choose(Some("tcp://10.0.0.1:2375"), None, only(USUAL)).unwrap_err();
        assert!(refused.starts_with("$DOCKER_HOST is \"tcp://10.0.0.1:2375\""), "{refused}");
    }

    #[test]
    fn a_socket_that_others_can_exchange_is_not_asked() {
        let folder = tempfile::tempdir().unwrap();
        let runtime = folder.path().join("runtime");
        std::fs::create_dir(&runtime).unwrap();
        let socket = runtime.join("docker.sock");
        assert!(!is_own(&socket));
        let _docker = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        assert!(is_own(&socket));
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(&runtime, open).unwrap();
        assert!(!is_own(&socket));
        if netloom_kit::is_root() {
            let closed = std::os::unix::fs::PermissionsExt::from_mode(0o700);
            std::fs::set_permissions(&runtime, closed).unwrap();
            std::os::unix::fs::chown(&runtime, Some(1), None).unwrap();
            assert!(!is_own(&socket));
        }
    }
}
