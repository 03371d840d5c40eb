//! The loop over messages, and which request is answered by what.
//!
//! It ends with its client: at the end of the input, and when the process that started it ends, if that is the one that the client
//! names; a pipe may be held open by others.

use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread;
use std::time::Duration;

use lsp_server::{ErrorCode, Message, Notification, Request, RequestId, Response};
use lsp_types::{
    CodeAction, CodeActionKind, CodeActionParams, CodeActionProviderCapability, CompletionOptions,
    CompletionParams, DidChangeTextDocumentParams, DidCloseTextDocumentParams,
    DidOpenTextDocumentParams, DocumentFormattingParams, GotoDefinitionParams, HoverParams,
    HoverProviderCapability, InitializeResult, OneOf, Position, PrepareRenameResponse,
    PublishDiagnosticsParams, RenameOptions, RenameParams, ServerCapabilities, ServerInfo,
    TextDocumentPositionParams, TextDocumentSyncCapability, TextDocumentSyncKind, TextEdit, Uri,
    WorkDoneProgressOptions,
};
use netloom_sys::process;
use rustix::process::getppid;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::document::Document;
use crate::framing::{self, Incoming};
use crate::position::Encoding;
use crate::{Compiler, Error, Result, actions, completion, diagnostics, hover, rename};

/// How many messages wait to be answered.
const WAITING: usize = 64;

/// How many texts may be open.
const MOST_OPEN: usize = 1000;

/// Answers all messages until the client ends the server; the exit code.
pub(crate) fn serve(
    mut input: impl BufRead + Send + 'static,
    out: &mut impl Write,
    compiler: Compiler,
) -> Result<i32> {
    let (sender, messages) = sync_channel(WAITING);
    let mut server = Server::new(sender.clone(), compiler);
    let read = move || loop {
        let next = framing::read(&mut input);
        let is_last = matches!(next, Err(_) | Ok(Incoming::End));
        if sender.send(next).is_err() || is_last {
            break;
        }
    };
    thread::Builder::new().name("reader".to_owned()).spawn(read).map_err(Error::Thread)?;
    loop {
        match server.next(&messages, out)? {
            Incoming::End => return Ok(0),
            Incoming::Broken(words) => {
                framing::write_broken(ErrorCode::ParseError as i32, &words, out)?;
            }
            Incoming::Message(Message::Request(request)) => {
                let response = server.request(request);
                framing::write(response, out)?;
            }
            Incoming::Message(Message::Notification(told)) => {
                if told.method == "exit" {
                    return Ok(i32::from(server.state != State::ShutDown));
                }
                server.notification(told);
            }
            // The server asks nothing.
            Incoming::Message(Message::Response(_)) => {}
        }
    }
}

/// Has the server end when its parent ends, if `client` is that: of another process, its number may be one of another machine's.
fn end_with(client: Option<u64>, ended: SyncSender<Result<Incoming>>) {
    let Some(parent) = getppid() else { return };
    if client != u64::try_from(parent.as_raw_nonzero().get()).ok() {
        return;
    }
    let Ok(parent) = process::pidfd(parent) else { return };
    let watch = move || {
        while !process::wait_end(&parent, Duration::from_secs(3600)) {}
        // Nobody reads it if the server ends already.
        let _ = ended.send(Ok(Incoming::End));
    };
    // Without a thread, it ends with its input.
    let _ = thread::Builder::new().name("client".to_owned()).spawn(watch);
}

/// How far the client is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    New,
    Running,
    ShutDown,
}

struct Server {
    state: State,
    encoding: Encoding,
    compiler: Compiler,
    /// Where its messages come in.
    sender: SyncSender<Result<Incoming>>,
    documents: BTreeMap<String, Document>,
    /// What is to be told about texts that are no longer open.
    closed: Vec<Uri>,
}

/// Why a request is refused.
struct Refusal {
    code: ErrorCode,
    words: String,
}

type Answer = std::result::Result<Value, Refusal>;

fn refusal(code: ErrorCode, words: impl Into<String>) -> Refusal {
    Refusal { code, words: words.into() }
}

/// The parameters of a request.
fn read<P: DeserializeOwned>(params: Value) -> std::result::Result<P, Refusal> {
    serde_json::from_value(params)
        .map_err(|error| refusal(ErrorCode::InvalidParams, format!("parameters: {error}")))
}

fn write<T: Serialize>(value: T) -> Answer {
    serde_json::to_value(value)
        .map_err(|error| refusal(ErrorCode::InternalError, error.to_string()))
}

