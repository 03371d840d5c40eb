//! Folders that are made, taken over, and refused.

use std::os::unix::fs::PermissionsExt;

use super::*;

fn place() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("netloom-vde-").tempdir().expect("a folder")
}

fn text<T>(result: Result<T>) -> String {
    netloom_sys::describe(&result.err().expect("refused"))
}

#[test]
fn a_folder_has_the_modes_of_vde_switch() {
    let place = place();
    for (mode, folder, socket) in [
        (0o600, 0o3700, 0o600),
        (0o660, 0o3770, 0o660),
        (0o666, 0o3777, 0o666),
        (0o622, 0o3733, 0o622),
    ] {
        let path = place.path().join(format!("{mode:o}"));
        let made = Folder::make(&path, mode, None).unwrap();
        let mode_of = |path: &Path| fs::metadata(path).unwrap().mode() & 0o7777;
        assert_eq!((mode_of(&path), mode_of(&path.join(CONTROL))), (folder, socket));
        assert_eq!(mode_of(&path.join(CONSOLE)), 0o600);
        made.remove();
        assert!(!path.exists());
    }
}

#[test]
fn a_folder_that_nobody_serves_is_taken_over() {
    let place = place();
    let path = place.path().join("sw");
    let made = Folder::make(&path, 0o600, None).unwrap();
    let data = rustix::net::socket(AddressFamily::UNIX, SocketType::DGRAM, None).unwrap();
    made.name_data(&data, "001.6", rustix::process::geteuid().as_raw()).unwrap();
    assert!(text(Folder::make(&path, 0o600, None)).contains("Address already in use"));
    // As after a kill: the files stay.
    drop((made, data));
    let again = Folder::make(&path, 0o600, None).unwrap();
    assert!(!path.join("001.6").exists());
    again.remove();
    assert!(!path.exists());
    clear(&path);
}

#[test]
fn what_is_no_folder_of_vde_is_left_alone() {
    let place = place();
    let path = place.path().join("sw");
    fs::write(&path, "").unwrap();
    assert!(text(Folder::make(&path, 0o600, None)).contains("is not a folder"));
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(path.join("letter"), "").unwrap();
    let said = text(Folder::make(&path, 0o600, None));
    assert!(said.contains("holds \"letter\""), "{said}");
    clear(&path);
    assert!(path.join("letter").exists());
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o755);
    fs::remove_file(path.join("letter")).unwrap();
    fs::write(path.join(CONTROL), "").unwrap();
    assert!(text(Folder::make(&path, 0o600, None)).contains("holds \"ctl\""));
}

#[test]
fn paths_have_a_root_and_an_end() {
    let long = PathBuf::from(format!("/{}", "x".repeat(request::MOST_FOLDER)));
    let said = text(Folder::make(&long, 0o600, None));
    assert!(said.contains("allow 92 at most"), "{said}");
    assert!(text(Folder::make(Path::new("sw"), 0o600, None)).contains("not a path from the root"));
}

#[test]
fn another_users_folder_is_refused() {
    if rustix::process::geteuid().as_raw() != 0 {
        netloom_kit::skip!("root-only: gives a folder to somebody else");
    }
    let place = place();
    let path = place.path().join("sw");
    fs::create_dir(&path).unwrap();
    std::os::unix::fs::chown(&path, Some(65534), None).unwrap();
    let said = text(Folder::make(&path, 0o600, None));
    assert!(said.contains("is user 65534's"), "{said}");
}

/// A user that may join may write to the folder: a link in the place of a socket leads to no other file.
#[test]
fn what_others_put_in_the_place_of_a_socket_is_not_changed() {
    let place = place();
    let (path, file) = (place.path().join("sw"), place.path().join("file"));
    fs::write(&file, "").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    let made = Folder::make(&path, 0o666, None).unwrap();
    let own = rustix::process::geteuid().as_raw();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let data = path.join("001.6");
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                let _ = fs::remove_file(&data);
                let _ = std::os::unix::fs::symlink(&file, &data);
            }
        });
        for _ in 0..netloom_kit::rounds(500) {
            let kind = SocketType::DGRAM;
            let data = rustix::net::socket(AddressFamily::UNIX, kind, None).unwrap();
            let _ = made.name_data(&data, "001.6", own);
            assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o640);
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    netloom_kit::done("sockets beside who exchanges them", netloom_kit::rounds(500));
    made.remove();
}

#[test]
fn what_others_leave_in_a_folder_goes_with_it() {
    netloom_kit::root_only!("makes files of another user");
    let place = place();
    let path = place.path().join("sw");
    let fill = || {
        fs::create_dir_all(path.join("folder/inner")).unwrap();
        fs::write(path.join("letter"), "").unwrap();
        std::os::unix::fs::symlink(place.path(), path.join("link")).unwrap();
        for name in ["folder", "letter", "link"] {
            std::os::unix::fs::lchown(path.join(name), Some(1), Some(1)).unwrap();
        }
    };
    let made = Folder::make(&path, 0o666, None).unwrap();
    fill();
    // As after a kill.
    drop(made);
    let again = Folder::make(&path, 0o666, None).unwrap();
    assert!(!path.join("letter").exists());
    fill();
    again.remove();
    assert!(!path.exists() && place.path().exists());
}
