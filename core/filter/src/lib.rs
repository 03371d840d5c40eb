//! Classic BPF filters: checked, run over bytes, and turned into eBPF.

#![forbid(unsafe_code)]
