//! Trials: a point attached nowhere that processes given frames.
//!
//! The kernel runs the program over one frame repeatedly and measures the time
//! (`BPF_PROG_TEST_RUN`), so a point's cost per packet is known without a card or traffic. A trial
//! counts and samples as a point does. A marking point's writes do not last from one call to the
//! next, but within a call the second run sees the frame as the first one left it.

use std::io;
use std::os::fd::AsRawFd;

use libbpf_sys::bpf_test_run_opts;
use netloom_sys::Failure;

use super::link::{LinkHeader, Side};
use super::{Config, Measure};
use crate::{Direction, Error, Result};

/// Bytes of `struct __sk_buff`, and offsets of the frame's time and segments in it.
const CONTEXT: usize = 192;
const TSTAMP: usize = 152;
const GSO_SEGS: usize = 164;
const GSO_SIZE: usize = 176;

/// The segmentation of a super-frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segments {
    /// Bytes of data in each packet but the last.
    pub size: u32,
    /// Number of packets; 0: unknown, as in frames of virtual machines.
    pub count: u32,
}

/// The outcome of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passed {
    /// The program's verdict in the last run; "continue" is -1 for tcx, 2 for XDP.
    pub verdict: u32,
    /// The frame afterwards.
    pub bytes: Vec<u8>,
    /// Average nanoseconds of one run, as measured by the kernel: whole ones, including its loop.
    pub nanoseconds: u32,
}

/// A point at a fictitious Ethernet interface.
#[derive(Debug)]
pub struct Trial {
    point: Measure,
    /// XDP takes no context.
    xdp: bool,
}

impl Trial {
    /// Loads the program of [`Measure::attach`].
    ///
    /// # Errors
    /// As [`Measure::attach`], except those of interfaces.
    pub fn load(config: &Config, direction: Direction) -> Result<Trial> {
        Self::load_at(Side::Tc(direction), config)
    }

    /// Loads the program of [`Measure::attach_xdp`].
    ///
    /// # Errors
    /// As [`Trial::load`].
    pub fn load_xdp(config: &Config) -> Result<Trial> {
        Self::load_at(Side::Xdp, config)
    }

    fn load_at(place: Side, config: &Config) -> Result<Trial> {
        let point = Measure::load_with(place, config, LinkHeader::Ethernet)?;
        Ok(Trial { point, xdp: place == Side::Xdp })
    }

    /// Nanoseconds of a run over this frame: the minimum of `rounds` rounds of that many runs. For
    /// [`Program::Empty`](netloom_marking::session::Program::Empty) it is the kernel's loop; the
    /// difference to it is the point's cost.
    ///
    /// # Errors
    /// As [`Trial::run`].
    pub fn nanoseconds(
        &self,
        frame: &[u8],
        segments: Option<Segments>,
        repeat: u32,
        rounds: u32,
    ) -> Result<f64> {
        // Interrupts only add to a round: the shortest one is nearest to the program's own time.
        let mut least = u32::MAX;
        for _ in 0..rounds.max(1) {
            least = least.min(self.run(frame, segments, 0, repeat)?.nanoseconds);
        }
        Ok(f64::from(least))
    }

    /// Runs the point over a frame that many times. [`Clock::Frame`](super::Clock) reads `time`.
    /// XDP has neither segments nor frame times.
    ///
    /// # Errors
    /// [`Error::Failed`] if the kernel refuses: the first header is incomplete, or there are more
    /// than 65,535 segments.
    pub fn run(
        &self,
        frame: &[u8],
        segments: Option<Segments>,
        time: u64,
        repeat: u32,
    ) -> Result<Passed> {
        let mut context = [0u64; CONTEXT / 8];
        let pair = |low: u32, high: u32| u64::from_ne_bytes(crate::map::pair(low, high));
        let Segments { size, count } = segments.unwrap_or(Segments { size: 0, count: 0 });
        context[TSTAMP / 8] = time;
        context[GSO_SEGS / 8] = pair(0, count);
        context[GSO_SIZE / 8] = pair(size, 0);
        self.call(frame, &mut context, repeat)
    }

    fn call(&self, frame: &[u8], context: &mut [u64], repeat: u32) -> Result<Passed> {
        let failed = |e| Error::from(Failure::new("frame", "run the program over it", e));
        let mut bytes = vec![0; frame.len()];
        let size = |bytes: usize| u32::try_from(bytes).map_err(|e| failed(io::Error::other(e)));
        let length = size(frame.len())?;
        let mut opts = bpf_test_run_opts {
            sz: size_of::<bpf_test_run_opts>() as u64,
            data_in: frame.as_ptr().cast(),
            data_size_in: length,
            data_out: bytes.as_mut_ptr().cast(),
            data_size_out: length,
            ctx_in: if self.xdp { std::ptr::null_mut() } else { context.as_mut_ptr().cast() },
            ctx_size_in: if self.xdp { 0 } else { size(size_of_val(context))? },
            repeat: i32::try_from(repeat).map_err(|e| failed(io::Error::other(e)))?,
            ..Default::default()
        };
        let program = self.point.program().as_raw_fd();
        // SAFETY: frame, buffer and context have the stated sizes, and all outlive the call.
        let refused = unsafe { libbpf_sys::bpf_prog_test_run_opts(program, &raw mut opts) };
        if refused < 0 {
            return Err(failed(io::Error::from_raw_os_error(-refused)));
        }
        Ok(Passed { verdict: opts.retval, bytes, nanoseconds: opts.duration })
    }

    /// The point, for reading.
    pub fn point(&mut self) -> &mut Measure {
        &mut self.point
    }
}
