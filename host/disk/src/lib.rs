//! Large files written past the page cache, in order.
