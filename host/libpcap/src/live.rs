//! Capture by libpcap's own engine.
//!
//! One thread reads; another may end its wait by a [`Breaker`]. Frames live in libpcap's memory and
//! are lent for one call; of [`Live::next`] in ours. Interfaces are those of the opening thread's network namespace.

use std::ffi::{CStr, CString, c_char, c_int, c_uchar};
use std::slice;
use std::sync::Arc;

use crate::compile::{Code, Handle};
use crate::library::{self, BpfProgram, ERROR_LEN, ETHERNET, Header, NANO, Stat};
use crate::{Error, Result};

/// How to capture.
#[derive(Clone, Debug)]
pub struct LiveOptions {
    /// Bytes of each frame to keep; libpcap may keep a few less in immediate mode.
    pub snaplen: u32,
    /// Size of the kernel's ring in bytes; 0 for libpcap's choice (2 MiB).
    pub buffer_bytes: usize,
    /// Deliver frames as they arrive, not a block at a time.
    pub immediate: bool,
    /// Milliseconds after which a block with frames in it is delivered; 0 waits until it is full.
    /// It does not bound the wait for a first frame: see [`Live::next`].
    pub timeout_ms: u32,
    /// Capture frames for other stations, too.
    pub promiscuous: bool,
    /// The filter, in the syntax of `man pcap-filter`; `None` for all frames.
    pub filter: Option<String>,
}

impl Default for LiveOptions {
    fn default() -> Self {
        LiveOptions {
            snaplen: 262_144,
            buffer_bytes: 0,
            immediate: false,
            timeout_ms: 100,
            promiscuous: true,
            filter: None,
        }
    }
}

/// A captured frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Time of arrival, in nanoseconds of Unix time.
    pub time_ns: u64,
    /// Its length on the wire.
    pub original: u32,
    /// The captured bytes.
    pub data: &'a [u8],
}

/// The outcome of asking for a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken<'a> {
    /// A frame.
    Frame(Frame<'a>),
    /// No frame within the timeout.
    Timeout,
    /// A [`Breaker`] was used.
    Broken,
}

/// Counters since the start. libpcap's counters have 32 bits; each call adds the difference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Frames that passed the filter, including lost ones.
    pub received: u64,
    /// Frames lost because the ring was full.
    pub dropped: u64,
    /// Frames that the interface lost, if it reports them.
    pub interface_dropped: u64,
}

/// An interface being captured on.
pub struct Live {
    handle: Arc<Handle>,
    interface: String,
    /// Nanoseconds per unit of the time stamps' fraction.
    unit: u64,
    statistics: Statistics,
    last: Stat,
    /// The frame that [`Live::next`] lends.
    held: Vec<u8>,
}

/// Ends the wait of a [`Live`], from any thread. libpcap before 1.10 notices only at the next frame
/// or timeout.
#[derive(Clone)]
pub struct Breaker(Arc<Handle>);

impl Breaker {
    /// Makes the current or next call return [`Taken::Broken`], or `None` from [`Live::dispatch`].
    pub fn stop(&self) {
        // SAFETY: the handle is open as long as `self`; libpcap allows this call from any thread.
        unsafe { (self.0.functions().pcap_breakloop)(self.0.as_ptr()) }
    }
}

impl Live {
    /// Starts a capture.
    ///
    /// # Errors
    ///
    /// [`Error::Interface`] with libpcap's message (no such interface, no permission, not
    /// Ethernet), [`Error::Expression`] for the filter, [`Error::Unsupported`] without the library.
    pub fn open(interface: &str, options: &LiveOptions) -> Result<Live> {
        let handle = create(interface)?;
        configure(interface, &handle, options)?;
        activate(interface, &handle)?;
        if let Some(expression) = &options.filter {
            set_filter(interface, &handle, expression)?;
        }
        // SAFETY: the handle is open and active.
        let precision = unsafe { (handle.functions().pcap_get_tstamp_precision)(handle.as_ptr()) };
        Ok(Live {
            handle: Arc::new(handle),
            interface: interface.to_owned(),
            unit: if precision == NANO { 1 } else { 1000 },
            statistics: Statistics::default(),
            last: Stat::default(),
            held: Vec::new(),
        })
    }

