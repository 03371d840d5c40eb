//! What the two ends of a control socket agree on.

use std::fmt::Debug;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Fault, Form};

/// Time for a process to take a connection or a request, and ordinarily to answer it.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Whom the two ends accept, by what the kernel says of the other (SO_PEERCRED of socket(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Each its own user; the process root besides, and root anybody.
    UserAndRoot,
    /// The process its own user alone: it may be in a user namespace, where 0 is somebody else. The client tells by
    /// [`crate::Client::process`].
    User,
}

/// The requests of a kind of process, and its answers.
pub trait Protocol: Debug + 'static {
    /// The socket in failures.
    const OBJECT: &'static str;
    /// How a message stands on the socket.
    const FORM: Form = Form::Envelope;
    /// Whom the two ends accept.
    const TRUST: Trust = Trust::UserAndRoot;
    /// Most clients; further ones are closed at once.
    const MOST_CLIENTS: usize = 32;
    /// How long a client waits for an answer, unless it says otherwise.
    const PATIENCE: Option<Duration> = Some(PATIENCE);
    /// Whether another process takes the place of one that is killed, with all that it had: failures then say so.
    const IS_REPLACED: bool = false;

    /// A request.
    type Request: Serialize + DeserializeOwned;
    /// An answer.
    type Answer: Serialize + DeserializeOwned + Debug;
    /// What a client's failures become.
    type Error: From<Fault>;

    /// The answer to a request that cannot be read or done, for this reason; `None`: the connection is closed instead.
    fn refuse(reason: String) -> Option<Self::Answer>;

    /// The reason if an answer is one of [`Protocol::refuse`].
    ///
    /// # Errors
    /// The reason.
    fn judge(answer: Self::Answer) -> Result<Self::Answer, String>;

    /// Whether an answer says only that it is done.
    fn is_done(_: &Self::Answer) -> bool {
        false
    }
}
