/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
 *
 * Generated frames: map values, as src/generate.rs writes and reads them.
 */
#ifndef NETLOOM_GENERATE_H
#define NETLOOM_GENERATE_H

#include <linux/types.h>

/* Ethernet, IPv4 or IPv6, UDP, and the stamp behind them (netloom_traffic::Stamp). */
#define NL_GEN_V4_HEAD 60
#define NL_GEN_V6_HEAD 80
/* Flows differ in their source port, of which there are this many, and then in their source address. */
#define NL_GEN_FIRST_PORT 49152
#define NL_GEN_PORT_BITS 14

/* nl_gen_what: the frames to send. Written before the first run, never by a program. */
struct nl_gen_what {
	__u8 head[NL_GEN_V6_HEAD]; /* the constant part of all frames; variable fields are zero */
	__u32 constant; /* the sum of the constant part under the checksum */
	__u32 source; /* the last 32 bits of the first flow's source address */
	__u32 flows;
	__u32 lengths; /* entries of nl_gen_lengths */
	__u32 longest; /* the length of the kernel's frame */
	__u32 clock_every; /* frames per clock reading; 0: one reading a run */
};
_Static_assert(sizeof(struct nl_gen_what) == 104, "written as 13 words");

/* nl_gen_run: progress. Written by user space between runs. */
struct nl_gen_run {
	__u64 left; /* frames still to make */
	__u64 next; /* the next sequence number */
	__u64 flow; /* of the next frame */
	__u64 length; /* the next frame's entry in nl_gen_lengths */
	__u64 clock_offset; /* from CLOCK_MONOTONIC to Unix time, modulo 2^64 */
	__u64 clock_left; /* frames until the next clock reading */
	__u64 time; /* the reading, as Unix time in nanoseconds */
	__u64 bytes; /* of all frames made, without check sequence */
};
_Static_assert(sizeof(struct nl_gen_run) == 64, "read as 8 words");

/* nl_gen_took: what the interface accepted, and the sending thread, which identifies its frames. */
struct nl_gen_took {
	__u64 taken;
	__u64 refused;
	__u64 thread; /* process and thread, by the sender's PID namespace */
	__u64 pidns_dev; /* that namespace */
	__u64 pidns_inode;
	__u64 ifindex;
};
_Static_assert(sizeof(struct nl_gen_took) == 48, "read as 6 words");

#endif
