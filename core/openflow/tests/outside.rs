//! What must hold for any bytes: shared by the tests and the fuzz target.

use netloom_openflow::multipart::{FlowCounts, MORE};
use netloom_openflow::{Message, MultipartReply, Reply, decode, encode};

/// Decodes; what is accepted is encoded to the same bytes, but for padding that was not zero.
pub fn try_message(bytes: &[u8]) -> Option<Message> {
    // It takes any bytes, too.
    let _ = FlowCounts::of_message(bytes);
    let (header, message) = match decode(bytes) {
        Ok(read) => read,
        Err(refused) => {
            let answer = refused.answer(netloom_openflow::Version::V13, bytes);
            assert!(answer.data.len() <= 64);
            assert!(!refused.to_string().is_empty());
            return None;
        }
    };
    let Some(version) = header.version() else { return Some(message) };
    let again = encode(version, header.xid, &message).expect("encode what was decoded");
    assert_eq!(again.len(), usize::from(header.length));
    for (index, (written, read)) in again.iter().zip(bytes).enumerate() {
        assert!(written == read || *written == 0, "byte {index} of {message:?}");
    }
    let counts = match &message {
        Message::MultipartReply(MultipartReply { flags, body: Reply::Flow(all) }) => {
            let counts = all.iter().map(FlowCounts::from).collect();
            Some((header.xid, flags & MORE != 0, counts))
        }
        _ => None,
    };
    assert_eq!(FlowCounts::of_message(bytes), counts);
    let (_, same) = decode(&again).expect("decode what was encoded");
    assert_eq!(same, message);
    Some(message)
}
