//! Trials: the program over given frames, without an interface (`BPF_PROG_TEST_RUN`).
//!
//! A frame comes in by the loopback interface of the calling thread's network namespace, which [`Trial::load`] makes
//! port 1. What a list sends last is not sent: the frame is returned as it would be; copies sent before are sent. Tags
//! that a program adds are beside the frame, where a trial does not show them.

use std::io;
use std::os::fd::AsRawFd;

use libbpf_sys::bpf_test_run_opts;
use netloom_sys::Failure;

use super::{Flow, Options};
use crate::attach::LOOPBACK;
use crate::{Error, Result};

/// Room for frames that grew.
const MORE: usize = 256;
/// The verdict of what is sent: `TCX_REDIRECT`.
const REDIRECT: u32 = 7;
/// Number of the port.
const PORT: u32 = 1;

/// The outcome of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    /// Whether it is sent.
    pub sent: bool,
    /// The frame afterwards.
    pub bytes: Vec<u8>,
    /// Nanoseconds of a run, on average.
    pub nanoseconds: u32,
}

/// A fast path without interfaces.
#[derive(Debug)]
pub struct Trial {
    /// Its results and upcalls.
    pub flow: Flow,
}

impl Trial {
    /// Loads the programs.
    ///
    /// # Errors
    /// As [`Flow::create`].
    pub fn load(options: &Options) -> Result<Trial> {
        let flow = Flow::create(options)?;
        let words = [u64::from_ne_bytes(crate::map::pair(PORT, 0)), 0, 0, 0, 0, 0, 0, 0];
        flow.ports.put(&LOOPBACK.to_ne_bytes(), &words)?;
        flow.near.put(LOOPBACK, PORT);
        Ok(Trial { flow })
    }

    /// Runs the program over a frame that many times; each sees what the one before left.
    ///
    /// # Errors
    /// [`Error::Failed`] if the kernel refuses the frame.
    pub fn run(&self, frame: &[u8], repeat: u32) -> Result<Ran> {
        let failed = |e| Error::from(Failure::new("frame", "run the program over it", e));
        let size = |bytes: usize| u32::try_from(bytes).map_err(|e| failed(io::Error::other(e)));
        let mut bytes = vec![0; frame.len() + MORE];
        let mut opts = bpf_test_run_opts {
            sz: size_of::<bpf_test_run_opts>() as u64,
            data_in: frame.as_ptr().cast(),
            data_size_in: size(frame.len())?,
            data_out: bytes.as_mut_ptr().cast(),
            data_size_out: size(bytes.len())?,
            repeat: i32::try_from(repeat).map_err(|e| failed(io::Error::other(e)))?,
            ..Default::default()
        };
        let program = self.flow.program.fd().as_raw_fd();
        // SAFETY: frame and buffer have the stated sizes, and all outlive the call.
        let refused = unsafe { libbpf_sys::bpf_prog_test_run_opts(program, &raw mut opts) };
        if refused < 0 {
            return Err(failed(io::Error::from_raw_os_error(-refused)));
        }
        bytes.truncate(usize::try_from(opts.data_size_out).unwrap_or(0));
        Ok(Ran { sent: opts.retval == REDIRECT, bytes, nanoseconds: opts.duration })
    }
}
