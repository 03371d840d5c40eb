//! A registry that does as a test tells it, on loopback, in a thread for each connection.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use netloom_oci::Digest;
use serde_json::json;

/// A request: its path and its headers, names in lower case.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
}

impl Request {
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// The treatment of a request; `false`: nothing special.
pub(crate) type Trick = dyn Fn(&Request, &mut TcpStream) -> bool + Send + Sync;

/// A registry with one image, `NAME:1`.
pub(crate) struct Server {
    pub(crate) address: String,
    pub(crate) asked: Arc<Mutex<Vec<Request>>>,
}

/// An image of these packed layers: manifest and configuration.
pub(crate) fn documents(layers: &[Vec<u8>]) -> (String, String) {
    let ids: Vec<String> = layers.iter().map(|l| Digest::of(l).to_string()).collect();
    let config = json!({
        "os": "linux", "architecture": netloom_oci::manifest::Platform::linux(std::env::consts::ARCH).architecture,
        "config": {"Env": ["A=b"], "Cmd": ["sh"]},
        "rootfs": {"type": "layers", "diff_ids": ids},
    })
    .to_string();
    let layer = |(bytes, digest): (&Vec<u8>, &String)| {
        json!({
            "mediaType": "application/vnd.oci.image.layer.v1.tar",
            "digest": digest, "size": bytes.len(),
        })
    };
    let manifest = json!({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": {
            "mediaType": "application/vnd.oci.image.config.v1+json",
            "digest": Digest::of(config.as_bytes()).to_string(), "size": config.len(),
        },
        "layers": layers.iter().zip(&ids).map(layer).collect::<Vec<_>>(),
    })
    .to_string();
    (manifest, config)
}

impl Server {
    /// Serves an image of these layers; `trick` comes first.
    pub(crate) fn start(
        layers: Vec<Vec<u8>>,
        trick: impl Fn(&Request, &mut TcpStream) -> bool + Send + Sync + 'static,
    ) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (trick, layers): (Arc<Trick>, _) = (Arc::new(trick), Arc::new(layers));
        let heard = asked.clone();
        std::thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let (trick, layers, heard) = (trick.clone(), layers.clone(), heard.clone());
                std::thread::spawn(move || answer(socket, &*trick, &layers, &heard));
            }
        });
        Server { address, asked }
    }

    pub(crate) fn image(&self) -> netloom_oci::Reference {
        format!("{}/a/b:1", self.address).parse().unwrap()
    }

    pub(crate) fn count(&self, part: &str) -> usize {
        self.asked.lock().unwrap().iter().filter(|r| r.path.contains(part)).count()
    }
}

fn answer(mut socket: TcpStream, trick: &Trick, layers: &[Vec<u8>], heard: &Mutex<Vec<Request>>) {
    let Some(request) = read(&socket) else { return };
    heard.lock().unwrap().push(request.clone());
    if trick(&request, &mut socket) {
        return;
    }
    let (manifest, config) = documents(layers);
    let digest = request.path.rsplit('/').next().unwrap_or_default();
    let is_manifest = request.path.contains("/manifests/");
    let blob = layers
        .iter()
        .map(Vec::as_slice)
        .chain([config.as_bytes()])
        .find(|bytes| Digest::of(bytes).to_string() == digest);
    match (request.path.as_str(), is_manifest, blob) {
        ("/v2/", ..) => say(&mut socket, "200 OK", "", b"{}"),
        (_, true, _) if digest == "1" || digest == Digest::of(manifest.as_bytes()).to_string() => {
            let kind = "Content-Type: application/vnd.oci.image.manifest.v1+json\r\n";
            say(&mut socket, "200 OK", kind, manifest.as_bytes());
        }
        (_, false, Some(bytes)) => send(&mut socket, &request, bytes),
        _ => say(&mut socket, "404 Not Found", "", b"{}"),
    }
}

/// Sends a blob, or its part.
pub(crate) fn send(socket: &mut TcpStream, request: &Request, bytes: &[u8]) {
    let begin = begin_of(request).unwrap_or(0);
    if begin == 0 {
        return say(socket, "200 OK", "", bytes);
    }
    let range = format!("Content-Range: bytes {begin}-{}/{}\r\n", bytes.len() - 1, bytes.len());
    say(socket, "206 Partial Content", &range, &bytes[begin..]);
}

/// Where a wanted part begins.
pub(crate) fn begin_of(request: &Request) -> Option<usize> {
    let range = request.get("range")?.strip_prefix("bytes=")?;
    range.strip_suffix('-')?.parse().ok()
}

/// A whole answer.
pub(crate) fn say(socket: &mut TcpStream, status: &str, headers: &str, body: &[u8]) {
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n{headers}\r\n", body.len());
    let _ = socket.write_all(head.as_bytes()).and_then(|()| socket.write_all(body));
}

fn read(socket: &TcpStream) -> Option<Request> {
    let mut lines = BufReader::new(socket).lines();
    let first = lines.next()?.ok()?;
    let path = first.split(' ').nth(1)?.to_owned();
    let mut headers = Vec::new();
    for line in lines {
        let line = line.ok()?;
        let Some((name, value)) = line.split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    Some(Request { path, headers })
}
