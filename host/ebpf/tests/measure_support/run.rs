//! Runs of a program over a frame by `BPF_PROG_TEST_RUN`.

use std::os::fd::{AsRawFd, BorrowedFd};

use libbpf_sys::bpf_test_run_opts;

use super::frames::Frame;

/// Bytes of `struct __sk_buff`, and where in it the time and the segments of a frame are.
const CONTEXT: usize = 192;
const DATA_END: usize = 80;
const TSTAMP: usize = 152;
pub(crate) const GSO_SEGS: usize = 164;
const GSO_SIZE: usize = 176;

/// What a run gives.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) verdict: u32,
    pub(crate) bytes: Vec<u8>,
    /// Nanoseconds of each run.
    pub(crate) duration: u32,
}

/// Runs a program over a frame at a time, this many times.
pub(crate) fn run(program: BorrowedFd<'_>, frame: &Frame, time: u64, repeat: i32) -> Ran {
    run_in_parts(program, frame, time, repeat, frame.linear)
        .or_else(|| run_in_parts(program, frame, time, repeat, 0))
        .unwrap_or_else(|| panic!("{frame:02x?}"))
}

/// The same; none where the kernel refuses, as older ones do frames of several parts.
pub(crate) fn run_in_parts(
    program: BorrowedFd<'_>,
    frame: &Frame,
    time: u64,
    repeat: i32,
    linear: u32,
) -> Option<Ran> {
    let mut context = [0u64; CONTEXT / 8];
    let pair = |low: u32, high: u32| u64::from(low.to_le()) | u64::from(high.to_le()) << 32;
    context[DATA_END / 8] = pair(linear, 0);
    context[TSTAMP / 8] = time;
    context[GSO_SEGS / 8] = pair(0, frame.gso_segs);
    context[GSO_SIZE / 8] = pair(frame.gso_size, 0);
    let mut out = vec![0; frame.bytes.len()];
    let length = u32::try_from(out.len()).unwrap();
    let mut opts = bpf_test_run_opts {
        sz: size_of::<bpf_test_run_opts>() as u64,
        data_in: frame.bytes.as_ptr().cast(),
        data_size_in: length,
        data_out: out.as_mut_ptr().cast(),
        data_size_out: length,
        ctx_in: context.as_mut_ptr().cast(),
        ctx_size_in: u32::try_from(CONTEXT).unwrap(),
        repeat,
        ..Default::default()
    };
    // SAFETY: frame, room and context are of the sizes given, and all outlives the call.
    let refused = unsafe { libbpf_sys::bpf_prog_test_run_opts(program.as_raw_fd(), &raw mut opts) };
    (refused == 0).then_some(Ran { verdict: opts.retval, bytes: out, duration: opts.duration })
}
