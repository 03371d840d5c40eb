//! The readers of kernel bytes take anything.

use proptest::prelude::*;

use super::*;
use crate::decode::{answer, messages};

proptest! {
    #[test]
    fn no_bytes_make_a_reader_panic(datagram in proptest::collection::vec(any::<u8>(), 0..512)) {
        for message in messages(&datagram) {
            let _ = answer(&message);
        }
        for kind in [RTM_NEWLINK, RTM_NEWADDR, RTM_NEWROUTE] {
            for flags in [0, ACK_TLVS, ACK_TLVS | CAPPED] {
                let message = Message { kind, flags, sequence: 1, payload: &datagram };
                let _ = (read_link(&message), read_address(&message), read_route(&message));
                let _ = answer(&message);
            }
        }
        let _ = next_hops(&datagram).count();
    }

    #[test]
    fn walks_end(datagram in proptest::collection::vec(any::<u8>(), 0..512)) {
        prop_assert!(messages(&datagram).count() <= datagram.len() / HEADER + 1);
        prop_assert!(attributes(&datagram).count() <= datagram.len() / 4 + 1);
    }
}
