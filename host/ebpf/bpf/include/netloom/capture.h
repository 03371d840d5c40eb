/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
 *
 * Capture into mapped memory: definitions shared by the programs and src/capture.rs.
 *
 * Each CPU with a ring has a row of chunks in the map nl_tap_ring, and a struct nl_tap_cpu in the
 * map nl_tap_cpus. Programs append whole pcapng blocks to the current chunk and publish each by
 * `tail`. A block may begin anywhere in the chunk's first `mask + 1` bytes and may extend beyond
 * them. A chunk full up to there is closed: its length is stored, then the next one's number is
 * published. User space gives chunks back in order, by `freed`. It looks for blocks by itself, and
 * where none have come for a while it sets `waits` and polls the map nl_tap_bell.
 */
#ifndef NETLOOM_CAPTURE_H
#define NETLOOM_CAPTURE_H

#include <linux/types.h>

/* Overhead of a block beside its data: header, padding, options, second length; rounded up. */
#define NL_TAP_BESIDE 64
/* The most bytes kept of a frame: 64 KiB of a super-frame with its headers and a tag. */
#define NL_TAP_MOST 65664

/* Fixed before loading. */
struct nl_tap_options {
	__u32 mask; /* bytes of a chunk in which blocks begin, a power of two, minus one */
	__u32 most; /* bytes kept of a frame, at most NL_TAP_MOST, at least 1 */
	__u32 interface; /* its number in blocks */
	__s32 verdict; /* the programs' return value */
	__u32 direction; /* 1: blocks state their direction; 0: only with other flags */
	__u32 tai; /* 1: the clock is TAI; 0: monotonic */
	__u32 weak; /* 1: this machine may reorder stores */
	__u32 words; /* 1: 8 bytes may be read and written at any address */
	__u32 others; /* 1: frames for other stations end at XDP if nothing else would see them */
	__u32 veth; /* 1: the interface is an end of a veth pair, whose polls can be told apart */
};
_Static_assert(sizeof(struct nl_tap_options) == 40, "written as ten half words");

/* One CPU's words; two pairs of cache lines, the first written by programs, the second by user space. */
struct nl_tap_cpu {
	__u64 tail; /* the current chunk's number << 32 | bytes published in it */
	__u64 offered; /* frames that arrived, without nested ones */
	__u64 filtered; /* of these, rejected by the filter */
	__u64 captured; /* in the ring */
	__u64 truncated; /* of these, cut short */
	__u64 lost; /* frames for which no chunk was free */
	__u64 nested; /* frames that arrived while another was being written: offered and lost */
	__u32 slot; /* the current chunk's place in the row */
	__u32 busy; /* a frame is being written */
	__u64 poll; /* the poll in which the clock was read */
	__u64 time; /* its reading */
	__u64 left; /* frames of this poll that may still use it */
	__u64 pad[5];
	__u64 offset; /* the clock's offset to Unix time, ns, modulo 2^64 */
	__u32 freed; /* chunks given back so far */
	__u32 base; /* the first chunk of the row */
	__u32 chunks; /* their number; 0: this CPU has no ring */
	__u32 waits; /* user space sleeps: the next block rings the bell, and clears this */
	__u64 pad3[13];
};
_Static_assert(sizeof(struct nl_tap_cpu) == 256, "a page has whole ones");
_Static_assert(__builtin_offsetof(struct nl_tap_cpu, offset) == 128, "lines of its own");

/* A value of nl_tap_ring: mask + 1 bytes plus the excess of the longest block. */
struct nl_tap_chunk {
	__u64 length; /* set when it is closed */
	__u8 bytes[];
};

#endif