    /// The next frame. In immediate mode it waits at most the timeout; otherwise libpcap on Linux
    /// waits without limit, until a frame arrives or a [`Breaker`] is used.
    ///
    /// # Errors
    ///
    /// [`Error::Interface`]: the interface went down or away.
    #[expect(clippy::should_implement_trait, reason = "frames are lent")]
    pub fn next(&mut self) -> Result<Taken<'_>> {
        let (unit, held) = (self.unit, &mut self.held);
        let mut taken = None;
        let mut keep = |frame: Frame<'_>| {
            held.clear();
            held.extend_from_slice(frame.data);
            taken = Some((frame.time_ns, frame.original));
        };
        let mut call = Call { each: &mut keep, unit };
        let dispatch = self.handle.functions().pcap_dispatch;
        let user = (&raw mut call).cast();
        // SAFETY: the handle is active, and `call`, which `deliver` gets, outlives the call.
        let told = unsafe { dispatch(self.handle.as_ptr(), 1, deliver, user) };
        // A breaker may end a call that has given a frame: pcap_next_ex(3) would lose it.
        match (taken, told) {
            (Some((time_ns, original)), _) => {
                Ok(Taken::Frame(Frame { time_ns, original, data: &self.held }))
            }
            (None, 0) => Ok(Taken::Timeout),
            (None, -2) => Ok(Taken::Broken),
            (None, _) => Err(self.error("read")),
        }
    }

    /// Passes frames to `each` until one kernel buffer is empty, `most` frames (0 for no limit)
    /// were given or the timeout is over. Returns their number, or `None` if a [`Breaker`] was
    /// used. A panic in `each` ends the process.
    ///
    /// # Errors
    ///
    /// [`Error::Interface`]: the interface went down or away.
    pub fn dispatch(
        &mut self,
        most: u32,
        each: &mut dyn FnMut(Frame<'_>),
    ) -> Result<Option<usize>> {
        let mut call = Call { each, unit: self.unit };
        let most = if most == 0 { -1 } else { c_int::try_from(most).unwrap_or(c_int::MAX) };
        let dispatch = self.handle.functions().pcap_dispatch;
        let user = (&raw mut call).cast();
        // SAFETY: the handle is active, and `call`, which `deliver` gets, outlives the call.
        match unsafe { dispatch(self.handle.as_ptr(), most, deliver, user) } {
            -2 => Ok(None),
            count => usize::try_from(count).map(Some).map_err(|_| self.error("read")),
        }
    }

    /// Counters since the start; call it before another 2^32 frames have passed.
    ///
    /// # Errors
    ///
    /// [`Error::Interface`]: the interface is gone.
    pub fn statistics(&mut self) -> Result<Statistics> {
        let mut now = Stat::default();
        // SAFETY: the handle is active, and the struct may be filled in.
        if unsafe { (self.handle.functions().pcap_stats)(self.handle.as_ptr(), &mut now) } < 0 {
            return Err(self.error("statistics"));
        }
        let since = |now: u32, last: u32| u64::from(now.wrapping_sub(last));
        let sum = &mut self.statistics;
        sum.received += since(now.received, self.last.received);
        sum.dropped += since(now.dropped, self.last.dropped);
        sum.interface_dropped += since(now.interface_dropped, self.last.interface_dropped);
        self.last = now;
        Ok(*sum)
    }

    /// A handle to end its wait.
    pub fn breaker(&self) -> Breaker {
        Breaker(Arc::clone(&self.handle))
    }

    fn error(&self, operation: &'static str) -> Error {
        error(&self.interface, operation, self.handle.message())
    }
}

fn error(interface: &str, operation: &'static str, message: String) -> Error {
    Error::Interface { interface: interface.to_owned(), operation, message }
}

fn create(interface: &str) -> Result<Handle> {
    let functions = library::get()?;
    let name = CString::new(interface)
        .map_err(|_| error(interface, "open", "the name has a zero byte".to_owned()))?;
    let mut message: [c_char; ERROR_LEN] = [0; ERROR_LEN];
    // SAFETY: the name ends in a zero byte, and the message buffer has the size libpcap requires.
    let pcap = unsafe { (functions.pcap_create)(name.as_ptr(), message.as_mut_ptr()) };
    Handle::new(functions, pcap).ok_or_else(|| {
        // SAFETY: libpcap wrote a message that ends in a zero byte, or nothing: the buffer is zeroed.
        let message = unsafe { CStr::from_ptr(message.as_ptr()) };
        error(interface, "open", message.to_string_lossy().into_owned())
    })
}

