//! The port: its front end's connection, and the frames' way to the modules for each direction.
//!
//! All work is done in the calls of its user, in one thread; none of them blocks for longer than a half-sent message of
//! the front end takes to time out.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use netloom_port::{Flushed, Port, Received, Sent};
use netloom_sys::{Failure, process::timespec};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};
use vhost::vhost_user::BackendReqHandler;

use crate::Result;
use crate::device::{Desk, Device, SharedDesk};
use crate::faults::Faults;
use crate::inward::Inward;
use crate::outward::Outward;
use crate::socket::{self, Come, Listener, Role};
use crate::watch::{FRONT_END, LISTENER, TIMER, Watch};

/// Interval between attempts to connect.
const ATTEMPT: Duration = Duration::from_millis(100);
/// Calls between two looks at the connection while there are frames.
const CALLS: u32 = 256;

/// Options of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The socket's path.
    pub path: PathBuf,
    /// The listener at it.
    pub role: Role,
    /// A user whose front end is taken, too, beside our own and root's. A socket that we listen on becomes this user's.
    pub user: Option<u32>,
}

impl Options {
    /// Listens at this path for a front end of the same user.
    pub fn new(path: impl Into<PathBuf>) -> Options {
        Options { path: path.into(), role: Role::Listen, user: None }
    }
}

/// A card of a virtual machine.
pub struct VhostPort {
    options: Options,
    watch: Watch,
    listener: Option<Listener>,
    timer: Option<OwnedFd>,
    front: Option<Front>,
    device: Device,
    inward: Inward,
    outward: Outward,
    faults: Faults,
    calls: u32,
    /// Kicks were asked for, and may have come.
    rested: bool,
}

/// A connected front end.
struct Front {
    handler: BackendReqHandler<SharedDesk>,
    desk: Arc<SharedDesk>,
    stream: UnixStream,
    /// Since when a request is there in part.
    part_since: Option<Instant>,
}

impl VhostPort {
    /// Opens a port, which then waits for its front end.
    ///
    /// # Errors
    /// [`crate::Error::Taken`] if another process listens at this path; the kernel refuses the socket.
    pub fn open(options: Options) -> Result<VhostPort> {
        let watch = Watch::create()?;
        let (mut listener, mut timer) = (None, None);
        match options.role {
            Role::Listen => listener = Some(Listener::bind(&options.path, options.user)?),
            Role::Connect => timer = Some(make_timer(&watch)?),
        }
        Ok(VhostPort::waiting(options, watch, listener, timer))
    }

    /// A port for the front ends that come to this listening socket. It accepts every client: it is for a socket in a
    /// network namespace where nobody else is.
    ///
    /// # Errors
    /// The kernel refuses to watch the socket.
    pub fn listening(socket: OwnedFd) -> Result<VhostPort> {
        let listener = Some(Listener::given(socket)?);
        Ok(VhostPort::waiting(Options::new(""), Watch::create()?, listener, None))
    }

    fn waiting(
        options: Options,
        watch: Watch,
        listener: Option<Listener>,
        timer: Option<OwnedFd>,
    ) -> VhostPort {
        let port = VhostPort {
            device: Device::new(watch.clone()),
            options,
            watch,
            listener,
            timer,
            front: None,
            inward: Inward::default(),
            outward: Outward::default(),
            faults: Faults::default(),
            calls: 0,
            rested: false,
        };
        port.await_front();
        port
    }

    /// The faults so far.
    pub fn faults(&self) -> Faults {
        self.faults
    }

    /// Whether a guest's driver has set its queues up.
    pub fn is_up(&self) -> bool {
        self.device.rings.iter().any(crate::ring::Ring::is_set_up)
    }

    /// Whether a front end is connected.
    pub fn is_connected(&self) -> bool {
        self.front.is_some()
    }

    /// Watches for the next front end.
    fn await_front(&self) {
        if let Some(listener) = &self.listener {
            let _ = self.watch.add(listener.as_fd(), LISTENER);
        }
        if let Some(timer) = &self.timer {
            set_timer(timer, ATTEMPT);
        }
    }

    /// Does what has come up beside frames.
    fn service(&mut self) {
        if std::mem::take(&mut self.rested) {
            self.device.rings.iter_mut().for_each(crate::ring::Ring::wake);
        }
        let shown = self.watch.look();
        if shown.front_end && !self.serve() {
            self.part();
        }
        if self.front.is_none() && (shown.listener || shown.timer) {
            self.meet();
        }
    }

    /// Takes a front end that waits, or connects to it.
    fn meet(&mut self) {
        let user = self.options.user;
        if let Some(timer) = &self.timer {
            // Else its expiry would show for ever.
            let _ = rustix::io::read(timer, &mut [0_u8; 8]);
        }
        let stream = match &self.listener {
            Some(listener) => listener.accept(user),
            None => socket::connect(&self.options.path, user),
        };
        let Some(stream) = stream else { return };
        // One for the handler, and one to see here what comes before the handler reads it.
        let Ok(copy) = stream.try_clone() else { return };
        // While one is connected the next has to wait, unwatched.
        self.watch.forget(self.listener.as_ref().map(Listener::as_fd));
        if let Some(timer) = &self.timer {
            set_timer(timer, Duration::ZERO);
        }
        let desk = Arc::new(SharedDesk::default());
        let handler = BackendReqHandler::from_stream(copy, Arc::clone(&desk));
        if self.watch.add(stream.as_fd(), FRONT_END).is_err() {
            return self.await_front();
        }
        self.front = Some(Front { handler, desk, stream, part_since: None });
    }