impl Server {
    fn new(sender: SyncSender<Result<Incoming>>, compiler: Compiler) -> Server {
        let (documents, closed) = (BTreeMap::new(), vec![]);
        let encoding = Encoding::default();
        Server { state: State::New, encoding, compiler, sender, documents, closed }
    }

    /// The next message. While none waits, texts that have changed are checked.
    fn next(
        &mut self,
        messages: &Receiver<Result<Incoming>>,
        out: &mut impl Write,
    ) -> Result<Incoming> {
        match messages.try_recv() {
            Ok(next) => next,
            Err(TryRecvError::Disconnected) => Ok(Incoming::End),
            Err(TryRecvError::Empty) => {
                self.tell_diagnostics(out)?;
                messages.recv().unwrap_or(Ok(Incoming::End))
            }
        }
    }

    fn tell_diagnostics(&mut self, out: &mut impl Write) -> Result<()> {
        for uri in std::mem::take(&mut self.closed) {
            tell(PublishDiagnosticsParams { uri, diagnostics: vec![], version: None }, out)?;
        }
        for document in self.documents.values_mut() {
            diagnostics::refresh(document);
            if !std::mem::replace(&mut document.is_told, true) {
                let (uri, version) = (document.uri.clone(), Some(document.version));
                let diagnostics = document.found.clone();
                tell(PublishDiagnosticsParams { uri, diagnostics, version }, out)?;
            }
        }
        Ok(())
    }

    fn request(&mut self, request: Request) -> Response {
        let Request { id, method, params } = request;
        match self.answer(&method, params) {
            Ok(value) => Response { id, response_result: Ok(value) },
            Err(Refusal { code, words }) => refused(id, code, words),
        }
    }

    fn answer(&mut self, method: &str, params: Value) -> Answer {
        match (self.state, method) {
            (State::New, "initialize") => {
                self.state = State::Running;
                end_with(params["processId"].as_u64(), self.sender.clone());
                let offered = params["capabilities"]["general"]["positionEncodings"].as_array();
                let offered = offered.into_iter().flatten().filter_map(Value::as_str);
                let encoding = Encoding::first(offered);
                self.encoding = encoding.unwrap_or_default();
                write(initialized(encoding))
            }
            (State::New, _) => {
                Err(refusal(ErrorCode::ServerNotInitialized, "the first request is \"initialize\""))
            }
            (State::ShutDown, _) => {
                Err(refusal(ErrorCode::InvalidRequest, "the server is shut down"))
            }
            (State::Running, "initialize") => {
                Err(refusal(ErrorCode::InvalidRequest, "\"initialize\" was there already"))
            }
            (State::Running, "shutdown") => {
                self.state = State::ShutDown;
                Ok(Value::Null)
            }
            (State::Running, method) => self.about_document(method, params),
        }
    }

    fn about_document(&mut self, method: &str, params: Value) -> Answer {
        match method {
            "textDocument/completion" => {
                let params: CompletionParams = read(params)?;
                let (document, position) = self.at(&params.text_document_position)?;
                // Interfaces and names that `for` makes are those of the last plan.
                if document.last_plan.is_none() {
                    diagnostics::refresh(document);
                }
                write(completion::items(document, position))
            }
            "textDocument/hover" => {
                let params: HoverParams = read(params)?;
                let (document, position) = self.at(&params.text_document_position_params)?;
                diagnostics::refresh(document);
                write(hover::hover(document, position))
            }
            "textDocument/definition" => {
                let params: GotoDefinitionParams = read(params)?;
                let (document, position) = self.at(&params.text_document_position_params)?;
                write(hover::definition(document, position))
            }
            "textDocument/prepareRename" => {
                let params: TextDocumentPositionParams = read(params)?;
                let (document, position) = self.at(&params)?;
                let (range, placeholder) = rename::prepared(document, position)
                    .map_err(|words| refusal(ErrorCode::RequestFailed, words))?;
                write(PrepareRenameResponse::RangeWithPlaceholder { range, placeholder })
            }
            "textDocument/rename" => {
                let params: RenameParams = read(params)?;
                let (document, position) = self.at(&params.text_document_position)?;
                let edits = rename::edits(document, position, &params.new_name)
                    .map_err(|words| refusal(ErrorCode::RequestFailed, words))?;
                write(actions::workspace_edit(document, edits))
            }
            "textDocument/codeAction" => {
                let params: CodeActionParams = read(params)?;
                let document = self.document(&params.text_document.uri)?;
                let wanted = params.context.only.as_deref();
                let is_wanted = |kind: &CodeActionKind| {
                    [&CodeActionKind::EMPTY, &CodeActionKind::QUICKFIX].contains(&kind)
                };
                if wanted.is_some_and(|kinds| !kinds.iter().any(is_wanted)) {
                    return write(Vec::<CodeAction>::new());
                }
                diagnostics::refresh(document);
                write(actions::actions(document, params.range))
            }
            "textDocument/formatting" => {
                let params: DocumentFormattingParams = read(params)?;
                format(self.document(&params.text_document.uri)?)
            }
            method => {
                let shown: String = method.chars().take(80).collect();
                Err(refusal(ErrorCode::MethodNotFound, format!("no request {shown:?} here")))
            }
        }
    }

