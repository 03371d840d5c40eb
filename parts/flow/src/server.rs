//! Event loop of a switch's process.

use std::os::fd::OwnedFd;
use std::path::Path;

use crate::application::Application;
use crate::{Error, Result};

/// What a switch's process is called.
pub const NAME: &str = "netloom-flow";

/// Runs a switch that takes requests over `listener` (SOCK_SEQPACKET, listening, mode 0600), until
/// [`crate::control::Request::Stop`], SIGTERM, or the end of `folder`. It makes the socket that speaks OpenFlow itself.
///
/// Call it in the network namespace of the ports, with a single thread; it names the process [`NAME`] and blocks SIGTERM.
///
/// # Errors
/// The process cannot be set up; [`Error::BrokenState`] if the state file is malformed. Client errors are
/// answered to the client.
pub fn serve(listener: OwnedFd, folder: &Path, application: &Application) -> Result<()> {
    let _ = (listener, folder, application);
    Err(Error::refused("it is not built yet"))
}
