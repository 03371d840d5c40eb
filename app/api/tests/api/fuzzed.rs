//! The document and the server compared by schemathesis, with all its checks: part of `make fuzz`.

use std::process::Command;

use super::crowds::OnPort;
use super::fake::Served;

/// Where `make peers` installs it.
const PROGRAM: &str = "/usr/local/lib/netloom-peers/schemathesis/bin/schemathesis";

#[test]
fn the_server_does_what_the_document_says() {
    // Only there: it asks some hundred times for each operation.
    let Ok(cases) = std::env::var("NETLOOM_API_CASES") else { return };
    let program = std::env::var("NETLOOM_SCHEMATHESIS").unwrap_or_else(|_| PROGRAM.to_owned());
    let server = OnPort::new(Some(Served::new()));
    let token = format!("Authorization: Bearer {}", server.token.text());
    let document = format!("http://127.0.0.1:{}/v1/openapi.json", server.port);
    // It keeps what it found in its working folder.
    let folder = tempfile::tempdir().unwrap();
    let ran = Command::new(program)
        .current_dir(folder.path())
        .args([
            "--config-file",
            concat!(env!("CARGO_MANIFEST_DIR"), "/tests/api/schemathesis.toml"),
        ])
        .args(["run", &document, "--header", &token, "--checks", "all", "--seed", "1"])
        .args(["--max-examples", &cases, "--no-color"])
        // Sessions attach programs to this machine's interfaces.
        .args(["--exclude-path-regex", "^/pnpm"])
        .status()
        .unwrap();
    assert!(ran.success(), "{ran}");
}
