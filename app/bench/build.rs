//! Tells optimised builds of which commit they are: reports of measurements name it.
//!
//! Development builds are not told: they would be built again with every commit.

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let optimised = env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let commit = if optimised { commit() } else { Some("development build".to_owned()) };
    println!("cargo:rustc-env=BUILT_FROM={}", commit.unwrap_or_else(|| "unknown".to_owned()));
}

/// The checked out commit, and whether files differ from it; `None` outside a clone.
fn commit() -> Option<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2)?;
    let git = |arguments: &[&str]| {
        let output = Command::new("git").arg("-C").arg(root).args(arguments).output().ok()?;
        let said = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| said.trim().to_owned())
    };
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    let changed = !git(&["status", "--porcelain", "--untracked-files=no"])?.is_empty();
    for file in ["HEAD", "logs/HEAD"] {
        println!(
            "cargo:rerun-if-changed={}",
            root.join(git(&["rev-parse", "--git-path", file])?).display()
        );
    }
    for folder in ["app", "core", "host", "parts", "Cargo.lock"] {
        println!("cargo:rerun-if-changed={}", root.join(folder).display());
    }
    Some(if changed { format!("{commit} with changes") } else { commit })
}
