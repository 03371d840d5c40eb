//! The binary itself, as cargo builds it: what it says of itself, and how it ends.

use std::process::{Command, Output};

fn run(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_netloom")).args(words).output().expect("start netloom")
}

#[test]
fn it_has_the_version_of_its_package() {
    let out = run(&["--version"]);
    assert!(out.status.success());
    assert_eq!(out.stdout, concat!("netloom ", env!("CARGO_PKG_VERSION"), "\n").as_bytes());
}

#[test]
fn wrong_usage_ends_with_2_and_says_what_was_wrong() {
    let out = run(&["fly"]);
    let words = String::from_utf8_lossy(&out.stderr);
    assert_eq!((out.status.code(), out.stdout.is_empty()), (Some(2), true));
    assert!(words.contains("'fly'"), "{words}");
}

#[test]
fn errors_that_nobody_reads_end_as_others_do() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut command = Command::new(env!("CARGO_BIN_EXE_netloom"));
    let status = command.args(["check", "/nonexistent/lab.yaml"]).stderr(writer).status();
    assert_eq!(status.expect("start netloom").code(), Some(2));
}

/// netloom in a folder of its own, with a program there that says that it was run.
fn with_bench(folder: &std::path::Path) -> (std::path::PathBuf, std::path::PathBuf) {
    use std::os::unix::fs::PermissionsExt;
    let (netloom, bench) = (folder.join("netloom"), folder.join("netloom-bench"));
    let built = env!("CARGO_BIN_EXE_netloom");
    std::fs::hard_link(built, &netloom)
        .or_else(|_| std::fs::copy(built, &netloom).map(drop))
        .expect("netloom");
    std::fs::write(&bench, "#!/bin/sh\necho ran\n").expect("write");
    std::fs::set_permissions(&bench, std::fs::Permissions::from_mode(0o755)).expect("mode");
    (netloom, bench)
}

/// What `netloom bench` and its completion say, without netloom-bench in PATH.
fn benches(netloom: &std::path::Path, folder: &std::path::Path, path: &str) -> [Output; 2] {
    [&["bench", "lab"][..], &["complete-words", "bench", ""]].map(|words| {
        let mut command = Command::new(netloom);
        command.args(words).current_dir(folder).env("PATH", path).output().expect("start netloom")
    })
}

#[test]
fn bench_runs_no_program_of_the_current_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_, bench) = with_bench(folder.path());
    let elsewhere = folder.path().join("bin");
    std::fs::create_dir(&elsewhere).expect("a folder");
    let netloom = elsewhere.join("netloom");
    std::fs::rename(folder.path().join("netloom"), &netloom).expect("move");
    for path in [".", "", "::", "nowhere:."] {
        for out in benches(&netloom, folder.path(), path) {
            let words = String::from_utf8_lossy(&out.stdout);
            assert!(!words.contains("ran"), "{path}: {words}");
        }
    }
    let absolute = folder.path().to_str().expect("a path");
    assert_eq!(benches(&netloom, folder.path(), absolute)[0].stdout, b"ran\n");
    std::fs::rename(bench, elsewhere.join("netloom-bench")).expect("move");
    assert_eq!(benches(&netloom, folder.path(), ".")[0].stdout, b"ran\n");
}

#[test]
fn bench_runs_no_program_that_another_user_put_beside_netloom() {
    netloom_kit::root_only!("gives a file away");
    let folder = tempfile::tempdir().expect("a folder");
    let (netloom, bench) = with_bench(folder.path());
    std::os::unix::fs::chown(&bench, Some(65534), None).expect("give away");
    let [run, completed] = benches(&netloom, folder.path(), "/usr/bin:/bin");
    let words = String::from_utf8_lossy(&run.stderr).into_owned();
    assert!(words.contains("netloom-bench\": belongs to user 65534"), "{words}");
    assert!(run.stdout.is_empty() && completed.stdout.is_empty());
    std::os::unix::fs::chown(&bench, Some(0), None).expect("take back");
    assert_eq!(benches(&netloom, folder.path(), "")[0].stdout, b"ran\n");
}
