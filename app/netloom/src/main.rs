//! The binary: flags, files, output, exit codes.
//!
//! [`verbs`] holds the verbs; the crates below do the work. [`exit_code`] is the one place that turns errors
//! into exit codes. The process stays single-threaded until a verb says otherwise, because it may fork and
//! enter namespaces.
#![forbid(unsafe_code)]
#![deny(
    clippy::print_stderr,
    reason = "panics when standard error is closed: `tell_line!` does not"
)]

#[macro_use]
mod output;

mod bench;
mod command_line;
mod completing;
mod extcap;
mod flags;
mod foreign;
mod input;
mod labs;
mod man;
mod source;
mod verbs;
mod whole_file;

use std::io;

/// Wrong usage detected only at run time, e.g. several labs run and none is named.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Usage(String);

fn main() {
    let done = match extcap::asked() {
        Some(asked) => extcap::run(&asked),
        None => verbs::run(command_line::read()),
    };
    let code = match done {
        Ok(code) => code,
        Err(error) => report(&error),
    };
    std::process::exit(code);
}

/// Prints an error once, with its causes, and returns the exit code.
fn report(error: &anyhow::Error) -> i32 {
    // `netloom ls | head` has done what was wanted.
    if is_broken_pipe(error) {
        return 0;
    }
    if let Some(diagnostics) = error.downcast_ref::<netloom_config::Diagnostics>() {
        tell_line!("{diagnostics}");
        return 2;
    }
    // It may name what others have named: files, processes, nodes.
    tell_line!("netloom: {}", netloom_sys::describe(&**error));
    exit_code(error)
}

/// Maps errors to exit codes: 1 failed, 2 wrong usage or file, 3 not supported here.
fn exit_code(error: &anyhow::Error) -> i32 {
    // The outermost cause first: a context may be more exact than what is behind it.
    for cause in error.chain() {
        if cause.is::<Usage>() || cause.is::<input::Unreadable>() {
            return 2;
        }
        if let Some(on_hosts) = cause.downcast_ref::<verbs::over::verbs::OnHosts>() {
            return if on_hosts.unsupported { 3 } else { 1 };
        }
        if cause.is::<foreign::Refused>() {
            return 2;
        }
        match cause.downcast_ref::<netloom_guard::Error>() {
            Some(netloom_guard::Error::Unsupported(_)) => return 3,
            Some(error) => return error.shell_code().unwrap_or(1),
            None => {}
        }
        match cause.downcast_ref() {
            Some(netloom_record::Error::Question(_)) => return 2,
            Some(netloom_record::Error::Libpcap(netloom_libpcap::Error::Unsupported(_))) => {
                return 3;
            }
            _ => {}
        }
        if cause.downcast_ref().is_some_and(netloom_session::Error::is_request) {
            return 2;
        }
        if cause.is::<netloom_sys::Unsupported>() {
            return 3;
        }
        if let Some(
            netloom_measure::Error::Invalid { .. }
            | netloom_measure::Error::Period { .. }
            | netloom_measure::Error::Marking(_),
        ) = cause.downcast_ref()
        {
            return 2;
        }
        if let Some(netloom_image::Error::Name(_)) = cause.downcast_ref() {
            return 2;
        }
        match cause.downcast_ref() {
            Some(netloom_container::Error::Refused(netloom_oci::Error::Name { .. })) => return 2,
            Some(netloom_container::Error::Missing { .. }) => return 2,
            _ => {}
        }
        match cause.downcast_ref() {
            Some(netloom_api::Error::Refused { status: 501, .. }) => return 3,
            Some(netloom_api::Error::Refused { status: 400, .. }) => return 2,
            _ => {}
        }
    }
    1
}

/// A reader that closed its pipe is not a failure.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
    })
}

#[cfg(test)]
mod tests {
    use netloom_sys::{Failure, Unsupported};

    use super::*;

    fn missing() -> Unsupported {
        Unsupported { feature: "wings", reason: "none".into(), needs: "grow some".into() }
    }

    /// At any depth, and whichever crate says so.
    #[test]
    fn what_the_machine_lacks_is_code_3() {
        let wrapped = Failure::new("link \"a\"", "set up", netloom_netlink::Error::from(missing()));
        let capture = netloom_capture::Error::from(netloom_libpcap::Error::from(missing()));
        let all: [anyhow::Error; 10] = [
            missing().into(),
            wrapped.into(),
            netloom_session::Error::from(netloom_libpcap::Error::from(missing())).into(),
            netloom_session::Error::from(capture).into(),
            netloom_lab::Error::from(missing()).into(),
            netloom_measure::Error::from(netloom_ebpf::Error::from(missing())).into(),
            netloom_vm::Error::from(missing()).into(),
            netloom_image::Error::from(missing()).into(),
            netloom_port::Error::from(missing()).into(),
            netloom_guard::Error::from(missing()).into(),
        ];
        for error in all {
            let error = error.context("what was tried");
            assert_eq!(exit_code(&error), 3, "{error:#}");
            let told = netloom_sys::describe(&*error);
            assert_eq!(told.matches("wings: not available here").count(), 1, "{told}");
        }
    }
}
