//! Terminals of nodes for the page, over WebSocket (RFC 6455).
//!
//! A terminal is a pseudo-terminal of this process. A child of it lives there, which enters the node as `netloom shell` does,
//! and ends with its connection. Binary messages are what is typed and what is shown; texts are JSON: the caller tells the
//! terminal's size, first of all, and how many bytes it has taken, and hears the exit code. Output waits in the kernel
//! while the caller has not taken what was sent, so that a program that nobody reads stops.

mod shell;

use std::ffi::OsString;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use axum::extract::{Path, State};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, sleep_until, timeout};

use self::shell::{Output, Shell};
use crate::forward;
use crate::reply::Rejection;

/// The route.
pub(crate) const PATH: &str = "/v1/nodes/{node}/terminal";

/// The protocol that a caller offers and gets (RFC 6455, section 1.9).
const PROTOCOL: &str = "netloom.terminal";

/// Terminals at a time.
const MOST: usize = 64;

/// The longest message of a caller, and how much input may wait for a program that does not read.
const MOST_MESSAGE: usize = 64 << 10;
const MOST_INPUT: usize = 1 << 20;

/// Output that the caller has not taken yet.
const WINDOW: usize = 256 << 10;

/// Until the caller tells the size, and takes a message.
const PATIENCE: Duration = Duration::from_secs(30);

/// The time between two pings, and after which a caller that answers none has gone.
const PING: Duration = Duration::from_secs(15);
const SILENCE: Duration = Duration::from_secs(50);

/// Close codes (RFC 6455, section 7.4.1).
const NORMAL: u16 = 1000;
const FAILED: u16 = 1011;

/// What a port's terminals need.
#[derive(Debug)]
pub(crate) struct Terminals {
    /// Of the lab's API.
    socket: Arc<PathBuf>,
    /// Arguments of this program, before the node's name.
    words: Vec<OsString>,
    room: Arc<Semaphore>,
    stopping: watch::Receiver<bool>,
}

impl Terminals {
    pub(crate) fn new(
        socket: Arc<PathBuf>,
        words: Vec<OsString>,
        stopping: watch::Receiver<bool>,
    ) -> Terminals {
        Terminals { socket, words, room: Arc::new(Semaphore::new(MOST)), stopping }
    }
}

/// What a caller tells.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Told {
    /// Columns and rows of the terminal.
    Size(u16, u16),
    /// It has shown this many bytes more.
    Taken(usize),
}

/// What a caller hears.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Event {
    /// The exit code of the shell.
    Ended(i32),
}

/// Whether a request is for a terminal.
pub(crate) fn is_asked(path: &str) -> bool {
    let node = path.strip_prefix("/v1/nodes/").and_then(|rest| rest.strip_suffix("/terminal"));
    node.is_some_and(|node| !node.is_empty() && !node.contains('/'))
}

/// Opens one.
pub(crate) async fn open(
    State(terminals): State<Arc<Terminals>>,
    Path(node): Path<String>,
    uri: Uri,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Response {
    let path = uri.path().strip_suffix("/terminal").unwrap_or_default();
    if let Err(answer) = forward::exists(&terminals.socket, path).await {
        return answer;
    }
    let Ok(upgrade) = upgrade else {
        let words = "terminal: only for WebSocket (RFC 6455); `netloom shell` opens one elsewhere";
        return Rejection::new(StatusCode::UPGRADE_REQUIRED, words).into_response();
    };
    let Ok(turn) = Arc::clone(&terminals.room).try_acquire_owned() else {
        let words = format!("terminal: {MOST} are open; close one");
        return Rejection::new(StatusCode::SERVICE_UNAVAILABLE, words).into_response();
    };
    let upgrade = upgrade.protocols([PROTOCOL]).max_message_size(MOST_MESSAGE);
    upgrade.on_upgrade(move |socket| async move {
        serve(socket, &terminals, &node).await;
        drop(turn);
    })
}

/// Serves a terminal until either side ends.
async fn serve(mut socket: WebSocket, terminals: &Terminals, node: &str) {
    let Some((columns, rows)) = first_size(&mut socket).await else { return };
    let mut shell = match Shell::start(&terminals.words, node, columns, rows) {
        Ok(shell) => shell,
        Err(e) => {
            tracing::warn!("node {node:?}: terminal: {e}");
            return close(&mut socket, FAILED, &format!("terminal: {e}")).await;
        }
    };
    let mut session = Session { socket, untaken: 0, input: Vec::new(), heard: Instant::now() };
    if session.carry(&shell, terminals.stopping.clone()).await == End::Shell {
        let code = shell.code();
        if let Ok(text) = serde_json::to_string(&Event::Ended(code)) {
            session.send(Message::Text(text.into())).await;
        }
        close(&mut session.socket, NORMAL, "ended").await;
    }
    shell.hang_up().await;
}

/// The size that a caller tells first.
async fn first_size(socket: &mut WebSocket) -> Option<(u16, u16)> {
    let message = timeout(PATIENCE, socket.recv()).await.ok()??.ok()?;
    match message {
        Message::Text(text) => match serde_json::from_str(&text).ok()? {
            Told::Size(columns, rows) => Some((columns, rows)),
            Told::Taken(_) => None,
        },
        _ => None,
    }
}

async fn close(socket: &mut WebSocket, code: u16, reason: &str) {
    // As much as a control frame takes (RFC 6455, section 5.5).
    let reason: String = reason.chars().take(30).collect();
    let frame = CloseFrame { code, reason: reason.into() };
    // A caller that has gone needs none.
    let _ = timeout(PATIENCE, socket.send(Message::Close(Some(frame)))).await;
}

/// Why a terminal ends.
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// Its shell has ended.
    Shell,
    /// The caller has gone, says what nobody may, or takes nothing.
    Caller,
    /// The server ends.
    Server,
}

