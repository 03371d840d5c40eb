//! Who may speak to a lab: files of mode 0600, and the check of the user for each connection.

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::net::UnixListener;
use std::path::Path;

use netloom_api::{Client, Error};
use netloom_lab::calls::Status;
use rustix::process::Uid;

use super::fake::{Served, status};

const NOBODY: u32 = 65534;

/// Makes the calling thread another user's; the process stays root.
fn become_nobody() -> std::io::Result<()> {
    let nobody = Uid::from_raw(NOBODY);
    Ok(rustix::thread::set_thread_res_uid(nobody, nobody, nobody)?)
}

/// Runs in a thread of another user.
fn as_nobody<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            become_nobody().unwrap();
            work()
        });
        thread.join().unwrap()
    })
}

/// Root of a user namespace has no other users to be.
fn has_nobody() -> bool {
    std::thread::spawn(become_nobody).join().unwrap().is_ok()
}

#[test]
fn sockets_are_for_their_owner_alone() {
    let served = Served::new();
    for name in ["api.sock", "handles.sock"] {
        let mode = served.path().join(name).metadata().unwrap().mode();
        assert_eq!(mode & 0o7777, 0o600, "{name}");
    }
}

#[test]
fn another_user_is_refused_by_both_sockets() {
    if !has_nobody() {
        netloom_kit::skip!("root-only: connects as another user");
    }
    let served = Served::new();
    served.open_to_all();
    let folder = served.path();
    let (call, entry) = as_nobody(|| {
        let client = Client::connect(folder).unwrap();
        (client.call(&Status::whole()).unwrap_err(), client.entry("h1").unwrap_err())
    });
    assert!(matches!(call, Error::Closed { .. }), "{call}");
    assert!(matches!(entry, Error::Closed { .. }), "{entry}");
    assert_eq!(*served.fake.asked.lock().unwrap(), [""; 0]);
    assert_eq!(served.client().call(&Status::whole()).unwrap(), status());
}

#[test]
fn without_the_file_s_rights_another_user_does_not_even_connect() {
    if !has_nobody() {
        netloom_kit::skip!("root-only: connects as another user");
    }
    let served = Served::new();
    let folder = served.path();
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).unwrap();
    let error = as_nobody(|| Client::connect(folder).unwrap_err());
    let Error::Failed(failure) = &error else { panic!("{error}") };
    assert_eq!(failure.raw_os_error(), Some(rustix::io::Errno::ACCESS.raw_os_error()));
}

#[test]
fn a_client_does_not_trust_another_user_s_socket() {
    if !has_nobody() {
        netloom_kit::skip!("root-only: listens as another user");
    }
    let folder = tempfile::tempdir().unwrap();
    chown(folder.path(), Some(NOBODY), None).unwrap();
    let listen = |path: &Path| UnixListener::bind(path).unwrap();
    let listener = as_nobody(|| listen(&folder.path().join("api.sock")));
    let error = Client::connect(folder.path()).unwrap_err();
    assert!(matches!(error, Error::Stranger { uid: NOBODY, .. }), "{error}");
    drop(listener);
}
