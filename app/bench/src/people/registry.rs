//! A registry of images in this process's memory, on loopback.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use anyhow::{Context, Result};
use netloom_oci::Digest;
use netloom_oci::manifest::Platform;
use serde_json::json;

/// A layer: its tar archive, and the same as it is fetched.
pub(super) struct Layer {
    pub(super) plain: Vec<u8>,
    /// By gzip.
    pub(super) packed: Vec<u8>,
}

/// What it answers, by path, with the type.
type Answers = BTreeMap<String, (String, Vec<u8>)>;

/// Images that are being made ready to be served.
#[derive(Default)]
pub(super) struct Images(Answers);

impl Images {
    /// Adds the image `NAME:1`.
    pub(super) fn add(&mut self, name: &str, layers: &[Layer]) {
        let ids: Vec<String> = layers.iter().map(|l| Digest::of(&l.plain).to_string()).collect();
        let platform = Platform::linux(std::env::consts::ARCH);
        let config = json!({
            "os": "linux", "architecture": platform.architecture,
            "rootfs": {"type": "layers", "diff_ids": ids},
        });
        let media = "application/vnd.oci.image";
        let config =
            self.blob(name, &config.to_string().into_bytes(), &format!("{media}.config.v1+json"));
        let kind = format!("{media}.layer.v1.tar+gzip");
        let layers: Vec<_> = layers.iter().map(|l| self.blob(name, &l.packed, &kind)).collect();
        let kind = format!("{media}.manifest.v1+json");
        let manifest =
            json!({"schemaVersion": 2, "mediaType": kind, "config": config, "layers": layers});
        let text = manifest.to_string().into_bytes();
        self.0.insert(format!("/v2/{name}/manifests/1"), (kind, text));
    }

    /// Adds a blob, and describes it.
    fn blob(&mut self, name: &str, bytes: &[u8], kind: &str) -> serde_json::Value {
        let digest = Digest::of(bytes);
        let path = format!("/v2/{name}/blobs/{digest}");
        self.0.insert(path, (kind.to_owned(), bytes.to_vec()));
        json!({"mediaType": kind, "digest": digest.to_string(), "size": bytes.len()})
    }

    /// Serves them until this process ends; the registry's name.
    pub(super) fn serve(self) -> Result<String> {
        let listener = TcpListener::bind("127.0.0.1:0").context("listen as a registry")?;
        let name = listener.local_addr().context("listen as a registry")?.to_string();
        let answers = Arc::new(self.0);
        std::thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let answers = answers.clone();
                // The client sees what was not sent.
                std::thread::spawn(move || drop(answer(socket, &answers)));
            }
        });
        Ok(name)
    }
}

fn answer(mut socket: TcpStream, answers: &Answers) -> std::io::Result<()> {
    let mut lines = BufReader::new(&socket).lines();
    let first = lines.next().transpose()?.unwrap_or_default();
    while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
    let path = first.split(' ').nth(1).unwrap_or_default();
    let (status, kind, body) = match answers.get(path) {
        Some((kind, body)) => ("200 OK", kind.as_str(), body.as_slice()),
        None if path == "/v2/" => ("200 OK", "application/json", &b"{}"[..]),
        None => ("404 Not Found", "application/json", &b"{}"[..]),
    };
    let length = body.len();
    write!(
        socket,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n"
    )?;
    socket.write_all(body)
}