    fn at(
        &mut self,
        params: &TextDocumentPositionParams,
    ) -> std::result::Result<(&mut Document, Position), Refusal> {
        Ok((self.document(&params.text_document.uri)?, params.position))
    }

    fn document(&mut self, uri: &Uri) -> std::result::Result<&mut Document, Refusal> {
        let unknown = || refusal(ErrorCode::InvalidParams, "this text is not open");
        self.documents.get_mut(uri.as_str()).ok_or_else(unknown)
    }

    /// What a notification tells; one that cannot be read has no answer.
    fn notification(&mut self, told: Notification) {
        if self.state != State::Running {
            return;
        }
        match told.method.as_str() {
            "textDocument/didOpen" => {
                let Ok(params) = read::<DidOpenTextDocumentParams>(told.params) else { return };
                let item = params.text_document;
                let key = item.uri.as_str().to_owned();
                if self.documents.len() < MOST_OPEN || self.documents.contains_key(&key) {
                    let (encoding, compiler) = (self.encoding, self.compiler);
                    let document =
                        Document::new(item.uri, item.version, item.text, encoding, compiler);
                    self.documents.insert(key, document);
                }
            }
            "textDocument/didChange" => {
                let Ok(params) = read::<DidChangeTextDocumentParams>(told.params) else { return };
                let identity = params.text_document;
                if let Some(document) = self.documents.get_mut(identity.uri.as_str()) {
                    document.change(identity.version, params.content_changes);
                }
            }
            "textDocument/didClose" => {
                let Ok(params) = read::<DidCloseTextDocumentParams>(told.params) else { return };
                let document = self.documents.remove(params.text_document.uri.as_str());
                self.closed.extend(document.map(|document| document.uri));
            }
            _ => {}
        }
    }
}

fn refused(id: RequestId, code: ErrorCode, words: String) -> Response {
    Response::new_err(id, code as i32, words)
}

fn tell(params: PublishDiagnosticsParams, out: &mut impl Write) -> Result<()> {
    let Ok(params) = serde_json::to_value(params) else { return Ok(()) };
    let method = "textDocument/publishDiagnostics".to_owned();
    framing::write(Notification { method, params }, out)
}

/// The edits that format a text: none if it is formatted, or cannot be, as its errors say.
fn format(document: &Document) -> Answer {
    match netloom_model::format(&document.name(), document.text.as_bytes(), &document.stem()) {
        Ok(text) if text == document.text => write(Vec::<TextEdit>::new()),
        Ok(new_text) => {
            let range = document.lines.whole(&document.text);
            write(vec![TextEdit { range, new_text }])
        }
        Err(told) => {
            let first = told.list.first().map(ToString::to_string).unwrap_or_default();
            Err(refusal(ErrorCode::RequestFailed, first))
        }
    }
}

fn initialized(encoding: Option<Encoding>) -> InitializeResult {
    let triggers = [":", " ", "[", "{", ",", "\"", "-"].map(str::to_owned).to_vec();
    let completion =
        CompletionOptions { trigger_characters: Some(triggers), ..CompletionOptions::default() };
    InitializeResult {
        capabilities: ServerCapabilities {
            position_encoding: encoding.map(Encoding::kind),
            text_document_sync: Some(TextDocumentSyncCapability::Kind(
                TextDocumentSyncKind::INCREMENTAL,
            )),
            completion_provider: Some(completion),
            hover_provider: Some(HoverProviderCapability::Simple(true)),
            definition_provider: Some(OneOf::Left(true)),
            rename_provider: Some(OneOf::Right(RenameOptions {
                prepare_provider: Some(true),
                work_done_progress_options: WorkDoneProgressOptions::default(),
            })),
            code_action_provider: Some(CodeActionProviderCapability::Simple(true)),
            document_formatting_provider: Some(OneOf::Left(true)),
            ..ServerCapabilities::default()
        },
        server_info: Some(ServerInfo {
            name: "netloom".to_owned(),
            version: Some(env!("CARGO_PKG_VERSION").to_owned()),
        }),
    }
}
