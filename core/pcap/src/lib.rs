//! Capture files, pcap and pcapng: bytes to blocks and back.

#![forbid(unsafe_code)]