fn configure(interface: &str, handle: &Handle, options: &LiveOptions) -> Result<()> {
    let functions = handle.functions();
    let number = |value: u64| c_int::try_from(value).unwrap_or(c_int::MAX);
    let buffer = u64::try_from(options.buffer_bytes).unwrap_or(u64::MAX);
    let settings: [(&'static str, _, c_int); 5] = [
        ("set snaplen", functions.pcap_set_snaplen, number(options.snaplen.into())),
        ("set promiscuous mode", functions.pcap_set_promisc, options.promiscuous.into()),
        ("set timeout", functions.pcap_set_timeout, number(options.timeout_ms.into())),
        ("set immediate mode", functions.pcap_set_immediate_mode, options.immediate.into()),
        ("set buffer size", functions.pcap_set_buffer_size, number(buffer)),
    ];
    for (operation, set, value) in settings {
        if value == 0 && operation == "set buffer size" {
            continue;
        }
        // SAFETY: the handle is open and not yet active.
        if unsafe { set(handle.as_ptr(), value) } < 0 {
            return Err(error(interface, operation, handle.message()));
        }
    }
    // Without nanosecond stamps they are in microseconds; the actual precision is queried afterwards.
    // SAFETY: the handle is open and not yet active.
    let _ = unsafe { (functions.pcap_set_tstamp_precision)(handle.as_ptr(), NANO) };
    Ok(())
}

fn activate(interface: &str, handle: &Handle) -> Result<()> {
    let functions = handle.functions();
    // SAFETY: the handle is open and not yet active.
    let status = unsafe { (functions.pcap_activate)(handle.as_ptr()) };
    if status < 0 {
        // SAFETY: gives a constant string that ends in a zero byte for any number.
        let why = unsafe { (functions.pcap_statustostr)(status) };
        // SAFETY: as above.
        let why = unsafe { CStr::from_ptr(why) }.to_string_lossy();
        let more = handle.message();
        let message = if more.is_empty() { why.into_owned() } else { format!("{why}: {more}") };
        return Err(error(interface, "activate", message));
    }
    // SAFETY: the handle is active.
    if unsafe { (functions.pcap_datalink)(handle.as_ptr()) } != ETHERNET {
        return Err(error(interface, "activate", "its frames are not Ethernet".to_owned()));
    }
    Ok(())
}

fn set_filter(interface: &str, handle: &Handle, expression: &str) -> Result<()> {
    let mut code = Code::compile_named(handle, expression)
        .map_err(|message| Error::Expression { expression: expression.to_owned(), message })?;
    let program: *mut BpfProgram = &mut code.program;
    // SAFETY: the handle is active; libpcap copies the program.
    if unsafe { (handle.functions().pcap_setfilter)(handle.as_ptr(), program) } < 0 {
        return Err(error(interface, "set filter", handle.message()));
    }
    Ok(())
}

/// The context of `deliver`.
struct Call<'a> {
    each: &'a mut dyn FnMut(Frame<'_>),
    unit: u64,
}

/// libpcap's callback for one frame.
///
/// # Safety
///
/// `user` is a [`Call`] that nothing else uses; header and data are as libpcap passes them.
unsafe extern "C" fn deliver(user: *mut c_uchar, header: *const Header, data: *const c_uchar) {
    // SAFETY: the caller's promise.
    let call = unsafe { &mut *user.cast::<Call<'_>>() };
    // SAFETY: the caller's promise; the frame is lent to `each` only.
    let frame = unsafe { frame(header, data, call.unit) };
    (call.each)(frame);
}

/// A frame as libpcap passes it.
///
/// # Safety
///
/// The header is valid, and so is its number of bytes at `data`, for as long as the frame is used.
unsafe fn frame<'a>(header: *const Header, data: *const c_uchar, unit: u64) -> Frame<'a> {
    // SAFETY: the caller's promise.
    let header = unsafe { &*header };
    let len = usize::try_from(header.captured).unwrap_or(0);
    // SAFETY: the caller's promise.
    let data = if len == 0 { &[] } else { unsafe { slice::from_raw_parts(data, len) } };
    let seconds = u64::try_from(header.time.tv_sec).unwrap_or(0);
    let fraction = u64::try_from(header.time.tv_usec).unwrap_or(0);
    Frame { time_ns: seconds * 1_000_000_000 + fraction * unit, original: header.original, data }
}
