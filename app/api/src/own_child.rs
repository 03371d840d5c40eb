//! A child of this process that does not outlive it, nor the request that it is for.

use std::process::{Child, Command};

use netloom_sys::Failure;

/// A child that is killed and waited for with this. It asks to be killed when the thread that started it ends, so that thread
/// has to live as long.
#[derive(Debug)]
pub(crate) struct OwnChild(pub(crate) Child);

impl OwnChild {
    /// Starts it.
    ///
    /// # Errors
    /// Errors of the system.
    pub(crate) fn start(command: &mut Command) -> netloom_sys::Result<OwnChild> {
        Ok(OwnChild(command.spawn().map_err(Failure::of("/proc/self/exe", "start"))?))
    }
}

impl Drop for OwnChild {
    fn drop(&mut self) {
        // One that was waited for gets no signal.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
