/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
 *
 * Capture into mapped memory: what programs and src/capture.rs share.
 *
 * Each CPU with a ring has a row of chunks in the map nl_tap_ring, and a struct nl_tap_cpu in the map
 * nl_tap_cpus. Programs append whole pcapng blocks to the current chunk and publish each by `tail`. A
 * block may begin anywhere in the chunk's first `mask + 1` bytes and may reach beyond them; a chunk that
 * is full up to there is closed: its length is stored, and then the next one's number is published.
 * User space gives chunks back in order, by `freed`.
 */
#ifndef NETLOOM_CAPTURE_H
#define NETLOOM_CAPTURE_H

#include <linux/types.h>

/* What a block has beside its data: header, padding, options, second length; rounded up. */
#define NL_TAP_BESIDE 64
/* The most bytes of a frame that are kept: 64 KiB of an offloaded segment with its headers and a tag. */
#define NL_TAP_MOST 65664

/* Fixed before loading. */
struct nl_tap_options {
	__u32 mask; /* bytes of a chunk in which blocks begin, a power of two, less one */
	__u32 most; /* bytes kept of a frame, at most NL_TAP_MOST, at least 1 */
	__u32 interface; /* as blocks name it */
	__s32 verdict; /* what programs return */
	__u32 direction; /* 1: blocks say their direction; 0: only if they have other flags */
	__u32 tai; /* 1: the clock is TAI; 0: monotonic */
	__u32 weak; /* 1: this machine may reorder stores */
	__u32 words; /* 1: 8 bytes may be read and written at any address */
	__u32 others; /* 1: frames for other stations end at XDP where nobody else would see them */
	__u32 veth; /* 1: the interface is an end of a veth pair, whose polls are known */
};
_Static_assert(sizeof(struct nl_tap_options) == 40, "written as ten half words");

/* Of one CPU; two pairs of cache lines, the first written by programs, the second by user space. */
struct nl_tap_cpu {
	__u64 tail; /* the current chunk's number << 32 | bytes published in it */
	__u64 offered; /* frames that came here, but for nested ones */
	__u64 filtered; /* of these, that the filter did not take */
	__u64 captured; /* in the ring */
	__u64 truncated; /* of these, not whole */
	__u64 lost; /* for which no chunk was free */
	__u64 nested; /* frames met while another one was being written: offered and lost */
	__u32 slot; /* the current chunk's place in the row */
	__u32 busy; /* a frame is being written */
	__u64 poll; /* in which the clock was read */
	__u64 time; /* what it was then */
	__u64 left; /* frames of this poll for which it need not be read */
	__u64 pad[5];
	__u64 offset; /* to be added to the clock for Unix time, ns; wraps round */
	__u32 freed; /* how many chunks were given back */
	__u32 base; /* the first chunk of the row */
	__u32 chunks; /* how many; 0: this CPU has no ring */
	__u32 pad2;
	__u64 pad3[13];
};
_Static_assert(sizeof(struct nl_tap_cpu) == 256, "a page has whole ones");
_Static_assert(__builtin_offsetof(struct nl_tap_cpu, offset) == 128, "lines of its own");

/* A value of nl_tap_ring: mask + 1 bytes and the longest block's more. */
struct nl_tap_chunk {
	__u64 length; /* once it is closed */
	__u8 bytes[];
};

#endif