    /// Answers one request, if all of it is there; false if the connection is over.
    fn serve(&mut self) -> bool {
        let Some(front) = &mut self.front else { return true };
        let enable = match socket::look(&front.stream) {
            Come::Whole(enable) => enable,
            Come::Part => {
                let since = *front.part_since.get_or_insert_with(Instant::now);
                return since.elapsed() < socket::REST;
            }
            Come::End => return false,
        };
        front.part_since = None;
        // QEMU enables a card's queues before its driver has accepted any feature; the crate would refuse that.
        if !self.device.features.enables_queues()
            && let Some(asked) = enable
        {
            socket::take_enable(&front.stream);
            let done = self.device.enable(asked.index, asked.num);
            self.faults.requests += u64::from(!done);
            return !asked.needs_reply || socket::answer_enable(&front.stream, done).is_ok();
        }
        let fresh = Device::new(self.watch.clone());
        let device = std::mem::replace(&mut self.device, fresh);
        lock(&front.desk).0 = Some(device);
        let done = front.handler.handle_request();
        if let Some(device) = lock(&front.desk).0.take() {
            self.device = device;
        }
        self.device.look();
        match done {
            Ok(()) => true,
            Err(vhost::vhost_user::Error::Disconnected) => false,
            // The answer has told the front end.
            Err(vhost::vhost_user::Error::ReqHandlerError(_)) => {
                self.faults.requests += 1;
                true
            }
            // After a message that cannot be read, nobody knows where the next one begins.
            Err(_) => {
                self.faults.requests += 1;
                false
            }
        }
    }

    /// Ends the connection, and awaits the next.
    fn part(&mut self) {
        if let Some(front) = self.front.take() {
            self.watch.forget(Some(front.stream.as_fd()));
        }
        // Taken buffers are returned, so that nothing comes twice.
        for ring in &mut self.device.rings {
            ring.show();
        }
        self.device.clear();
        self.outward.clear();
        self.await_front();
    }
}

fn lock(desk: &SharedDesk) -> std::sync::MutexGuard<'_, Desk> {
    desk.lock().unwrap_or_else(PoisonError::into_inner)
}

fn make_timer(watch: &Watch) -> Result<OwnedFd> {
    let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
    let timer = timerfd_create(TimerfdClockId::Monotonic, flags)
        .map_err(Failure::of("vhost-user port", "make a timer"))?;
    watch.add(timer.as_fd(), TIMER)?;
    Ok(timer)
}

/// The first attempt is made at once.
fn set_timer(timer: &OwnedFd, interval: Duration) {
    // A value of zero would disarm the timer (timerfd_settime(2)).
    let first = if interval.is_zero() { Duration::ZERO } else { Duration::from_nanos(1) };
    let time = Itimerspec { it_interval: timespec(interval), it_value: timespec(first) };
    let _ = timerfd_settime(timer, TimerfdTimerFlags::empty(), &time);
}

impl Port for VhostPort {
    fn receive(&mut self, buffer: &mut [u8]) -> netloom_port::Result<Received> {
        self.calls = self.calls.wrapping_add(1);
        if self.rested || self.calls.is_multiple_of(CALLS) {
            self.service();
        }
        Ok(self.inward.receive(&mut self.device, &mut self.faults, buffer))
    }

    fn send(&mut self, frame: &[u8]) -> netloom_port::Result<Sent> {
        let sent = self.queue(frame)?;
        self.flush()?;
        Ok(sent)
    }

    fn as_fd(&self) -> BorrowedFd<'_> {
        self.watch.as_fd()
    }

    /// None: the guest keeps what finds no room, and counts it.
    fn overruns(&mut self) -> Option<u64> {
        None
    }

    fn queue(&mut self, frame: &[u8]) -> netloom_port::Result<Sent> {
        Ok(self.outward.queue(&mut self.device, &mut self.faults, frame))
    }

    fn flush(&mut self) -> netloom_port::Result<Flushed> {
        let sent = self.outward.flush(&mut self.device, &mut self.faults);
        Ok(Flushed { sent, lost: self.outward.take_lost() })
    }

    fn rest(&mut self) -> bool {
        self.rested = true;
        let mut more = false;
        for side in [0, 1] {
            for index in &self.device.running[side] {
                // A queue to the guest matters only while a frame waits for its buffers.
                if side == 1 || self.outward.lacks(*index) {
                    more |= self.device.rings[*index].rest();
                }
            }
        }
        more
    }
}

impl std::fmt::Debug for VhostPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VhostPort")
            .field("options", &self.options)
            .field("connected", &self.is_connected())
            .field("faults", &self.faults)
            .finish_non_exhaustive()
    }
}