/// A connection with its terminal.
struct Session {
    socket: WebSocket,
    /// Bytes that were sent and are not shown yet.
    untaken: usize,
    /// What was typed and is not read yet.
    input: Vec<u8>,
    heard: Instant,
}

impl Session {
    /// Carries what is typed and what is shown.
    async fn carry(&mut self, shell: &Shell, mut stopping: watch::Receiver<bool>) -> End {
        let mut shows = true;
        let mut ping = Instant::now() + PING;
        let mut stopped = pin!(async { stopping.wait_for(|stopped| *stopped).await.is_ok() });
        loop {
            let may_send = self.untaken < WINDOW;
            tokio::select! {
                message = self.socket.recv() => match message {
                    Some(Ok(message)) => if !self.hear(message, shell) { return End::Caller },
                    _ => return End::Caller,
                },
                output = shell.read(), if shows && may_send => match output {
                    Output::Bytes(bytes) => if !self.show(bytes).await { return End::Caller },
                    Output::Over => shows = false,
                },
                written = shell.write(&self.input), if !self.input.is_empty() => {
                    self.input.drain(..written);
                }
                () = shell.ended(), if may_send => {
                    // What it wrote last is still there.
                    for bytes in shell.rest() {
                        if !self.show(bytes).await { return End::Caller }
                    }
                    return End::Shell;
                }
                () = sleep_until(ping) => {
                    ping = Instant::now() + PING;
                    if self.heard.elapsed() > SILENCE || !self.send(Message::Ping(Bytes::new())).await {
                        return End::Caller;
                    }
                }
                _ = &mut stopped => return End::Server,
            }
        }
    }

    /// Takes a message; whether the caller may go on.
    fn hear(&mut self, message: Message, shell: &Shell) -> bool {
        self.heard = Instant::now();
        match message {
            Message::Binary(bytes) if self.input.len() + bytes.len() <= MOST_INPUT => {
                self.input.extend_from_slice(&bytes);
                true
            }
            Message::Text(text) => match serde_json::from_str(&text) {
                Ok(Told::Size(columns, rows)) => shell.resize(columns, rows),
                Ok(Told::Taken(bytes)) => {
                    self.untaken = self.untaken.saturating_sub(bytes);
                    true
                }
                Err(_) => false,
            },
            Message::Ping(_) | Message::Pong(_) => true,
            Message::Binary(_) | Message::Close(_) => false,
        }
    }

    async fn show(&mut self, bytes: Vec<u8>) -> bool {
        self.untaken += bytes.len();
        self.send(Message::Binary(bytes.into())).await
    }

    /// Sends a message; whether the caller has taken it.
    async fn send(&mut self, message: Message) -> bool {
        matches!(timeout(PATIENCE, self.socket.send(message)).await, Ok(Ok(())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_tell_sizes_and_what_they_have_taken() {
        let told = |text| serde_json::from_str::<Told>(text).ok();
        assert_eq!(told(r#"{"size":[80,24]}"#), Some(Told::Size(80, 24)));
        assert_eq!(told(r#"{"taken":4096}"#), Some(Told::Taken(4096)));
        for wrong in ["", "{}", r#"{"size":[80]}"#, r#"{"size":[80,-1]}"#, r#"{"size":[80,70000]}"#]
        {
            assert_eq!(told(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn only_a_nodes_terminal_is_one() {
        assert!(is_asked("/v1/nodes/h1/terminal") && is_asked("/v1/nodes/a%2Fb/terminal"));
        for other in
            ["/v1/nodes/terminal", "/v1/nodes//terminal", "/v1/nodes/a/b/terminal", "/v1/lab"]
        {
            assert!(!is_asked(other), "{other}");
        }
    }
}
