//! Runs the distribution's programs, with arguments and never by a shell; a missing one is an [`Unsupported`].

use std::io::ErrorKind;
use std::process::{Command, Output, Stdio};

use netloom_sys::{Failure, Unsupported};

use crate::Result;

/// The output of a program, whether it succeeded or not. Its words are not translated.
pub(crate) fn output(command: &mut Command) -> Result<Output> {
    let name = command.get_program().to_string_lossy().into_owned();
    let done = command.stdin(Stdio::null()).env("LC_ALL", "C.UTF-8").output();
    match done {
        Ok(output) => Ok(output),
        Err(e) if e.kind() == ErrorKind::NotFound => Err(missing(&name).into()),
        Err(e) => Err(Failure::new(name, "start", e).into()),
    }
}

/// As [`output`], of a program that must succeed.
pub(crate) fn must(command: &mut Command, object: &str) -> Result<Vec<u8>> {
    let done = output(command)?;
    if done.status.success() {
        return Ok(done.stdout);
    }
    let said = String::from_utf8_lossy(&done.stderr).trim().to_owned();
    Err(Failure::new(object.to_owned(), "unpack", std::io::Error::other(said)).into())
}

fn missing(name: &str) -> Unsupported {
    let needs = match name {
        "apt-get" => {
            "images are made from packages of Debian or Ubuntu: build there, and copy the folder"
        }
        "dpkg-deb" => "install it with: apt-get install dpkg",
        "xz" => "install it with: apt-get install xz-utils",
        _ => "install it with: apt-get install zstd",
    };
    Unsupported {
        feature: "images of machines",
        reason: format!("{name} is not installed"),
        needs: needs.to_owned(),
    }
}
