//! The lab's file for the page: the running lab as one, and a changed one applied, with its steps shown first.
//!
//! Both are done by a child of this process, with the verbs that users have, `export lab` and `apply`: they read files, which
//! the lab process does not. A child goes on when its caller has gone; an interrupted `apply` is finished by the same request.

use std::ffi::OsString;
use std::io::Write;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;

use crate::bodies::Whole;
use crate::reply::Rejection;

/// Children at a time.
const MOST: usize = 4;

/// Wrong usage, or a wrong file, as netloom's exit codes have it.
const WRONG: i32 = 2;

/// What a port's files need.
#[derive(Debug)]
pub(crate) struct Files {
    /// Arguments of this program before those of `export` and `apply`.
    words: Vec<OsString>,
    room: Arc<Semaphore>,
}

/// A lab file.
#[derive(Debug, Serialize)]
struct File {
    /// Its text.
    text: String,
}

/// A file that the lab is to be like.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    /// Its text. Relative paths in it start from the server's folder.
    text: String,
    /// The digest of the steps that were shown, which are done; without it they are only shown.
    expected: Option<String>,
}

impl Files {
    pub(crate) fn new(words: Vec<OsString>) -> Files {
        Files { words, room: Arc::new(Semaphore::new(MOST)) }
    }

    /// Runs this program with these words and this input.
    pub(crate) async fn run(&self, more: &[&str], input: String) -> Result<String, Rejection> {
        let failed = |words: String| Rejection::new(StatusCode::INTERNAL_SERVER_ERROR, words);
        let turn = Arc::clone(&self.room).acquire_owned().await;
        let mut command = Command::new("/proc/self/exe");
        command.args(&self.words).args(more);
        let run = move || {
            let _turn = turn;
            output(&mut command, input.as_bytes())
        };
        let done = tokio::task::spawn_blocking(run).await.map_err(|_| Rejection::panicked())?;
        let done = done.map_err(|e| failed(format!("netloom: {e}")))?;
        // With troubles `apply` has done its steps, tells of them, and fails.
        if done.status.success() || !done.stdout.is_empty() {
            return String::from_utf8(done.stdout).map_err(|e| failed(format!("netloom: {e}")));
        }
        let words = String::from_utf8_lossy(&done.stderr);
        let words = words.trim().trim_start_matches("netloom: ");
        Err(Rejection::new(
            match done.status.code() {
                Some(WRONG) => StatusCode::BAD_REQUEST,
                _ => StatusCode::CONFLICT,
            },
            words,
        ))
    }
}

fn output(command: &mut Command, input: &[u8]) -> std::io::Result<Output> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let pipe = child.stdin.take();
    std::thread::scope(|scope| {
        // It may write before it has read everything, and may end without reading.
        scope.spawn(move || pipe.map(|mut pipe| pipe.write_all(input)));
        child.wait_with_output()
    })
}

/// Shows the running lab as a file.
pub(crate) async fn show(State(files): State<Arc<Files>>) -> Result<Response, Rejection> {
    let text = files.run(&["export", "lab"], String::new()).await?;
    Ok(Json(File { text }).into_response())
}

/// Shows the steps that make the lab like a file, or does them.
pub(crate) async fn apply(
    State(files): State<Arc<Files>>,
    body: Whole,
) -> Result<Response, Rejection> {
    let Wanted { text, expected } = body.read()?;
    let steps = match &expected {
        None => files.run(&["apply", "-", "--json", "--dry-run"], text).await?,
        Some(digest) => {
            files.run(&["apply", "-", "--json", "--yes", "--expected", digest], text).await?
        }
    };
    Ok(([(header::CONTENT_TYPE, "application/json")], steps).into_response())
}
