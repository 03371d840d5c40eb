//! Bytes from outside, read as everything that they may be: for seeds and the fuzz target.

use netloom_oci::entry::{self, Action};
use netloom_oci::head::Head;
use netloom_oci::manifest::{Config, Document};
use netloom_oci::tape::{BLOCK, Step, Tape};
use netloom_oci::{Reference, Source, archive, challenge};

/// Reads an archive as far as it goes.
fn layer(mut bytes: &[u8]) {
    let mut tape = Tape::default();
    let mut is_more = false;
    while let Some((block, rest)) = bytes.split_first_chunk::<BLOCK>() {
        bytes = rest;
        let step = if is_more { tape.more(block) } else { tape.block(block) };
        let Ok(step) = step else { return };
        is_more = step == Step::More;
        match step {
            Step::End => return,
            Step::Nothing | Step::More => {}
            Step::Text(length) => {
                let length = usize::try_from(length).unwrap().min(bytes.len());
                if tape.text(&bytes[..length]).is_err() {
                    return;
                }
                bytes = &bytes[length.next_multiple_of(BLOCK).min(bytes.len())..];
            }
            Step::Entry(found) => {
                let action = entry::action(&found);
                if let Ok(Action::Make(parts) | Action::Hide(parts) | Action::HideAll(parts)) =
                    action
                {
                    for part in parts {
                        assert!(
                            !part.is_empty()
                                && part != b".."
                                && part != b"."
                                && !part.contains(&b'/')
                        );
                    }
                }
                let size = usize::try_from(found.size).unwrap_or(usize::MAX).min(bytes.len());
                bytes = &bytes[size..];
            }
        }
    }
}

/// Reads bytes as whatever their first byte says.
pub fn try_bytes(bytes: &[u8]) {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    match kind % 4 {
        0 => layer(bytes),
        1 => {
            let _ = Document::read(bytes, None);
            let _ = Config::read(bytes);
            let _ = archive::saved(bytes);
        }
        2 => {
            let Ok(text) = std::str::from_utf8(bytes) else { return };
            if let Ok(name) = text.parse::<Reference>() {
                assert_eq!(name.to_string().parse::<Reference>().unwrap(), name);
            }
            let _ = text.parse::<Source>();
            let _ = challenge::Challenge::read(text);
        }
        _ => {
            let value = String::from_utf8_lossy(bytes).into_owned();
            let names = ["content-range", "retry-after"];
            let headers = names.map(|name| (name.to_owned(), value.clone())).into();
            let head = Head { status: 206, headers };
            let _ = (head.begins_at(), head.retry_after());
        }
    }
}
